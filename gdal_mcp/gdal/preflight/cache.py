"""Headers by the file that they are of, so that a format which only GDAL reads is known once GDAL has read it."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.headers import read_header
from sandbox.workspace import Identity, Located

DEFAULT_SIZE: Final = 4096  # headers, as many as a call names files; less than two megabytes


@dataclass(slots=True)
class HeaderCache:
    """The headers of the files that were asked for last. For several threads.

    A file that was changed, or another one at the same path, has another identity and so no header here.
    """

    size: int = DEFAULT_SIZE
    read: Callable[[Located], Header | None] = read_header
    _headers: OrderedDict[tuple[str, Identity], Header | None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, located: Located) -> Header | None:
        """What is known of a file; its beginning is read when nothing is. None if nothing can be told."""
        if located.identity is None:
            return None
        key = (str(located), located.identity)
        with self._lock:
            if key in self._headers:
                self._headers.move_to_end(key)
                return self._headers[key]
        header = self.read(located)
        self._keep(key, header)
        return header

    def put(self, located: Located, header: Header) -> None:
        """Remembers what GDAL said of a file. `located` is the file as it is now, with its identity."""
        if located.identity is not None:
            self._keep((str(located), located.identity), header)

    def _keep(self, key: tuple[str, Identity], header: Header | None) -> None:
        """What cannot be read is kept, too: a call asks several times, and may name many such files."""
        with self._lock:
            self._headers[key] = header
            self._headers.move_to_end(key)
            while len(self._headers) > self.size:
                self._headers.popitem(last=False)
