"""Runs the comparisons and prints them as Markdown; `--write` also puts them into docs/performance.md."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import answers, calls, doors, load, records, remote, report
from bench.clients import hardened_flags, plain
from bench.place import NotMeasurable, Place, bare, machine, place, write_hills
from bench.report import Effort
from sandbox.errors import SandboxError

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of the measurements. In seconds unless stated otherwise."""

    warm: Effort
    cold: Effort
    start: Effort
    large: Effort
    remote: Effort
    streams: Effort
    lead: float  # the start of a stream of calls, which is not counted
    window: float
    calls: int  # calls of the test of what calls leave behind
    http: float
    requests: int  # requests of each kind while all processors are busy
    pages: int  # visits of the console
    records: int  # calls in the registry
    pixels: int  # width and height of the large raster
    features: int  # features of the large vector dataset


FULL = Scale(
    warm=Effort(41, 120),
    cold=Effort(25, 70),
    start=Effort(11, 30),
    large=Effort(5, 120),
    remote=Effort(7, 60),
    streams=Effort(3, 120),
    lead=2,
    window=10,
    calls=1000,
    http=20,
    requests=100,
    pages=5,
    records=1_000_000,
    pixels=10_000,
    features=1_000_000,
)
QUICK = Scale(
    warm=Effort(7, 12),
    cold=Effort(5, 8),
    start=Effort(3, 4),
    large=Effort(3, 6),
    remote=Effort(3, 6),
    streams=Effort(1, 10),
    lead=1,
    window=4,
    calls=60,
    http=5,
    requests=10,
    pages=3,
    records=100_000,
    pixels=4_000,
    features=100_000,
)

SECTIONS: Mapping[str, Callable[[calls.Rivals, Scale], list[report.Section]]] = {
    "warm": lambda rivals, scale: calls.warm_calls(rivals, scale.warm),
    "cold": lambda rivals, scale: calls.cold_calls(rivals, scale.cold),
    "sustained": lambda rivals, scale: [load.sustained(rivals, scale.lead, scale.window, scale.streams)],
    "busy": lambda rivals, scale: [load.busy(rivals, scale.requests)],
    "answers": lambda rivals, _scale: [answers.answers(rivals.place)],
    "start": lambda rivals, scale: doors.start(rivals.place, scale.start),
    "http": lambda rivals, scale: [doors.http(rivals.place, scale.http)],
    "console": lambda rivals, scale: [doors.console(rivals.place, scale.pages)],
    "records": lambda rivals, scale: [records.records(scale.records, scale.pages, rivals.place.state)],
    "approvals": lambda _rivals, _scale: [doors.approvals()],
    "lasting": lambda rivals, scale: [load.lasting(rivals, scale.calls)],
    "remote": lambda rivals, scale: remote.remote(rivals.place, scale.remote),
    "large": lambda rivals, scale: calls.large_calls(rivals, scale.pixels, scale.features, scale.large),
}


def main() -> int:
    options = _options()
    scale = QUICK if options.quick else FULL
    efforts: dict[str, Any] = {
        name: replace(value, patience=options.patience)
        for name in Scale.__slots__
        if isinstance(value := getattr(scale, name), Effort)
    }
    try:
        with place(options.folder) as where:
            text = _measured(where, replace(scale, **efforts), options.only or tuple(SECTIONS))
    except (NotMeasurable, SandboxError) as error:
        print(error, file=sys.stderr)
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
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{PAGE.name}")
    parser.add_argument("--only", action="append", choices=tuple(SECTIONS), help="this part; repeatable")
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait for quiet moments, so long a table",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="for temporary data, about 2 GB (%(default)s)"
    )
    return parser.parse_args()


def _measured(where: Place, scale: Scale, only: Sequence[str]) -> str:
    load_before = os.getloadavg()[0]
    hosting = where.app.hosting
    environment = hosting.templates.build(hosting.ready(), None).environment
    with ExitStack() as stack:
        rivals = calls.Rivals(
            where,
            stack.enter_context(plain(where)),
            stack.enter_context(hardened_flags(where)),
            environment,
        )
        sizes = {calls.SMALL: 512, **({calls.LARGE: scale.pixels} if {"large", "busy"} & {*only} else {})}
        for name, size in sizes.items():
            raw = write_hills(where.workspace, name, size)
            rivals.plain.run(["gdal", "convert", str(raw), str(where.scratch / name)], bare(environment))
            (where.scratch / name).rename(where.workspace / name)
        sections = [section for name in SECTIONS if name in only for section in _section(name, rivals, scale)]
    about = machine(where, load_before)
    return report.document(about, sections, without_daemon=where.engine.startswith("oci"))


def _section(name: str, rivals: calls.Rivals, scale: Scale) -> list[report.Section]:
    """The results of a part, or the reason why it could not be measured; the other parts run anyway."""
    print(f"measuring: {name}", file=sys.stderr)
    try:
        return SECTIONS[name](rivals, scale)
    except NotMeasurable as error:
        return [report.Section(f"`{name}`", f"Not measured: {error}.", ("",), ())]


if __name__ == "__main__":
    sys.exit(main())
