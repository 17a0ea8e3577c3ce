"""The calls of a soak, with the answers of an independent GDAL.

The oracle's commands are written by hand here: they do not come from the server that is tested.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.data.make import make_data
from tests.oracle.container import Oracle

OUTPUT = "OUTPUT"  # in arguments: the name of the output
_SIDE = 150_000  # pixels of a raster that has one page of text and takes minutes to read


@dataclass(frozen=True)
class Case:
    """One call with its possible ends: an answer equal to the oracle's, or one of these error codes.

    `oracle` is a command with {in}, the folder of the data, and {out}, the path of the output.
    """

    name: str
    tool: str
    arguments: Mapping[str, Any]
    oracle: str = ""
    suffix: str = ""  # of the output; without one the call only reads
    codes: tuple[str, ...] = ()
    cancelled: bool = False  # it would take minutes, so its client always cancels it

    @property
    def fails(self) -> bool:
        return not self.oracle

    def arguments_for(self, output: str) -> dict[str, Any]:
        arguments: dict[str, Any] = json.loads(json.dumps(dict(self.arguments)).replace(OUTPUT, output))
        return arguments


def _case(name: str, tool: str, oracle: str, suffix: str = "", **arguments: Any) -> Case:
    return Case(name, tool, arguments, oracle, suffix)


def _bad(code: str, tool: str, **arguments: Any) -> Case:
    return Case(f"{code} by {tool} {arguments}", tool, arguments, codes=(code,))


def _algorithm(name: str, tool: str, oracle: str, suffix: str = "", **arguments: Any) -> Case:
    algorithm = " ".join(oracle.split()[1:3])
    return Case(name, tool, {"algorithm": algorithm, "arguments": arguments}, oracle, suffix)


READS = (
    # with a named format, the answer contains GDAL's full report
    _algorithm("info of a raster", "gdal_read", "gdal raster info -f json {in}/dem.tif", input="dem.tif", output_format="json"),
    _algorithm("info of a vector", "gdal_read", "gdal vector info -f json {in}/zones.gpkg", input="zones.gpkg", output_format="json"),
    _case("statistics", "gdalinfo", "gdalinfo -json -stats {in}/dem.tif", dataset="dem.tif", json=True, stats=True),
    _case("text", "gdalinfo", "gdalinfo {in}/float.tif", dataset="float.tif"),
    _algorithm("checksums", "gdal_read", "gdal raster info --checksum -f json {in}/rgb.tif", input="rgb.tif", checksum=True, output_format="json"),
    _algorithm("a pixel", "gdal_read", "gdal raster pixel-info --position=10,20 {in}/dem.tif", input="dem.tif", position=[10, 20]),
    _algorithm("features", "gdal_read", "gdal vector info --features -f json {in}/places.geojson", input="places.geojson", features=True, output_format="json"),
)  # fmt: skip
WRITES = (
    _case("compressed", "convert", "gdal convert --co=COMPRESS=ZSTD --co=PREDICTOR=2 {in}/dem.tif {out}", ".tif",
          input="dem.tif", output=OUTPUT, creation_options={"COMPRESS": "ZSTD", "PREDICTOR": 2}),
    _case("COG", "convert", "gdal convert -f COG {in}/rgb.tif {out}", ".tif", input="rgb.tif", output=OUTPUT, output_format="COG"),
    _case("reprojected", "reproject", "gdal raster reproject --dst-crs=EPSG:4326 -r cubic {in}/dem.tif {out}", ".tif",
          input="dem.tif", output=OUTPUT, dst_crs="EPSG:4326", resampling="cubic"),
    _algorithm("shaded", "gdal_write", "gdal raster hillshade --zfactor=2 {in}/dem.tif {out}", ".tif", input="dem.tif", output=OUTPUT, zfactor=2),
    _case("pipeline", "pipeline", "gdal raster pipeline read {in}/dem.tif ! reproject --dst-crs=EPSG:3857 ! slope ! write {out}", ".tif",
          steps=f"read dem.tif ! reproject --dst-crs=EPSG:3857 ! slope ! write {OUTPUT}"),
    _case("bands", "gdal_translate", "gdal_translate -q -b 2 -b 3 -projwin 2.2 48.9 3.1 48.1 {in}/rgb.tif {out}", ".tif",
          src_dataset="rgb.tif", dst_dataset=OUTPUT, bands=["2", "3"], projwin=[2.2, 48.9, 3.1, 48.1]),
    _case("mosaic", "gdalwarp", "gdalwarp -q -t_srs EPSG:3857 -r bilinear {in}/west.tif {in}/east.tif {out}", ".tif",
          src_datasets=["west.tif", "east.tif"], t_srs="EPSG:3857", dst_dataset=OUTPUT, r="bilinear"),
    _case("GeoJSON", "convert", "gdal convert {in}/zones.shp {out}", ".geojson", input="zones.shp", output=OUTPUT),
    _case("GeoPackage", "convert", "gdal convert {in}/zones.gpkg {out}", ".gpkg", input="zones.gpkg", output=OUTPUT),
    _case("polygons", "gdal_polygonize", "gdal_polygonize -q -mask {in}/mask.tif -f GeoJSON {in}/classes.tif {out}", ".geojson",
          src_dataset="classes.tif", dst_vector=OUTPUT, mask="mask.tif", band=1),
    _case("points", "gdal2xyz", "gdal2xyz -csv -b 3 -b 1 {in}/rgb.tif {out}", ".csv", dataset="rgb.tif", dst_csv=OUTPUT, bands=["3", "1"]),
)  # fmt: skip
BAD = (
    _bad("GDAL_ERROR", "info", path="broken.tif"),
    _bad("GDAL_ERROR", "info", path="broken.gpkg"),
    _bad("GDAL_ERROR", "convert", input="broken.tif", output=OUTPUT),
    _bad("INVALID_ARGUMENT", "reproject", input="dem.tif", output=OUTPUT, dst_crs="EPSG:999999"),
    _bad("NOT_FOUND", "info", path="gone.tif"),
    _bad("NOT_FOUND", "gdal_write", algorithm="raster nonsense", arguments={}),
    _bad("PATH_NOT_ALLOWED", "info", path="/etc/passwd"),
    _bad("NETWORK_BLOCKED", "info", path="https://example.com/a.tif"),
    _bad("INVALID_ARGUMENT", "convert", input="dem.tif", output=OUTPUT, creation_options={"COMPRESS": "NOPE"}),
    _bad("INVALID_ARGUMENT", "convert", input="dem.tif", output="dem.tif"),
    _bad("INVALID_ARGUMENT", "info"),
)  # fmt: skip
DEFLATED = {"input": "huge.vrt", "output": OUTPUT, "creation_options": {"COMPRESS": "DEFLATE"}}
LONG = (
    Case("endless read", "gdalinfo", {"dataset": "huge.vrt", "stats": True}, cancelled=True),
    Case("endless write", "convert", DEFLATED, suffix=".tif", cancelled=True),
)
DEADLINE = _bad("TIMEOUT", "gdalinfo", dataset="huge.vrt", stats=True)
GOOD = (*READS, *WRITES)
DECK = (*GOOD, *BAD, *LONG)


@dataclass(frozen=True)
class Answers:
    """The oracle's answers: printed texts and contents of files, by the name of the case."""

    said: Mapping[str, Any]

    def wrong(self, case: Case, result: Mapping[str, Any], path: Path) -> str:
        """The difference between a result and the oracle's, or nothing; for a case that writes, of the file at its
        path.
        """
        if case.suffix:
            ours = content(path) if path.exists() else "nothing"
        else:
            ours = result["untrusted"].get("report", result["untrusted"].get("text"))
        theirs = self.said[case.name]
        return "" if ours == theirs else f"GDAL says {theirs!r:.200}, we say {ours!r:.200}"


