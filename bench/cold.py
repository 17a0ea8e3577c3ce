"""Cold calls against `docker run` and against the plain process."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.arena import ALWAYS_COLD, Arena, NotMeasurable
from bench.clients import sdk_client
from bench.inprocess import InProcess
from bench.receipts import Receipts, noted
from bench.report import Goal, Section, milliseconds
from bench.rest import Containers, Resting, containers
from bench.rivals import Plain, docker_run, hardened_flags, usual_flags
from bench.series import Effort, Series, in_turn, timed
from gdal_mcp.gdal.environment import environment
from sandbox.template import STAGING_TARGET

SERVER = "gdal-mcp over stdio, cold"
DIRECT = "gdal-mcp in process, cold, without the protocol"
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
    """All contenders but the servers, which each table starts for itself."""

    arena: Arena
    direct: InProcess
    plain: Plain
    hardened: tuple[str, ...]
    usual: tuple[str, ...]
    containers: Containers


@contextmanager
def ready(arena: Arena, direct: InProcess, plain: Plain) -> Iterator[Field]:
    host = direct.app.hosting.ready()
    template = direct.app.hosting.template(host.image, arena.scratch)
    with hardened_flags(template, host.info) as hardened, containers(arena) as seen:
        yield Field(arena, direct, plain, hardened, usual_flags(arena), seen)


def measure(field: Field, case: Case, effort: Effort) -> Section:
    """One table: every contender, and how ours compares with each. The server keeps no slots."""
    receipts, gone = Receipts(), Resting(field.containers, 0)
    with sdk_client(field.arena.serving(*ALWAYS_COLD)) as call:
        ours = {
            SERVER: gone.after(
                lambda: noted(lambda: call(case.tool, arguments(field.arena, case)), receipts)
            ),
            DIRECT: gone.after(
                lambda: timed(lambda: field.direct.call(case.tool, arguments(field.arena, case)))
            ),
        }
        found = in_turn({**ours, **rivals(field, case)}, effort)
    if receipts.warm_share:
        raise NotMeasurable("a call that was to be cold had a warm slot")
    reason = f"of it {receipts.told(warm=False)}"
    ratio = found[SERVER].over(found[HARDENED])
    goal = Goal(f"{case.title}, against {HARDENED}", 1.0, ratio, reason=reason)
    return Section(case.title, compared_note(found[SERVER]), COMPARED, compared(found, SERVER), (goal,))


COMPARED = ("contender", "p50 ms", "p95 ms", "ours / it")


def compared_note(ours: Series) -> str:
    return (
        f"{len(ours.seconds)} rounds. The last column is our time over stdio divided by that row's, "
        "the median over the rounds."
    )


def compared(found: Mapping[str, Series], ours: str) -> list[tuple[str, ...]]:
    """A row for each contender, with how ours compares."""
    return [
        (
            name,
            milliseconds(one.p50),
            milliseconds(one.p95),
            "" if name == ours else f"{found[ours].over(one):.{2 if found[ours].over(one) >= 0.1 else 3}f}",
        )
        for name, one in found.items()
    ]


def rivals(field: Field, case: Case) -> dict[str, Callable[[], float]]:
    """The same command by `docker run` and as a plain process."""
    words = argv(field, case)
    settings = environment(field.direct.app.settings.limits())
    arena = field.arena

    def fresh(place: str) -> list[str]:
        return [word.replace("OUTPUT", f"{place}/{arena.new_name()}") for word in words]

    return {
        HARDENED: lambda: timed(lambda: docker_run(arena, field.hardened, fresh(str(STAGING_TARGET)))),
        USUAL: lambda: timed(lambda: docker_run(arena, field.usual, fresh(str(arena.scratch)))),
        PLAIN: lambda: field.plain.run(fresh(str(arena.scratch)), settings),
    }


def arguments(arena: Arena, case: Case) -> dict[str, Any]:
    return {**case.arguments, **({"output": arena.new_name()} if case.writes else {})}


def argv(field: Field, case: Case) -> list[str]:
    """The very command that a call runs, from its receipt, with OUTPUT for the path that it writes."""
    receipt = field.direct.call(case.tool, arguments(field.arena, case))["receipt"]
    return [_without_place(word) for word in receipt["argv"]]


def _without_place(word: str) -> str:
    before, place, _name = word.partition(f"{STAGING_TARGET}/")
    return f"{before}OUTPUT" if place else word
