"""Large work: what the container costs when GDAL has much to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.arena import Arena, write_points
from bench.cold import Field
from bench.report import Goal, Section
from bench.rivals import Plain
from bench.series import Effort, Series, in_turn, timed
from bench.warm import Warm, warm_server
from gdal_mcp.gdal.environment import FIXED, environment
from gdal_mcp.settings import Settings

LIMIT = 1.05
SERVER = "gdal-mcp over stdio, the whole call"
ALIKE = "plain process, the same CPUs, threads and cache"
JOB = "run, describe and preview"
DEFAULTS = "plain process, the same CPUs, GDAL's own defaults"


@dataclass(frozen=True, slots=True)
class Large:
    """One operation; its call is given a new `output` name each time."""

    title: str
    what: str
    tool: str
    arguments: Mapping[str, Any]
    suffix: str


@dataclass(slots=True)
class Work:
    """One operation by every contender; outputs are removed at once, so that the disk does not fill."""

    arena: Arena
    ours: Warm
    plain: Plain
    settings: Settings
    job: Large
    receipts: list[dict[str, Any]] = field(default_factory=list)

    def by_server(self) -> float:
        name = self.arena.new_name(self.job.suffix)
        given = {**self.job.arguments, "output": name}
        taken = timed(lambda: self.receipts.append(dict(self.ours.ask(self.job.tool, given)["receipt"])))
        (self.arena.workspace / name).unlink()
        return taken

    def by_plain(self, variables: dict[str, str]) -> float:
        """The argv of the call before, to another place."""
        name = self.arena.new_name(self.job.suffix)
        target = str(self.arena.scratch / name)
        words = [self._moved(word, target) for word in self.receipts[-1]["argv"]]
        taken = self.plain.run(words, variables)
        (self.arena.scratch / name).unlink()
        return taken

    @staticmethod
    def _moved(word: str, target: str) -> str:
        before, place, _ = word.partition("/staging/")
        return f"{before}{target}" if place else word


def jobs(size: int, features: int) -> tuple[Large, ...]:
    """What is measured, on inputs that `make` has put there."""
    side = size // 2
    return (
        Large(
            f"Reprojection of {size} x {size} bytes",
            "From UTM to Web Mercator, `gdal raster reproject` with its defaults to GeoTIFF.",
            "reproject",
            {"input": "large.tif", "dst_crs": "EPSG:3857"},
            ".tif",
        ),
        Large(
            f"Cloud Optimized GeoTIFF of {side} x {side} bytes in 4 bands",
            "With overviews and GDAL's default compression, from a GeoTIFF.",
            "convert",
            {"input": "bands.tif", "output_format": "COG"},
            ".tif",
        ),
        Large(
            f"Conversion of {features:,} points",
            "With three attributes, from GeoPackage to FlatGeobuf, which sorts them into an index.",
            "vector_convert",
            {"input": "points.gpkg", "output_format": "FlatGeobuf"},
            ".fgb",
        ),
    )


def make(arena: Arena, plain: Plain, size: int, features: int) -> None:
    """The inputs besides `large.tif`: points by GDAL from text, and the quarters of that raster as four bands."""
    raw, points = arena.workspace / "points.csv", arena.scratch / "points.gpkg"
    write_points(raw, features)
    columns = ["-oo", "X_POSSIBLE_NAMES=x", "-oo", "Y_POSSIBLE_NAMES=y", "-oo", "AUTODETECT_TYPE=YES"]
    plain.run(["ogr2ogr", *columns, "-a_srs", "EPSG:32633", str(points), str(raw)], FIXED)
    raw.unlink()
    bands, side = arena.scratch / "bands.tif", size // 2
    whole, corner = str(arena.workspace / "large.tif"), ["-a_ullr", "500000", "5200000", "650000", "5050000"]
    quarters = [str(arena.scratch / f"quarter{number}.vrt") for number in range(4)]
    for number, quarter in enumerate(quarters):
        place = [str(side * (number % 2)), str(side * (number // 2)), str(side), str(side)]
        plain.run(["gdal_translate", "-srcwin", *place, *corner, whole, quarter], FIXED)
    together = str(arena.scratch / "bands.vrt")
    plain.run(["gdalbuildvrt", "-separate", together, *quarters], FIXED)
    plain.run(["gdal_translate", together, str(bands)], FIXED)
    for made in (points, bands):
        made.rename(arena.workspace / made.name)


def measure(place: Field, size: int, features: int, effort: Effort) -> tuple[Section, ...]:
    """A table for each job."""
    make(place.arena, place.plain, size, features)
    with warm_server(place) as ours:
        works = [
            Work(place.arena, ours, place.plain, place.direct.app.settings, job)
            for job in jobs(size, features)
        ]
        return tuple(_measured(work, effort) for work in works)


def _measured(work: Work, effort: Effort) -> Section:
    """One table, and how the whole call and its parts compare with the plain process."""
    bare = {name: FIXED[name] for name in ("PATH", "HOME", "LC_ALL")}
    found = in_turn(
        {
            SERVER: work.ours.resting.after(work.by_server),
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
    goals = (Goal(f"{work.job.title}, against the {ALIKE}", LIMIT, ours.over(found[ALIKE]), reason=reason),)
    warm = sum(one["pool"] == "warm" for one in work.receipts[-len(ours.seconds) :])
    note = f"{len(ours.seconds)} rounds, {warm} of them in a warm slot. {work.job.what}"
    return Section(work.job.title, note, ("contender", "p50 s", "p95 s", "ours / it"), rows, goals)


def _parts(work: Work, rounds: int) -> dict[str, Series]:
    """What the client waits for; a warm slot was created and started before."""

    def of(*names: str) -> Series:
        return Series(tuple(sum(_waited(one, name) for name in names) for one in work.receipts[-rounds:]))

    return {"create, start and load": of("create", "start"), JOB: of("run"), "publish": of("publish")}


def _waited(receipt: Mapping[str, Any], name: str) -> float:
    before = receipt["pool"] == "warm" and name in ("create", "start")
    return 0.0 if before else receipt["seconds"].get(name, 0.0)