def lay(oracle: Oracle, workspace: Path) -> None:
    """The data of the cases, some of it broken."""
    make_data(oracle, workspace)
    for name, broken, length in (("dem.tif", "broken.tif", 200), ("zones.gpkg", "broken.gpkg", 5000)):
        (workspace / broken).write_bytes((workspace / name).read_bytes()[:length])
    source = '<SourceFilename relativeToVRT="1">rgb.tif</SourceFilename><SourceBand>1</SourceBand>'
    places = f'<SrcRect xOff="0" yOff="0" xSize="40" ySize="30"/><DstRect xOff="0" yOff="0" xSize="{_SIDE}" ySize="{_SIDE}"/>'
    band = f'<VRTRasterBand dataType="Byte" band="1"><SimpleSource>{source}{places}</SimpleSource></VRTRasterBand>'
    (workspace / "huge.vrt").write_text(
        f'<VRTDataset rasterXSize="{_SIDE}" rasterYSize="{_SIDE}">{band}</VRTDataset>'
    )


def answers(oracle: Oracle, workspace: Path) -> Answers:
    """Answers of a plain GDAL, for each case once."""
    folder, expected = oracle.folder("expected"), {}
    for number, case in enumerate(GOOD):
        out = folder / f"{number}{case.suffix}"
        text = oracle.must(*case.oracle.format(**{"in": workspace, "out": out}).split())
        expected[case.name] = content(out) if case.suffix else _parsed(text)
    return Answers(expected)


def _parsed(text: str) -> Any:
    return json.loads(text) if text.lstrip().startswith(("{", "[")) else text


def content(path: Path) -> Any:
    """The comparable content of a file: without names and times that a format stores."""
    return _CONTENTS.get(path.suffix, _digest)(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _features(path: Path) -> Any:
    document = json.loads(path.read_text(encoding="utf-8"))
    return {name: document[name] for name in document if name != "name"}


def _rows(path: Path) -> Any:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        [[table]] = db.execute("SELECT table_name FROM gpkg_contents WHERE data_type = 'features'")
        return db.execute(f'SELECT * FROM "{table}" ORDER BY 1').fetchall()


_CONTENTS: Mapping[str, Callable[[Path], Any]] = {".geojson": _features, ".gpkg": _rows}
