"""A gateway in front of the origin. The tests resolve host names themselves, because there is no name server."""

import ipaddress
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.policy.rates import Rates
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.remote.reading import RemoteReading
from gdal_mcp.settings.remote import RemoteSettings
from sandbox.questions import Answer, Op, Question
from tests.e2e.remote.origin import NAMES, Origin, origin

WHO = "local:ann"
DATA = random.Random(7).randbytes(3_000_000)


@dataclass
class Resolver:
    """Names with their addresses; later look-ups may give other addresses."""

    names: dict[str, list[list[str]]]
    lookups: Counter[str] = field(default_factory=Counter)

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> Sequence[Any]:
        try:
            addresses = [str(ipaddress.ip_address(host))]
        except ValueError:
            self.lookups[host] += 1
            if host not in self.names:
                raise socket.gaierror(socket.EAI_NONAME, "unknown") from None
            answers = self.names[host]
            addresses = answers[min(self.lookups[host], len(answers)) - 1]
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (address, port),
            )
            for address in addresses
        ]


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Origin, Path]]:
    folder = tmp_path_factory.mktemp("origin")
    with origin(folder) as server:
        yield server, folder / "ca.pem"


@pytest.fixture
def server(shared_server: tuple[Origin, Path]) -> Origin:
    shared = shared_server[0]
    shared.files = {"x.tif": DATA, "empty": b""}
    shared.etags.clear()
    shared.asked.clear()
    shared.special.clear()
    shared.latency, shared.sent = 0.0, 0
    return shared


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    fake = Resolver({name: [["127.0.0.1"]] for name in NAMES})
    monkeypatch.setattr(socket, "getaddrinfo", fake)
    return fake


Make = Callable[..., RemoteGateway]


@pytest.fixture
def make(
    server: Origin, shared_server: tuple[Origin, Path], resolver: Resolver, tmp_path: Path
) -> Iterator[Make]:
    """A gateway with the given sources, as texts or tables; data.test is the default source."""
    with ExitStack() as stack:
        rates = Rates(tmp_path / "usage.sqlite")
        stack.callback(rates.close)

        def new_gateway(
            *sources: str | Mapping[str, Any], narrowed: Any = None, **more: Any
        ) -> RemoteGateway:
            rows = [
                {"networks": ["127.0.0.0/8"], **({"at": source} if isinstance(source, str) else source)}
                for source in sources or (f"data.test:{server.port}",)
            ]
            values = {
                "source": rows, "ca": str(shared_server[1]), "silence_seconds": 30, "answer_seconds": 60,
            }  # fmt: skip
            settings = RemoteSettings.model_validate(values | more)
            gateway = RemoteGateway(
                settings, tmp_path / "remote", rates, narrowed or (lambda _principal: None)
            )
            return stack.enter_context(closing(gateway))

        yield new_gateway


@dataclass
class Call:
    """One call with its reader, and the questions of its container."""

    reading: RemoteReading
    name: str  # name of its first address in the container, below /vsihost/

    def look(self, name: str = "") -> Answer:
        return self.reading.answer(Question(1, Op.LOOK, name or self.name))

    def read(self, *ranges: tuple[int, int], name: str = "") -> Answer:
        return self.reading.answer(Question(1, Op.READ, name or self.name, ranges))

    def list(self, name: str) -> Answer:
        return self.reading.answer(Question(1, Op.LIST, name))


Opened = Callable[..., Call]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """A call that reads some addresses; closed at the end of the test."""
    with ExitStack() as stack:

        def open_call(
            gateway: RemoteGateway, *texts: str, who: str = WHO, seconds: float = 20.0, **more: Any
        ) -> Call:
            addresses, deadline = [gateway.address(text, who) for text in texts], time.monotonic() + seconds
            reading = gateway.open(addresses, principal=who, call_id="c1", deadline=deadline, **more)
            stack.callback(reading.close)
            reading.require_found()
            return Call(reading, f"1/{addresses[0].name}")

        yield open_call
