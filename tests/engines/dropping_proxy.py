"""A socket in front of a real engine that takes fields out of every container that is asked for, and says nothing of it."""

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.engine_proxy import EngineProxy

Change = Callable[[dict[str, Any]], None]
_CREATE = re.compile(rb"^POST \S*/containers/create[? ]")
_LENGTH = re.compile(rb"(?i)(content-length: )(\d+)")


class DroppingProxy(EngineProxy):
    """`change` is done to the body of each create on its way. `changed` counts them."""

    def __init__(self, path: Path, engine: str, change: Change) -> None:
        self.change, self.changed = change, 0
        super().__init__(path, engine)

    def _forward(self, source: socket.socket, target: socket.socket, asking: bool) -> None:
        super()._forward(_Rewritten(source, self._rewritten) if asking else source, target, asking)

    def _rewritten(self, head: bytes, body: bytes) -> bytes:
        asked = json.loads(body)
        self.change(asked)
        self.changed += 1
        changed = json.dumps(asked).encode()
        return _LENGTH.sub(rb"\g<1>%d" % len(changed), head) + b"\r\n\r\n" + changed


class _Rewritten:
    """A connection whose creates are read whole and changed; anything else passes as it comes."""

    def __init__(self, source: socket.socket, rewrite: Callable[[bytes, bytes], bytes]) -> None:
        self._source, self._rewrite = source, rewrite

    def recv(self, count: int) -> bytes:
        data = self._source.recv(count)
        if not _CREATE.match(data):
            return data
        while b"\r\n\r\n" not in data:
            data += self._source.recv(count)
        head, body = data.split(b"\r\n\r\n", 1)
        found = _LENGTH.search(head)
        assert found
        while len(body) < int(found[2]):
            body += self._source.recv(count)
        return self._rewrite(head, body)

    def shutdown(self, how: int) -> None:
        self._source.shutdown(how)
