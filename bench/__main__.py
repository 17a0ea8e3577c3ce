"""Runs the comparisons and prints them as Markdown; `--write` also puts them into docs/performance.md."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench import breakdown, catalogue, cold, large, machine, report, startup
from bench.arena import Arena, NotMeasurable, arena, write_hills
from bench.clients import sdk_client
from bench.inprocess import in_process
from bench.rivals import Plain, plain
from bench.series import Effort
from gdal_mcp.environment import FIXED
from sandbox.errors import SandboxError

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
SECTIONS = ("catalogue", "cold", "convert", "breakdown", "start", "memory", "large")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    small: Effort
    start: Effort
    large: Effort
    calls: int  # of the memory test
    parts: int  # calls of the breakdown
    pixels: int  # of the large raster, on each side


IMPORT_ROUNDS = 5
FULL = Scale(Effort(25, 70), Effort(11, 30), Effort(7, 120), calls=100, parts=15, pixels=10_000)
QUICK = Scale(Effort(5, 8), Effort(3, 4), Effort(3, 6), calls=10, parts=3, pixels=4_000)

INFO = cold.Case("Cold `info` of a 512 x 512 GeoTIFF", "info", {"path": "small.tif"}, writes=False)
CONVERT = cold.Case(
    "Cold `convert` of it to a Cloud Optimized GeoTIFF",
    "convert",
    {"input": "small.tif", "output_format": "COG"},
    writes=True,
)


def main() -> int:
    options = _options()
    load = os.getloadavg()[0]
    try:
        with arena(options.folder) as place:
            text = _measure(place, _scale(options), options.only or SECTIONS, load)
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
        "--quick", action="store_true", help="few rounds and a smaller raster; about a minute"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"put the tables into {PAGE.parent.name}/{PAGE.name}"
    )
    parser.add_argument("--only", action="append", choices=SECTIONS, help="this section only; repeatable")
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
        help="where temporary data goes, about 1 GB (default: %(default)s)",
    )
    return parser.parse_args()


def _scale(options: argparse.Namespace) -> Scale:
    scale, patience = QUICK if options.quick else FULL, options.patience
    return replace(
        scale,
        small=replace(scale.small, patience=patience),
        start=replace(scale.start, patience=patience),
        large=replace(scale.large, patience=patience),
    )


def _measure(place: Arena, scale: Scale, only: Sequence[str], load: float) -> str:
    with ExitStack() as stack:
        direct = stack.enter_context(in_process(place))
        limits = direct.app.settings.limits()
        rival = stack.enter_context(plain(place, direct.app.hosting.user(), limits.cpus))
        _make(place, rival, {"small": 512, **({"large": scale.pixels} if "large" in only else {})})
        call = stack.enter_context(sdk_client(place))
        field = stack.enter_context(cold.ready(place, call, direct, rival))
        sections = [section for name in SECTIONS if name in only for section in _sections(name, field, scale)]
        return report.document(machine.describe(place, direct.app.hosting.ready().info, load), sections)


def _make(place: Arena, rival: Plain, sizes: Mapping[str, int]) -> None:
    """GeoTIFFs in the workspace, by name and pixels on each side."""
    for name, size in sizes.items():
        raw = write_hills(place.workspace, name, size)
        made = place.scratch / f"{name}.tif"
        rival.run(["gdal", "convert", str(raw), str(made)], FIXED)
        made.rename(place.workspace / made.name)


def _sections(name: str, field: cold.Field, scale: Scale) -> tuple[report.Section, ...]:
    sys.stderr.write(f"measuring: {name}\n")
    place, direct = field.arena, field.direct
    match name:
        case "catalogue":
            return catalogue.measure(place, scale.start)
        case "cold":
            return (cold.measure(field, INFO, scale.small),)
        case "convert":
            return (cold.measure(field, CONVERT, scale.small),)
        case "breakdown":
            return (breakdown.measure(direct, place, (INFO, CONVERT), scale.parts),)
        case "start":
            return (startup.measure(place, scale.start), startup.imports(place, IMPORT_ROUNDS))
        case "memory":
            return (startup.memory(place, "small.tif", scale.calls),)
        case _:
            work = large.Work(place, field.call, field.plain, direct.app.settings, "large.tif")
            return (large.measure(work, scale.pixels, scale.large),)


if __name__ == "__main__":
    sys.exit(main())
