"""Runs the comparisons and prints them as Markdown; `--write` also puts them into docs/performance.md."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench import (
    approvals,
    breakdown,
    busy,
    catalogue,
    cold,
    console,
    http,
    large,
    lasting,
    machine,
    report,
    startup,
    sustained,
    warm,
)
from bench.arena import Arena, NotMeasurable, arena, write_hills
from bench.inprocess import in_process
from bench.rivals import Plain, plain
from bench.series import Effort
from gdal_mcp.gdal.environment import FIXED
from sandbox.errors import SandboxError

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    warm: Effort
    small: Effort
    start: Effort
    large: Effort
    cycles: Effort
    span: sustained.Span
    calls: int  # of the test of what they leave behind
    parts: int  # calls of the breakdown
    http: float  # seconds with each number of clients
    asked: int  # requests of each kind while all is busy
    pages: int  # visits of the console
    pixels: int  # of the large raster, on each side
    features: int  # of the large vector dataset


IMPORT_ROUNDS = 5
SMALL, LARGE = "small.tif", "large.tif"
FULL = Scale(
    warm=Effort(41, 120),
    small=Effort(25, 70),
    start=Effort(11, 30),
    large=Effort(5, 120),
    cycles=Effort(3, 120),
    span=sustained.Span(2, 10),
    calls=1000,
    parts=15,
    http=20.0,
    asked=100,
    pages=5,
    pixels=10_000,
    features=1_000_000,
)
QUICK = Scale(
    warm=Effort(7, 12),
    small=Effort(5, 8),
    start=Effort(3, 4),
    large=Effort(3, 6),
    cycles=Effort(1, 10),
    span=sustained.Span(1, 4),
    calls=60,
    parts=3,
    http=5.0,
    asked=10,
    pages=3,
    pixels=4_000,
    features=100_000,
)

INFO = cold.Case("Cold `info` of a 512 x 512 GeoTIFF", "info", {"path": SMALL}, writes=False)
CONVERT = cold.Case(
    "Cold `convert` of it to a Cloud Optimized GeoTIFF",
    "convert",
    {"input": SMALL, "output_format": "COG"},
    writes=True,
)
WARM_INFO = replace(INFO, title="Warm `info` of a 512 x 512 GeoTIFF")
WARM_CONVERT = replace(CONVERT, title="Warm `convert` of it to a Cloud Optimized GeoTIFF")


SECTIONS: Mapping[str, Callable[[cold.Field, Scale], tuple[report.Section, ...]]] = {
    "catalogue": lambda field, scale: catalogue.measure(field.arena, scale.start),
    "warm": lambda field, scale: warm.measure_info(field, WARM_INFO, scale.warm),
    "warm-convert": lambda field, scale: warm.measure_convert(field, WARM_CONVERT, scale.warm),
    "cold": lambda field, scale: (cold.measure(field, INFO, scale.small),),
    "convert": lambda field, scale: (cold.measure(field, CONVERT, scale.small),),
    "breakdown": lambda field, scale: breakdown.measure(field, (INFO, CONVERT), scale.parts),
    "sustained": lambda field, scale: (sustained.measure(field, INFO, scale.span, scale.cycles),),
    "busy": lambda field, scale: (busy.measure(field, LARGE, scale.asked),),
    "approvals": lambda _field, _scale: (approvals.measure(),),
    "http": lambda field, scale: (http.measure(field, SMALL, scale.http),),
    "start": lambda field, scale: startup.measure(field.arena, scale.start, IMPORT_ROUNDS),
    "console": lambda field, scale: console.measure(field.arena, scale.pages),
    "lasting": lambda field, scale: lasting.measure(field, SMALL, scale.calls),
    "large": lambda field, scale: large.measure(field, scale.pixels, scale.features, scale.large),
}


def main() -> int:
    options = _options()
    load = os.getloadavg()[0]
    try:
        with arena(options.folder) as place:
            text = _measure(place, _scale(options), options.only or tuple(SECTIONS), load)
    except (NotMeasurable, SandboxError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(text)
    if options.write:
        report.write(PAGE, text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few rounds and smaller data; about five minutes"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"put the tables into {PAGE.parent.name}/{PAGE.name}"
    )
    parser.add_argument(
        "--only", action="append", choices=tuple(SECTIONS), help="this section only; repeatable"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long each table may wait for quiet moments, in all",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("/var/tmp"),
        help="where temporary data goes, about 2 GB (default: %(default)s)",
    )
    return parser.parse_args()


def _scale(options: argparse.Namespace) -> Scale:
    scale, patience = QUICK if options.quick else FULL, options.patience
    waiting = {
        name: replace(getattr(scale, name), patience=patience)
        for name in ("warm", "small", "start", "large", "cycles")
    }
    return replace(scale, **waiting)


def _measure(place: Arena, scale: Scale, only: Sequence[str], load: float) -> str:
    with ExitStack() as stack:
        direct = stack.enter_context(in_process(place))
        limits = direct.app.settings.limits()
        rival = stack.enter_context(plain(place, direct.app.hosting.user(), limits.cpus))
        _make(
            place, rival, {"small": 512, **({"large": scale.pixels} if {"large", "busy"} & {*only} else {})}
        )
        field = stack.enter_context(cold.ready(place, direct, rival))
        sections = [section for name in SECTIONS if name in only for section in _section(name, field, scale)]
        return report.document(machine.describe(place, direct.app.hosting.ready().info, load), sections)


def _section(name: str, field: cold.Field, scale: Scale) -> tuple[report.Section, ...]:
    """What was measured, or why it could not be; the other sections do not suffer for it."""
    sys.stderr.write(f"measuring: {name}\n")
    try:
        return SECTIONS[name](field, scale)
    except NotMeasurable as error:
        sys.stderr.write(f"{name}: {error}\n")
        goal = report.Goal(f"everything of `{name}`", 0, None, "", str(error))
        return (report.Section(f"`{name}`", f"Not measured: {error}.", ("",), (), (goal,)),)


def _make(place: Arena, rival: Plain, sizes: Mapping[str, int]) -> None:
    """GeoTIFFs in the workspace, by name and pixels on each side."""
    for name, size in sizes.items():
        raw = write_hills(place.workspace, name, size)
        made = place.scratch / f"{name}.tif"
        rival.run(["gdal", "convert", str(raw), str(made)], FIXED)
        made.rename(place.workspace / made.name)


if __name__ == "__main__":
    sys.exit(main())
