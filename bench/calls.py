"""Single calls, warm and cold, small and large, against `docker run`, the plain process and an in-process server."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.clients import PEER_VERSION, Call, Plain, docker_run, peer_client, sdk_client
from bench.place import COLD, NotMeasurable, Place, bare, write_points
from bench.report import Effort, Finding, Section, Series, in_turn, milliseconds, processor_seconds, timed
from bench.runtime import runtime_alone
from sandbox.template import STAGING_TARGET

SMALL, LARGE = "small.tif", "large.tif"
HARDENED = "`docker run`, the same argv and hardening"
PLAIN = "plain process in the same root file system"
DEFAULTS = "plain process with GDAL's own defaults"
ALONE = "the same container by the runtime alone, with Python, GDAL and the same `info`"
PEER = f"the in-process server gdal-mcp {PEER_VERSION} over stdio"
TRIES = 5  # attempts of one call that must be served as its table says
KINDS = 2  # kinds of waiting slots: those that read, and those that write to the workspace
# parts that a warm call does not wait for, because they happen before it came or after its answer
NOT_WAITED_FOR = ("create", "start", "remove")
# parts that a cold call, whose claim includes making its container, would count twice
COUNTED_TWICE = ("claim", "remove")


@dataclass(frozen=True, slots=True)
class Case:
    """One operation. A call that writes gets an `output` with a new name, which ends with `suffix`."""

    title: str
    tool: str
    arguments: Mapping[str, Any]
    suffix: str = ""


INFO = Case("`info` of a 512 x 512 GeoTIFF", "info", {"path": SMALL})
CONVERT = Case(
    "`convert` of it to a Cloud Optimized GeoTIFF",
    "convert",
    {"input": SMALL, "output_format": "COG"},
    ".tif",
)


@dataclass(frozen=True, slots=True)
class Rivals:
    """All contenders except the servers, which each table starts itself."""

    place: Place
    plain: Plain
    hardened: tuple[str, ...]
    environment: Mapping[str, str]  # environment of a call's container

    def contenders(self, server: "Server", case: Case) -> dict[str, Callable[[], float]]:
        """The command of the server's last call, with `docker run` and as a plain process."""

        def by_docker() -> None:
            docker_run(self.place, self.hardened, server.argv(case, STAGING_TARGET))

        return {
            HARDENED: lambda: timed(by_docker),
            PLAIN: lambda: self.by_plain(server, case, self.environment),
        }

    def by_plain(self, server: "Server", case: Case, environment: Mapping[str, str]) -> float:
        taken = self.plain.run(server.argv(case, self.place.scratch), environment)
        for path in self.place.scratch.iterdir():
            path.unlink()
        return taken


@dataclass(slots=True)
class Server:
    """A server of this project over stdio. All counted calls were served warm, or all cold. `waited` is in seconds."""

    place: Place
    ask: Call
    warm: bool
    idle: int  # number of containers in a full pool
    receipts: list[Mapping[str, Any]] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    misses: int = 0

    def call(self, case: Case) -> float:
        """The seconds of one call, after which the pool comes to rest. A call that was served in the other way is
        repeated.
        """
        for _ in range(TRIES):
            name = self.place.new_name(case.suffix)
            arguments = {**case.arguments, **({"output": name} if case.suffix else {})}
            started = time.perf_counter()
            answer = self.ask(case.tool, arguments)
            seconds = time.perf_counter() - started
            receipt = self.place.receipt(answer["receipt"]["call_id"])
            (self.place.workspace / name).unlink(missing_ok=True)
            self.place.rest(self.idle)
            if (receipt["pool"] == "warm") is self.warm:
                self.receipts.append(receipt)
                self.waited.append(seconds)
                return seconds
            self.misses += 1
        raise NotMeasurable(f"{TRIES} calls in a row were not {'warm' if self.warm else 'cold'}")

    def argv(self, case: Case, folder: object) -> list[str]:
        """The command of the last call, with another output folder."""
        target = f"{folder}/{self.place.new_name(case.suffix)}"
        parted = [word.partition(f"{STAGING_TARGET}/") for word in self.receipts[-1]["argv"]]
        return [f"{before}{target}" if separator else before for before, separator, _ in parted]

    def parts(self) -> dict[str, float]:
        """The median seconds that the client waited for, by part; `the rest` is the time that no part explains."""
        skipped = NOT_WAITED_FOR if self.warm else COUNTED_TWICE
        names = dict.fromkeys(
            name for receipt in self.receipts for name in receipt["seconds"] if name not in skipped
        )
        calls = [{name: receipt["seconds"].get(name, 0.0) for name in names} for receipt in self.receipts]
        for call, waited in zip(calls, self.waited, strict=True):
            call["the rest"] = waited - sum(call.values())
        return {name: statistics.median(call[name] for call in calls) for name in (*names, "the rest")}

    def longest_parts(self) -> str:
        """The parts that took half a millisecond or more, the longest first."""
        parts = sorted(self.parts().items(), key=lambda pair: -pair[1])
        return "of it " + ", ".join(f"{name} {milliseconds(took)} ms" for name, took in parts if took >= 5e-4)


