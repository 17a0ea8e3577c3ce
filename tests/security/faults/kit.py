"""A workspace with its servers, calls that wait at a point while a test breaks something, and the promised result of
each fault.
"""

import contextlib
import itertools
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docs
from gdal_mcp.records.audit_verification import verify
from tests.e2e.mcp.pipes import Pipes
from tests.e2e.mcp.talk import Place
from tests.security.faults.nursery import Nursery
from tests.security.faults.points import points
from tests.security.faults.scenes import Scene, outcome_of, tiff
from tests.security.faults.zygote import REACHED
from tests.waiting import until

_NUMBERS = itertools.count(1)
# seconds that a server waits for each answer of the engine or SQLite in tests of waiting; on a loaded machine, a
# healthy answer may take some seconds
PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """The promised error of a call if something breaks."""

    id: str
    fault: str
    code: str
    seconds: float
    left: str


_TABLE = Path(docs.__file__).with_name("faults.toml").read_text(encoding="utf-8")
ROWS = {row["id"]: Row(**row) for row in tomllib.loads(_TABLE)["fault"]}


def tells(row: str, call: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    """Checks that the answer of a call has the promised error code and came within the promised time."""
    started = time.monotonic()
    result = call()
    assert outcome_of(result) in ROWS[row].code.split(" or "), result
    assert time.monotonic() - started < ROWS[row].seconds
    assert result is not None
    return result


def at(module: str, text: str) -> str:
    """The name of the one point whose statement has this text."""
    [name] = [point.name for point in points() if point.module == module and text in point.text]
    return name


LEASE = at("execution", "self.hosting.kind(")
CREATE = at("slot", "engine.create(")
START = at("slot", "container.start(")
SEND = at("runner", "slot.wire.send(")
REMOVE = at("slot", "self.container.remove(")
PUBLISH = at("operation", "return staging.publish(")
STARTED = at("pipeline", "deps.records.record_start(call)")
USED = at("pipeline", "deps.approvals.service.consume(call.authorization)")
FINISHED = at("records", "self.audit.append(self._ending(")


def writes(output: str, before: bytes | None = None, approval: str = "never") -> Scene:
    """A scene with a call that creates one file."""
    old = {output: before} if before else {}
    return Scene(output, "convert", {"input": "in.tif", "output": output}, before=old, approval=approval)


@dataclass(frozen=True)
class Held:
    """A call whose server waits at a point."""

    pipes: Pipes
    scene: Scene
    identifier: int
    armed: Path

    def go_on(self) -> dict[str, Any] | None:
        self.armed.unlink()
        return self.answer()

    def answer(self) -> dict[str, Any] | None:
        return self.scene.finish(self.pipes, self.identifier)


@contextlib.contextmanager
def held_call(
    servers: Nursery,
    place: Place,
    scene: Scene,
    point: str,
    *options: str,
    clock: Path | str = "",
    patience: float = 0.0,
) -> Iterator[Held]:
    """A held call, with a person's approval if needed. The host is attested before, so only the call reaches the
    point.
    """
    armed = place.state / f"armed-{next(_NUMBERS)}"
    for name, contents in scene.before.items():
        place.path(name).write_bytes(contents)
    armed.write_text("")
    stop = {"point": point, "armed": armed, "dies": False, "patience": patience, "clock": clock}
    with servers.serving(place, "--approval", scene.approval, *options, **stop) as pipes:
        identifier = scene.begin(pipes)
        if scene.approval != "never":
            scene.say_yes(pipes)
        try:
            until(lambda: armed.read_text() == REACHED)
            yield Held(pipes, scene, identifier, armed)
        finally:
            armed.unlink(missing_ok=True)


def prepared_place(folder: Path, prepare: Callable[[Path], object] = lambda _workspace: None) -> Place:
    """A workspace that a container's user may enter, with a file to read. `prepare` gets the empty workspace."""
    for directory in (folder, *folder.parents[:3]):
        directory.chmod(directory.stat().st_mode | 0o055)
    place = Place.made(folder)
    prepare(place.workspace)
    place.path("in.tif").write_bytes(tiff(3))
    return place


def serves_again(servers: Nursery, place: Place, scene: Scene, *options: str) -> None:
    """Checks that a new server can make the same call and that both then leave nothing but files and records."""
    with servers.serving(place, "--approval", scene.approval, *options) as pipes:
        assert outcome_of(scene.call(pipes)) == "OK"
    assert place.staged == []
    assert place.owners == set()
    assert verify(place.state / "audit.jsonl").ok
