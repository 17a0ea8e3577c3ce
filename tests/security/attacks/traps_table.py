"""The files of `table.py` that only these attacks need."""

import contextlib
import json
import sqlite3
import zipfile
from pathlib import Path

from tests.e2e.mcp.hostile_files import GDALG, MRF, RAW, SOURCE, VRT, WMS
from tests.e2e.mcp.talk import Place
from tests.security.attacks import traps_raster, traps_vector

BUSY = '<SimpleSource><SourceFilename relativeToVRT="1">ok.tif</SourceFilename><SrcRect xOff="0" yOff="0" xSize="20" ySize="20"/><DstRect xOff="0" yOff="0" xSize="{0}" ySize="{0}"/></SimpleSource>'


def texts(outside: Path) -> dict[str, str]:
    raw = traps_raster.vrt(
        RAW.format(name="zeros.tif").replace("<SourceFilename>", '<SourceFilename relativeToVRT="1">'),
        kind="VRTRawRasterBand",
    )
    contents = {
        "vrt-raw-passwd.vrt": traps_raster.vrt(RAW.format(name="/etc/passwd"), kind="VRTRawRasterBand"),
        "vrt-raw-inside.vrt": raw,
        "vrt-busy.vrt": VRT.format(more="", kind="", band=BUSY.format(200_000)).replace('"20" rasterYSize="20"', '"200000" rasterYSize="200000"'),
        "large.vrt": VRT.format(more="", kind="", band=BUSY.format(30_000)).replace('"20" rasterYSize="20"', '"30000" rasterYSize="30000"'),
        "pds-passwd.lbl": traps_raster.FILES["pds-up.lbl"].replace("../outside/secret.bin", "/etc/passwd"),
        "passwd.gdalg.json": GDALG.format(command="gdal vector pipeline ! read CSV:/etc/passwd ! write --of stream streamed_dataset"),
        "template-new.gml": traps_vector.FILES["template.gml"],
        "wms-picture.xml": WMS.format(url=f"file://{outside}/secret.tif?${{x}}"),
    }  # fmt: skip
    for which, target in {"passwd": "/etc/passwd", "secret": str(outside / "secret.bin")}.items():
        contents[f"mrf-{which}.mrf"] = MRF.format(name=target)
        contents[f"mrf-{which}-in.vrt"] = traps_raster.vrt(SOURCE.format(relative=1, name=f"mrf-{which}.mrf"))
        contents[f"kerchunk-{which}.json"] = traps_raster.FILES["kerchunk-up.json"].replace(
            "../outside/secret.bin", target
        )
    return contents


def lay_table(place: Place, outside: Path) -> None:
    for name, text in texts(outside).items():
        place.path(name).write_text(text)
    _chain(place.path("chain"))
    _bomb(place.path("bomb.zip"))
    _endless(place.path("endless.sqlite"))
    for name in ("x16.vrt", "x20n.vrt", "x22.vrt", "x24.vrt"):
        place.path(name).write_bytes(place.path("ok.vrt").read_bytes())
    place.path("r27.tif").write_bytes(place.path("dem.tif").read_bytes())
    point = {
        "type": "Feature",
        "properties": {"name": "x" * 100},
        "geometry": {"type": "Point", "coordinates": [1, 2]},
    }
    place.path("flood.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": [point] * 20_000})
    )


def _chain(folder: Path) -> None:
    """Each of 200 descriptions names the next."""
    folder.mkdir()
    (folder / "end.tif").write_bytes((folder.parent / "ok.tif").read_bytes())
    for number in range(200):
        following = f"c{number + 1:03}.vrt" if number < 199 else "end.tif"
        (folder / f"c{number:03}.vrt").write_text(traps_raster.vrt(SOURCE.format(relative=1, name=following)))


def _bomb(path: Path) -> None:
    """A raster of 64 MB in 64 kB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("zeros.bil", "w") as file:
            for _ in range(64):
                file.write(b"\0" * (1 << 20))
        archive.writestr("zeros.hdr", "NROWS 8192\nNCOLS 8192\nNBANDS 1\nNBITS 8\nLAYOUT BIL\nBYTEORDER I\n")


def _endless(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY)")
        db.execute(
            "CREATE VIEW endless AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
            " SELECT x, ogr_datasource_load_layers('/etc/passwd') FROM c"
        )
