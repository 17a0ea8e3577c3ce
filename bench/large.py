"""Large work: what the container costs when GDAL has much to do."""

from dataclasses import dataclass, field
from typing import Any

from bench.arena import Arena
from bench.clients import Call
from bench.report import Goal, Section
from bench.rivals import Plain
from bench.series import Effort, Series, in_turn, timed
from gdal_mcp.environment import FIXED, environment
from gdal_mcp.settings import Settings

LIMIT = 1.05
SERVER = "gdal-mcp over stdio, the whole call"
ALIKE = "plain process, the same CPUs, threads and cache"
JOB = "run, describe and preview"
DEFAULTS = "plain process, the same CPUs, GDAL's own defaults"


@dataclass(slots=True)
class Work:
    """One reprojection by every contender; outputs are removed at once, so that the disk does not fill."""

    arena: Arena
    call: Call
    plain: Plain
    settings: Settings
    source: str
    receipts: list[dict[str, Any]] = field(default_factory=list)

    def by_server(self) -> float:
        name = self.arena.new_name()
        given = {"input": self.source, "output": name, "dst_crs": "EPSG:3857"}
        taken = timed(lambda: self.receipts.append(dict(self.call("reproject", given)["receipt"])))
        (self.arena.workspace / name).unlink()
        return taken

    def by_plain(self, variables: dict[str, str]) -> float:
        """The argv of the call before, to another place."""
        name = self.arena.new_name()
        target = str(self.arena.scratch / name)
        words = [self._moved(word, target) for word in self.receipts[-1]["argv"]]
        taken = self.plain.run(words, variables)
        (self.arena.scratch / name).unlink()
        return taken

    @staticmethod
    def _moved(word: str, target: str) -> str:
        before, place, _ = word.partition("/staging/")
        return f"{before}{target}" if place else word


def measure(work: Work, size: int, effort: Effort) -> Section:
    """One table, and how the whole call and its parts compare with the plain process."""
    bare = {name: FIXED[name] for name in ("PATH", "HOME", "LC_ALL")}
    found = in_turn(
        {
            SERVER: work.by_server,
            ALIKE: lambda: work.by_plain(dict(environment(work.settings.limits()))),
            DEFAULTS: lambda: work.by_plain(bare),
        },
        effort,
    )
    ours = found[SERVER]
    rows = [
        (name, f"{one.p50:.2f}", f"{one.p95:.2f}", "" if name == SERVER else f"{ours.over(one):.3f}")
        for name, one in found.items()
    ]
    parts = _parts(work, len(ours.seconds))
    rows += [(f"of it: {name}", f"{one.p50:.2f}", f"{one.p95:.2f}", "") for name, one in parts.items()]
    job = parts[JOB].over(found[ALIKE])
    others = ", ".join(f"{name} {one.p50:.2f} s" for name, one in parts.items() if name != JOB)
    reason = f"the job itself takes {job:.2f} x the plain process; around it {others}"
    title = f"Reprojection of {size} x {size} bytes"
    goals = (Goal(f"{title}, against the {ALIKE}", LIMIT, ours.over(found[ALIKE]), reason=reason),)
    note = f"{len(ours.seconds)} rounds. From UTM to Web Mercator, `gdal raster reproject` with its defaults to GeoTIFF."
    return Section(title, note, ("contender", "p50 s", "p95 s", "ours / it"), rows, goals)


def _parts(work: Work, rounds: int) -> dict[str, Series]:
    def of(*names: str) -> Series:
        return Series(
            tuple(sum(one["seconds"].get(name, 0.0) for name in names) for one in work.receipts[-rounds:])
        )

    return {
        "create, start and load": of("create", "start"),
        JOB: of("run"),
        "publish": of("publish"),
    }