@contextmanager
def server(place: Place, *, warm: bool) -> Iterator[Server]:
    """A server with its default pool, which is full, or one without a pool."""
    with sdk_client(place.program("serve", *(() if warm else COLD)), place.python_environment()) as ask:
        # answered once the host is attested; from then on slots are kept ready
        ask(INFO.tool, INFO.arguments)
        least = KINDS * place.app.settings.model_fields["pool_min"].default if warm else 0
        yield Server(place, ask, warm, place.rest(least))


def warm_calls(rivals: Rivals, effort: Effort) -> list[Section]:
    with ExitStack() as stack, server(rivals.place, warm=True) as ours:
        peer, missing = _peer(stack, rivals.place)
        info, series = _compared(rivals, ours, INFO, effort, peer)
        mine, reason, columns = series[_name(ours)], ours.longest_parts(), {"info": ours.parts()}
        slowest = max(zip(ours.waited, ours.receipts, strict=True), key=lambda pair: pair[0])
        longest = max(
            slowest[1]["seconds"].items(), key=lambda pair: pair[1] * (pair[0] not in NOT_WAITED_FOR)
        )
        uneven = (
            f"in the slowest, {milliseconds(slowest[0])} ms, {longest[0]} took {milliseconds(longest[1])} ms"
        )
        findings = [
            Finding("warm-docker", mine.over(series[HARDENED]), reason),
            Finding("warm-plain", mine.over(series[PLAIN]), reason),
            Finding("warm-peer", mine.over(series[PEER]), reason)
            if peer
            else Finding("warm-peer", None, missing),
            Finding("warm-even", mine.p95 / mine.p50, uneven),
        ]
        ours.receipts, ours.waited = [], []
        convert, series = _compared(rivals, ours, CONVERT, effort, {})
        findings.append(
            Finding("convert-plain", series[_name(ours)].over(series[PLAIN]), ours.longest_parts())
        )
        columns["convert"] = ours.parts()
    return [info, convert, _parts("Where the time of a warm call goes", columns, findings)]


def cold_calls(rivals: Rivals, effort: Effort) -> list[Section]:
    with ExitStack() as stack, server(rivals.place, warm=False) as ours:
        alone, missing = _alone(stack, rivals.place)
        info, series = _compared(rivals, ours, INFO, effort, alone)
        mine, reason, columns = series[_name(ours)], ours.longest_parts(), {"info": ours.parts()}
        findings = [
            Finding("cold-runtime", mine.over(series[ALONE]), reason)
            if alone
            else Finding("cold-runtime", None, missing),
            Finding("cold-docker", mine.over(series[HARDENED]), reason),
            Finding("cold-plain", mine.over(series[PLAIN]), reason),
        ]
        ours.receipts, ours.waited = [], []
        convert, series = _compared(rivals, ours, CONVERT, effort, {})
        findings.append(
            Finding("cold-convert", series[_name(ours)].over(series[HARDENED]), ours.longest_parts())
        )
        columns["convert"] = ours.parts()
        started, calls = processor_seconds(), effort.rounds
        for _ in range(calls):
            ours.ask(INFO.tool, INFO.arguments)
        rivals.place.rest()
        findings.append(
            Finding("cycle", (processor_seconds() - started) / calls, f"the mean of {calls} in a row")
        )
    return [info, convert, _parts("Where the time of a cold call goes", columns, findings)]


def _name(ours: Server) -> str:
    return f"gdal-mcp over stdio, {'warm' if ours.warm else 'cold'}"


def _compared(
    rivals: Rivals, ours: Server, case: Case, effort: Effort, extra: Mapping[str, Callable[[], float]]
) -> tuple[Section, dict[str, Series]]:
    mine = {_name(ours): lambda: ours.call(case)}
    series = in_turn({**mine, **rivals.contenders(ours, case), **extra}, effort)
    rows = [
        (name, milliseconds(times.p50), milliseconds(times.p95), *_ratio(series[_name(ours)], times))
        for name, times in series.items()
    ]
    note = (
        f"{len(series[PLAIN].seconds)} rounds. The last column is our time divided by that row's, the median over the "
        f"rounds. {ours.idle} slots wait when the pool is at rest, and nothing is measured before it is; {ours.misses} "
        "calls were served otherwise and made again."
    )
    kind = "Warm" if ours.warm else "Cold"
    header = ("contender", "p50 ms", "p95 ms", "ours / it")
    return Section(f"{kind} {case.title}", note, header, rows), series


def _ratio(mine: Series, other: Series) -> tuple[str]:
    ratio = mine.over(other)
    return ("" if mine is other else f"{ratio:.{2 if ratio >= 0.1 else 3}f}",)


