"""Runs inside a container: what jobs do. Writes to /staging, prints what worked as one line of JSON."""

import asyncio
import ctypes
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from osgeo import gdal

gdal.UseExceptions()
OUT = Path("/staging")


def make_raster():
    raster = gdal.GetDriverByName("GTiff").Create(
        "/tmp/a.tif", 256, 256, 1, gdal.GDT_Byte, ["TILED=YES", "COMPRESS=DEFLATE"]
    )
    raster.SetGeoTransform((0, 0.1, 0, 50, 0, -0.1))
    raster.SetProjection("EPSG:4326")
    raster.GetRasterBand(1).Fill(7)
    raster = None  # closes it
    return gdal.Info("/tmp/a.tif", format="json")["bands"][0]["block"]


def convert(name, target):
    if gdal.GetDriverByName(name) is None:
        return "no driver"
    options = {"netCDF": ["FORMAT=NC4"]}.get(name, [])  # NC4 is HDF5 underneath, with its file locks
    gdal.Translate(str(OUT / target), "/tmp/a.tif", format=name, creationOptions=options).FlushCache()
    return gdal.Open(str(OUT / target)).RasterXSize


def command(*arguments):
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    return [done.returncode, done.stderr]


def threads():
    sizes = []
    workers = [
        threading.Thread(target=lambda: sizes.append(gdal.Open("/tmp/a.tif").RasterXSize)) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sizes


def database():
    with sqlite3.connect(OUT / "x.db") as connection:
        connection.execute("pragma journal_mode=wal")
        connection.execute("create table t (a)")
        connection.execute("insert into t values (1)")
    return connection.execute("select a from t").fetchone()[0]


async def event_loop():
    process = await asyncio.create_subprocess_exec("true")
    return await process.wait() + await asyncio.to_thread(lambda: 0)


def copies():
    shutil.copy2("/tmp/a.tif", OUT / "copy.tif")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(OUT, Path(folder, "tree"))
    return (OUT / "copy.tif").stat().st_size


WARP = ("gdalwarp", "-multi", "-wo", "NUM_THREADS=2", "-t_srs", "EPSG:3857", "/tmp/a.tif", str(OUT / "w.tif"))
found = {
    "block": make_raster(),
    "formats": {name: convert(name, target) for name, target in json.loads(sys.argv[1]).items()},
    "program": command("gdal", "raster", "convert", "/tmp/a.tif", str(OUT / "c.tif"), "--co", "TILED=YES"),
    "unnamed until whole": command(
        "gdal", "raster", "tile", "/tmp/a.tif", str(OUT / "tiles"), "--max-zoom=1"
    ),
    "parallel warp": command(*WARP),
    "threads": threads(),
    "database": database(),
    "event loop": asyncio.run(event_loop()),
    "callback": ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 5)(),
    "copy": copies(),
}
sys.stdout.write(json.dumps(found))
