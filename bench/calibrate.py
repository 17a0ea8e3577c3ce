"""Measures what the numbers of cost.toml that end in `_ns` stand for, against the real image; `--write` puts them there.

Each command runs at two sizes; what the larger one takes more processor time, divided by what it has more of, is the
number. The start of the process is in neither. The least of several rounds counts, as noise only ever adds.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.arena import Arena, NotMeasurable, arena, write_hills
from bench.rivals import Plain, plain
from gdal_mcp.gdal.environment import FIXED
from sandbox.errors import SandboxError

TABLE = Path(__file__).parent.parent / "gdal_mcp" / "foresight" / "cost.toml"
SIDES = (1000, 4000)  # pixels
POINTS = (100, 300)  # pixels on a side of what becomes one polygon or point each
USER, CPUS = (65534, 65534), 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """A number of the table and the command that it is about. `{i}` is the input, `{o}` the output, `{n}` the side."""

    section: str
    row: str
    key: str
    words: str
    source: str = "hills"  # hills: bytes, heights: Int16, shapes: polygons
    share: float = 1.0  # units of the number for each pixel of the input


def _algorithm(row: str, key: str, more: str = "", source: str = "hills", share: float = 1.0) -> Case:
    return Case("algorithm", row, key, f"gdal {row} {more} {{i}} {{o}}", source, share)


def _compression(name: str, source: str = "hills") -> Case:
    share = 2.0 if source == "heights" else 1.0  # bytes of a pixel
    words = f"gdal raster convert --co=COMPRESS={name} {{i}} {{o}}"
    return Case("compression", name, "byte_ns", words, source, share)


RELIEF = ("hillshade", "slope", "aspect", "roughness", "tpi", "tri")
CASES = (
    _algorithm("raster convert", "pixel_ns"),
    _algorithm("raster set-type", "pixel_ns", "--ot=Float32"),
    _algorithm("raster scale", "pixel_ns", "--ot=UInt16"),
    _algorithm("raster unscale", "pixel_ns"),
    _algorithm("raster resize", "pixel_ns", "--size={n},{n}"),
    _algorithm("raster reproject", "pixel_ns", "--dst-crs=EPSG:3857 --size={n},{n}"),
    _algorithm("raster clip", "pixel_ns", "--window=0,0,{n},{n}"),
    *(_algorithm(f"raster {name}", "pixel_ns", source="heights") for name in RELIEF),
    _algorithm("raster calc", "pixel_ns", "--calc=X*2"),
    _algorithm("raster reclassify", "pixel_ns", "-m '[0,99]=1;DEFAULT=2'"),
    _algorithm("raster neighbors", "pixel_ns", "--method=mean --kernel=equal --size=3"),
    _algorithm("raster nodata-to-alpha", "pixel_ns", "--nodata=0", share=2),
    _algorithm("raster fill-nodata", "pixel_ns"),
    _algorithm("raster proximity", "pixel_ns"),
    _algorithm("raster sieve", "pixel_ns"),
    _algorithm("raster viewshed", "pixel_ns", "--position=510000,5190000 --height=2", "heights"),
    _algorithm("raster clean-collar", "pixel_ns"),
    _algorithm("raster footprint", "input_ns", "-f GPKG"),
    _algorithm("raster contour", "input_ns", "-f GPKG --interval=20", "heights"),
    _algorithm("raster polygonize", "input_ns", "-f GPKG", "classes"),
    Case("algorithm", "raster create", "pixel_ns", "gdal raster create --size={n},{n} {o}"),
    Case("algorithm", "raster info", "input_ns", "gdal raster info --checksum --min-max {i}"),
    Case("algorithm", "raster compare", "input_ns", "gdal raster compare --skip-binary {i} {i}"),
    Case(
        "algorithm", "vector rasterize", "pixel_ns", "gdal vector rasterize --burn=1 --size={n},{n} {s} {o}"
    ),
    Case("algorithm", "vector grid", "pixel_ns", "gdal vector grid invdist --size={n},{n} {p} {o}"),
    *(_compression(name) for name in ("DEFLATE", "ZSTD", "LZW", "PACKBITS", "LZMA", "LERC")),
    *(_compression(name) for name in ("JPEG", "LERC_DEFLATE", "LERC_ZSTD")),
    *(
        _algorithm(f"vector {name}", "feature_ns", more, "shapes")
        for name, more in (("convert", ""), ("reproject", "--dst-crs=EPSG:4326"), ("buffer", "--distance=5"))
    ),
    Case("algorithm", "vector info", "feature_ns", "gdal vector info --features --format=json {i}", "shapes"),
    Case("algorithm", "raster as-features", "input_ns", "gdal raster as-features -f GPKG {i} {o}", "few"),
    Case("algorithm", "gdal2xyz", "input_ns", "gdal2xyz -csv {i} {o}", "few"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """Where commands run, and the inputs by kind and size."""

    place: Arena
    rival: Plain
    rounds: int

    def path(self, source: str, side: int) -> Path:
        return (
            self.place.workspace / f"{source}_{side}{'.gpkg' if source in ('shapes', 'points') else '.tif'}"
        )

    def run(self, words: str) -> float:
        """Seconds of the processors that the command took. Raises NotMeasurable."""
        said = self.place.scratch / "times"
        script = f"set -f; {words}; code=$?; times >{said}; exit $code"
        self.rival.run(["bash", "-c", script], {**FIXED, "CPL_TMPDIR": "/tmp"})
        children = said.read_text(encoding="ascii").splitlines()[1]
        said.unlink()
        return sum(float(m) * 60 + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", children))

    def make(self) -> None:
        for side in (*SIDES, *POINTS):
            raw = write_hills(self.place.workspace, f"raw{side}", side)
            hills, heights = self._to("hills", side), self._to("heights", side)
            self.run(f"gdal raster convert {raw} {hills}")
            self.run(f"gdal raster set-type --ot=Int16 {hills} {heights}")
            self.run(f"gdal raster reclassify -m '[0,99]=1;DEFAULT=2' {hills} {self._to('classes', side)}")
        for side in POINTS:
            points, shapes = self._to("points", side), self._to("shapes", side)
            common = f"-f GPKG {self._to('hills', side)}"
            self.run(f"gdal raster as-features --geometry-type=point {common} {points}")
            self.run(f"gdal raster as-features --geometry-type=polygon {common} {shapes}")
        for path in self.place.scratch.iterdir():
            path.rename(self.place.workspace / path.name)

    def measure(self, case: Case) -> float:
        """Nanoseconds for each unit. Raises NotMeasurable."""
        vector = case.source in ("shapes", "few")
        small, large = POINTS if vector else SIDES
        source = "hills" if case.source == "few" else case.source
        seconds = [self._least(case, source, side) for side in (small, large)]
        return max(0.0, seconds[1] - seconds[0]) * 1e9 / ((large**2 - small**2) * case.share)

    def _least(self, case: Case, source: str, side: int) -> float:
        return min(self._once(case, source, side) for _ in range(self.rounds))

    def _once(self, case: Case, source: str, side: int) -> float:
        suffix = ".gpkg" if "-f GPKG" in case.words or case.source == "shapes" else ".tif"
        made = self.place.scratch / self.place.new_name(suffix)
        words = case.words.format(
            i=self.path(source, side), o=made, n=side, s=self.path("shapes", 100), p=self.path("points", 100)
        )
        try:
            return self.run(re.sub(" +", " ", words))
        finally:
            made.unlink(missing_ok=True)

    def _to(self, source: str, side: int) -> Path:
        return self.place.scratch / self.path(source, side).name


def main() -> int:
    options = _options()
    try:
        with arena(options.folder) as place, plain(place, USER, CPUS) as rival:
            field = Field(place, rival, options.rounds)
            field.make()
            found = _measure(field, [case for case in CASES if options.only in case.row])
    except (NotMeasurable, SandboxError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.write:
        text = TABLE.read_text(encoding="utf-8")
        TABLE.write_text(_written(text, found), encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"put the numbers into {TABLE.name}")
    parser.add_argument("--rounds", type=int, default=3, help="of each command (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows with this in their name")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="for temporary data, about 1 GB"
    )
    return parser.parse_args()


def _measure(field: Field, cases: Sequence[Case]) -> dict[Case, float]:
    """What could be measured; a compression without the time that it takes to write the same uncompressed."""
    found: dict[Case, float] = {}
    base = field.measure(CASES[0]) if any(case.section == "compression" for case in cases) else 0.0
    before = _reader(TABLE.read_text(encoding="utf-8"))
    for case in cases:
        try:
            number = field.measure(case)
        except NotMeasurable as error:
            sys.stderr.write(f"{case.row}: {error}\n")
            continue
        number -= base if case.section == "compression" else 0.0
        found[case] = float(f"{max(number, 0.5):.2g}")
        print(f"{case.row:24} {case.key:10} {before(case):>10} -> {found[case]:g}", flush=True)
    return found


def _reader(text: str) -> Callable[[Case], str]:
    def read(case: Case) -> str:
        match = _number(case).search(text)
        return match[2] if match else "none"

    return read


def _number(case: Case) -> re.Pattern[str]:
    name = re.escape(case.row)
    return re.compile(rf'(?m)^("?{name}"? = \{{.*?\b{case.key} = )([0-9.e+]+)')


def _written(text: str, found: dict[Case, float]) -> str:
    for case, number in found.items():
        text = _number(case).sub(rf"\g<1>{number:.12g}", text, count=1)
    return text


if __name__ == "__main__":
    sys.exit(main())
