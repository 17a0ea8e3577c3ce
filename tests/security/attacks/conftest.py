"""One folder tree full of traps with one server for each worker; both are checked after each module."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import mcp_types as t
import pytest

from gdal_mcp.runtime.image import Image
from tests.data.make import make_data
from tests.e2e.mcp.attack_files import EARLY, TYPED, UNSAFE, everything, started_calls
from tests.e2e.mcp.conftest import Containers, containers
from tests.e2e.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import Oracle, oracle_over
from tests.oracle.fixtures import grounds
from tests.security.attacks.careless import Careless
from tests.security.attacks.ground import Ground, lay_ground, lay_network
from tests.security.attacks.leaks import code, discreet, leaked
from tests.security.attacks.listener import Listener, listening
from tests.security.attacks.table import Call
from tests.security.attacks.traps_table import lay_table

__all__ = ["containers", "grounds"]
Key = TypeVar("Key")

SETTINGS = tuple("--approval never --timeout-seconds 60 --memory 512MiB --log-level debug".split())
# files that calls of the table change on purpose
MOVED = ("r27.tif", "x16.vrt", "x20n.vrt", "x22.vrt", "x24.vrt")
_TRIES = 3  # attempts of a call for which the engine has no capacity


@pytest.fixture(scope="session")
def data(grounds: Path, oracle: Oracle) -> Path:
    folder = grounds / "attack-data"
    folder.mkdir()
    make_data(oracle, folder)
    return folder


@pytest.fixture(scope="session")
def ground(grounds: Path, oracle: Oracle, data: Path) -> Ground:
    """The folder tree. No test may change its files; a test that changes files adds its own."""
    folders = lay_ground(Place.made(grounds / "attacked"), oracle, data)
    lay_table(folders.place, folders.outside)
    return folders


@pytest.fixture(scope="session")
def listener() -> Iterator[Listener]:
    with listening() as server:
        yield server


@pytest.fixture(scope="session")
def remote(ground: Ground, listener: Listener) -> list[str]:
    """The names of the traps that lead to the listener."""
    return lay_network(ground, listener)


@pytest.fixture(scope="session")
def careless(grounds: Path, image: Image, ground: Ground) -> Iterator[Careless]:
    with oracle_over(image.id, grounds, "host") as oracle:
        yield Careless(oracle)


@dataclass(frozen=True)
class Attacked:
    """A server in this folder tree, with checks that it survived the attacks."""

    talk: Talk
    ground: Ground
    containers: Containers
    before: dict[str, dict[str, bytes | str]]

    @property
    def place(self) -> Place:
        return self.ground.place

    def together(self, calls: Mapping[Key, Call], talk: Talk | None = None) -> dict[Key, t.CallToolResult]:
        """The results of calls made at the same time; a call that occurs several times is made once.

        If a busy cluster has no room for a call, the call is repeated after the others have ended, as its answer
        says.
        """
        once = {json.dumps(call): call for call in calls.values()}
        ended: dict[str, t.CallToolResult] = {}
        for _ in range(_TRIES):
            pending = {
                key: call for key, call in once.items() if key not in ended or code(ended[key]) == "BUSY"
            }
            under_way = {
                key: (talk or self.talk).start(tool, **arguments)
                for key, (tool, arguments) in pending.items()
            }
            ended |= {text: call.result(timeout=500) for text, call in under_way.items()}
        return {key: ended[json.dumps(call)] for key, call in calls.items()}

    def refuses(self, calls: Mapping[Key, Call], talk: Talk | None = None) -> dict[Key, t.CallToolResult]:
        """Checks that every call is refused with a typed error that reveals nothing, before a container starts."""
        ends = self.together(calls, talk)
        errors = {key: (end.structured_content or {}).get("error", {}) for key, end in ends.items()}
        amiss = {key: end.structured_content for key, end in ends.items() if errors[key].get("code") not in TYPED or errors[key]["stage"] not in EARLY}  # fmt: skip
        assert amiss == {}, amiss
        assert not {error["call_id"] for error in errors.values()} & started_calls(self.place)
        assert [key for key, end in ends.items() if not discreet(end)] == []
        assert [key for key, end in ends.items() if UNSAFE.search(str(end.structured_content))] == []
        return ends

    def check_unharmed(self, log: Path) -> None:
        """Checks that the server answers, that no trace of its calls is left, and that no input or outside file
        changed.
        """
        assert self.talk.done("info", path="ok.tif")["size"] == [20, 20]
        assert self.containers.none_of(self.place.owners)
        assert self.place.staged == []
        assert everything(self.ground.outside) == self.before["outside"]
        self._unspoilt(log)

    def _unspoilt(self, log: Path) -> None:
        inside, after = self.before["inside"], everything(self.place.workspace)
        changed = [name for name, content in inside.items() if after.get(name) != content]
        assert [name for name in changed if Path(name).name not in MOVED] == []
        assert [name for name in after if "PWNED" in name] == []
        added = {name: content for name, content in after.items() if name not in inside}
        state_files = {str(path): path.read_bytes() for path in self.place.state.rglob("*") if path.is_file()}
        for name, content in {**added, **state_files, str(log): log.read_bytes()}.items():
            assert not leaked(content.encode(errors="replace") if isinstance(content, str) else content), name


@pytest.fixture(scope="session")
def _server(ground: Ground, remote: list[str], grounds: Path) -> Iterator[Talk]:
    with talking(ground.place.command(*SETTINGS), grounds / "attacked.log", person=Person()) as talk:
        yield talk


@pytest.fixture
def hurried(attacked: Attacked, grounds: Path) -> Iterator[Talk]:
    """A server in the same folder tree that ends a call after three seconds."""
    command = [*attacked.place.command(*SETTINGS), "--timeout-seconds", "3"]
    with talking(command, grounds / "hurried.log", person=Person()) as talk:
        yield talk


@pytest.fixture(scope="module")
def attacked(_server: Talk, ground: Ground, grounds: Path, containers: Containers) -> Iterator[Attacked]:
    before = {"outside": everything(ground.outside), "inside": everything(ground.place.workspace)}
    target = Attacked(_server, ground, containers, before)
    yield target
    target.check_unharmed(grounds / "attacked.log")
