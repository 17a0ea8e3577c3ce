"""Cold calls against `docker run` and against the plain process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.arena import Arena
from bench.clients import Call
from bench.inprocess import InProcess
from bench.report import Goal, Section, milliseconds
from bench.rivals import Plain, docker_run, hardened_flags, usual_flags
from bench.series import Effort, Series, in_turn, timed
from gdal_mcp.environment import environment
from sandbox.template import STAGING_TARGET

SERVER = "gdal-mcp over stdio"
DIRECT = "gdal-mcp in process, without the protocol"
HARDENED = "`docker run`, the same argv and hardening"
USUAL = "`docker run`, the same argv, usual flags"
PLAIN = "plain process in the same root file system"


@dataclass(frozen=True, slots=True)
class Case:
    """One operation. A call that writes is given a new `output` name each time."""

    title: str
    tool: str
    arguments: Mapping[str, Any]
    writes: bool


@dataclass(frozen=True, slots=True)
class Field:
    """All contenders that are ready to run."""

    arena: Arena
    call: Call
    direct: InProcess
    plain: Plain
    hardened: tuple[str, ...]
    usual: tuple[str, ...]


@contextmanager
def ready(arena: Arena, call: Call, direct: InProcess, plain: Plain) -> Iterator[Field]:
    host = direct.app.hosting.ready()
    template = direct.app.hosting.template(host.image, arena.scratch)
    with hardened_flags(template, host.info) as hardened:
        yield Field(arena, call, direct, plain, hardened, usual_flags(arena))


def measure(field: Field, case: Case, effort: Effort) -> Section:
    """One table: every contender, and how ours compares with each."""
    found = in_turn(_contenders(field, case), effort)
    ours = found[SERVER]
    rows = [
        (
            name,
            milliseconds(one.p50),
            milliseconds(one.p95),
            "" if name == SERVER else f"{ours.over(one):.2f}",
        )
        for name, one in found.items()
    ]
    note = f"{len(ours.seconds)} rounds. The last column is our time over stdio divided by that row's, the median over the rounds."
    header = ("contender", "p50 ms", "p95 ms", "ours / it")
    return Section(case.title, note, header, rows, _goals(case, found))


def _goals(case: Case, found: Mapping[str, Series]) -> tuple[Goal, ...]:
    reason = "the worker loads Python as well as GDAL, and a call is checked, recorded and its container's end awaited"
    return (
        Goal(f"{case.title}, against {HARDENED}", 1.0, found[SERVER].over(found[HARDENED]), reason=reason),
    )


def _contenders(field: Field, case: Case) -> dict[str, Callable[[], float]]:
    words = _argv(field, case)
    settings = environment(field.direct.app.settings.limits())
    arena = field.arena

    def fresh(place: str) -> list[str]:
        return [word.replace("OUTPUT", f"{place}/{arena.new_name()}") for word in words]

    return {
        SERVER: lambda: timed(lambda: field.call(case.tool, arguments(arena, case))),
        DIRECT: lambda: timed(lambda: field.direct.call(case.tool, arguments(arena, case))),
        HARDENED: lambda: timed(lambda: docker_run(arena, field.hardened, fresh(str(STAGING_TARGET)))),
        USUAL: lambda: timed(lambda: docker_run(arena, field.usual, fresh(str(arena.scratch)))),
        PLAIN: lambda: field.plain.run(fresh(str(arena.scratch)), settings),
    }


def arguments(arena: Arena, case: Case) -> dict[str, Any]:
    return {**case.arguments, **({"output": arena.new_name()} if case.writes else {})}


def _argv(field: Field, case: Case) -> list[str]:
    """The very command that a call runs, from its receipt, with OUTPUT for the path that it writes."""
    receipt = field.direct.call(case.tool, arguments(field.arena, case))["receipt"]
    return [_without_place(word) for word in receipt["argv"]]


def _without_place(word: str) -> str:
    before, place, _name = word.partition(f"{STAGING_TARGET}/")
    return f"{before}OUTPUT" if place else word