def _peer(stack: ExitStack, place: Place) -> tuple[dict[str, Callable[[], float]], str]:
    """The in-process server as a contender, or the reason why it is missing."""
    arguments = {"uri": str(place.workspace / SMALL)}
    try:
        ask = stack.enter_context(peer_client(place))
        ask("raster_info", arguments)
    except NotMeasurable as error:
        return {}, str(error)
    return {PEER: lambda: timed(lambda: ask("raster_info", arguments))}, ""


def _alone(stack: ExitStack, place: Place) -> tuple[dict[str, Callable[[], float]], str]:
    """The container of a call, started by the runtime only, as a contender, or the reason why it is missing."""
    try:
        alone = stack.enter_context(runtime_alone(place))
    except NotMeasurable as error:
        return {}, str(error)
    return {ALONE: lambda: alone.info(place.workspace / SMALL)}, ""


def _parts(title: str, columns: Mapping[str, Mapping[str, float]], findings: Sequence[Finding]) -> Section:
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = [(name, *(milliseconds(column.get(name, 0.0)) for column in columns.values())) for name in names]
    note = (
        "From the receipts, p50. Only what the client waits for; `the rest` is the protocol in both programs, the "
        "check of the result, the closing record and what the client does."
    )
    return Section(title, note, ("part", *(f"`{name}` ms" for name in columns)), rows, findings)


def large_calls(rivals: Rivals, size: int, features: int, effort: Effort) -> list[Section]:
    """The cost of the container if GDAL has much to do."""
    _make_large(rivals, size, features)
    cases = {
        "large-reproject": Case(
            f"Reprojection of {size} x {size} bytes",
            "reproject",
            {"input": LARGE, "dst_crs": "EPSG:3857"},
            ".tif",
        ),
        "large-cog": Case(
            f"COG of {size // 2} x {size // 2} bytes in 4 bands",
            "convert",
            {"input": "bands.tif", "output_format": "COG"},
            ".tif",
        ),
        "large-points": Case(
            f"Conversion of {features:,} points to FlatGeobuf",
            "vector_convert",
            {"input": "points.gpkg", "output_format": "FlatGeobuf"},
            ".fgb",
        ),
    }
    sections = []
    for goal, case in cases.items():
        with server(rivals.place, warm=True) as ours:
            sections.append(_large(rivals, ours, goal, case, effort))
    return sections


def _large(rivals: Rivals, ours: Server, goal: str, case: Case, effort: Effort) -> Section:
    contenders = {
        _name(ours): lambda: ours.call(case),
        PLAIN: lambda: rivals.by_plain(ours, case, rivals.environment),
        DEFAULTS: lambda: rivals.by_plain(ours, case, bare(rivals.environment)),
    }
    series = in_turn(contenders, effort)
    mine, parts = series[_name(ours)], ours.parts()
    rows = [
        (name, f"{times.p50:.2f}", f"{times.p95:.2f}", *_ratio(mine, times)) for name, times in series.items()
    ]
    rows += [(f"of it: {name}", f"{took:.2f}", "", "") for name, took in parts.items() if took >= 0.005]
    finding = Finding(goal, mine.over(series[PLAIN]), ours.longest_parts())
    note = f"{len(mine.seconds)} rounds. The plain processes have the same processors as a call."
    return Section(case.title, note, ("contender", "p50 s", "p95 s", "ours / it"), rows, (finding,))


def _make_large(rivals: Rivals, size: int, features: int) -> None:
    """Creates the other inputs: points from text, and the quarters of the large raster as four bands."""
    place = rivals.place

    def run(*words: object) -> None:
        rivals.plain.run([str(word) for word in words], bare(rivals.environment))

    raw, points, bands = (
        place.workspace / "points.csv",
        place.scratch / "points.gpkg",
        place.scratch / "bands.tif",
    )
    write_points(raw, features)
    columns = ("-oo", "X_POSSIBLE_NAMES=x", "-oo", "Y_POSSIBLE_NAMES=y", "-oo", "AUTODETECT_TYPE=YES")
    run("ogr2ogr", *columns, "-a_srs", "EPSG:32633", points, raw)
    side, together = size // 2, place.scratch / "bands.vrt"
    quarters = [place.scratch / f"quarter{number}.vrt" for number in range(4)]
    for number, quarter in enumerate(quarters):
        window = ("-srcwin", side * (number % 2), side * (number // 2), side, side)
        corners = ("-a_ullr", 500000, 5200000, 650000, 5050000)
        run("gdal_translate", *window, *corners, place.workspace / LARGE, quarter)
    run("gdalbuildvrt", "-separate", together, *quarters)
    run("gdal_translate", together, bands)
    for output in (points, bands):
        output.rename(place.workspace / output.name)
    for left in (raw, together, *quarters):
        left.unlink()
