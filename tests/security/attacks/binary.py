"""Traps in binary formats: files made by GDAL and HDF5 in the oracle's container, databases, and TIFF files made by
hand.
"""

import contextlib
import sqlite3
import struct
import zlib
from pathlib import Path

# HDF5 is used through its C interface, because the image does not contain its Python package
PROGRAM = r"""
import ctypes, ctypes.util, glob, os, sys
import numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out, outside, canary = sys.argv[1] + "/", sys.argv[2] + "/", sys.argv[3].encode()
pixels = np.frombuffer((canary * 20)[:400], "uint8").reshape(20, 20)

small = gdal.GetDriverByName("GTiff").Create(out + "secret-small.tif", 10, 10)
small.GetRasterBand(1).WriteArray(pixels[:10, :10])
small = None

# the data of an HFA file lie in a second one, whose name is then made a way out of the same length
way = b"../outside/secret.ige"
image = gdal.GetDriverByName("HFA").Create(out + "x" * (len(way) - 4) + ".img", 20, 20, 1, options=["USE_SPILL=YES"])
image.GetRasterBand(1).WriteArray(pixels)
image = None
stem = out + "x" * (len(way) - 4)
with open(stem + ".img", "rb") as file:
    data = file.read().replace(b"x" * (len(way) - 4) + b".ige", way)
with open(out + "spill.img", "wb") as file:
    file.write(data)
os.rename(stem + ".ige", out + "secret.ige")
os.remove(stem + ".img")

srs = osr.SpatialReference()
srs.ImportFromEPSG(4326)
srs.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
for name, location in (("tiles", outside + "secret.tif"), ("tiles-vrt", "vrt://" + outside + "secret.tif"), ("tiles-up", "../outside/secret.tif")):
    made = ogr.GetDriverByName("GPKG").CreateDataSource(out + name + ".gti.gpkg")
    layer = made.CreateLayer("tiles", srs, ogr.wkbPolygon)
    layer.CreateField(ogr.FieldDefn("location", ogr.OFTString))
    for key, value in {"RESX": "1", "RESY": "1", "BAND_COUNT": "1", "DATA_TYPE": "Byte", "MINX": "0", "MINY": "0", "MAXX": "20", "MAXY": "20"}.items():
        layer.SetMetadataItem(key, value)
    feature = ogr.Feature(layer.GetLayerDefn())
    feature["location"] = location
    feature.SetGeometry(ogr.CreateGeometryFromWkt("POLYGON ((0 0,20 0,20 20,0 20,0 0))"))
    layer.CreateFeature(feature)
    feature = layer = made = None

h5 = ctypes.CDLL(sorted(glob.glob("/usr/lib/*/libhdf5_serial.so.*") + glob.glob("/usr/lib/*/libhdf5.so.*"))[0])
handle = ctypes.c_int64
for name in ("H5Fcreate", "H5Screate_simple", "H5Pcreate", "H5Dcreate2"):
    getattr(h5, name).restype = handle
h5.H5open()
byte = handle.in_dll(h5, "H5T_NATIVE_UCHAR_g").value
creation = handle.in_dll(h5, "H5P_CLS_DATASET_CREATE_ID_g").value
square = (ctypes.c_uint64 * 2)(20, 20)
space = handle(h5.H5Screate_simple(2, square, None))

def file(name):
    return handle(h5.H5Fcreate((out + name).encode(), 2, handle(0), handle(0)))

def dataset(where, name, properties=0):
    return handle(h5.H5Dcreate2(where, name.encode(), handle(byte), space, handle(0), handle(properties), handle(0)))

one = file("secret.h5")
filled = dataset(one, "a")
assert h5.H5Dwrite(filled, handle(byte), handle(0), handle(0), handle(0), pixels.tobytes()) >= 0
h5.H5Dclose(filled); h5.H5Fclose(one)

one = file("h5-link.h5")
assert h5.H5Lcreate_external((outside + "secret.h5").encode(), b"/a", one, b"a", handle(0), handle(0)) >= 0
h5.H5Fclose(one)

for name, target in (("h5-storage.h5", outside + "secret.bin"), ("h5-storage-up.nc", "../outside/secret.bin"), ("h5-proc.h5", "/proc/self/root" + outside + "secret.bin"), ("h5-passwd.h5", "/etc/passwd")):
    one = file(name)
    properties = h5.H5Pcreate(handle(creation))
    assert h5.H5Pset_external(handle(properties), target.encode(), ctypes.c_int64(0), ctypes.c_uint64(400)) >= 0
    h5.H5Dclose(dataset(one, "a", properties)); h5.H5Fclose(one)

one = file("h5-virtual.h5")
properties = h5.H5Pcreate(handle(creation))
assert h5.H5Pset_virtual(handle(properties), space, (outside + "secret.h5").encode(), b"a", space) >= 0
h5.H5Dclose(dataset(one, "a", properties)); h5.H5Fclose(one)
"""


def databases(workspace: Path, outside: Path, honest: Path) -> None:
    """GeoPackages and SQLite files that contain SQL of an attacker."""
    views = {
        "view-load": "SELECT load_extension('/nowhere/canary.so') AS fid",
        "view-layers": f"SELECT ogr_datasource_load_layers('{outside}/secret.csv') AS fid",
        "view-pixel": f"SELECT gdal_get_pixel_value('{outside}/secret.tif', 1, 'pixel', 1, 1) AS fid",
        "view-file": f"SELECT CAST(readfile('{outside}/secret.txt') AS TEXT) AS fid",
        "view-pragma": "SELECT file AS fid FROM pragma_database_list",
        "view-memory": "SELECT 1 AS fid, hex(randomblob(900000000)) AS x",
    }
    for name, select in views.items():
        path = workspace / f"{name}.gpkg"
        path.write_bytes(honest.read_bytes())
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute(f'CREATE VIEW "{name}" AS {select}')
            db.execute(
                "INSERT INTO gpkg_contents (table_name, data_type, identifier) VALUES (?, 'attributes', ?)",
                (name, name),
            )
    _triggers(workspace / "trigger.gpkg", honest, outside)
    _virtual(workspace, outside)


def _triggers(path: Path, honest: Path, outside: Path) -> None:
    path.write_bytes(honest.read_bytes())
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TRIGGER t AFTER INSERT ON zones BEGIN"
            f" SELECT writefile('{outside}/PWNED', 'x'), load_extension('/nowhere/canary.so'); END"
        )


def _virtual(workspace: Path, outside: Path) -> None:
    """Virtual tables written into the schema as text: the reader's own SQLite has the module that they name."""
    tables = {
        "virtual-ogr": f"VirtualOGR('{outside}/secret.csv')",
        "virtual-text": f"VirtualText('{outside}/secret.csv', 'UTF-8', 1, COMMA)",
        "virtual-shape": f"VirtualShape('{outside}/secret', 'UTF-8', 4326)",
        "virtual-csv": f"csv(filename='{outside}/secret.csv')",
        "virtual-spatialindex": "VirtualSpatialIndex()",
    }
    for name, module in tables.items():
        with contextlib.closing(sqlite3.connect(workspace / f"{name}.sqlite")) as db:
            db.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, name TEXT)")
            db.execute("PRAGMA writable_schema=ON")
            statement = f"CREATE VIRTUAL TABLE secret USING {module}"
            db.execute(
                "INSERT INTO sqlite_master (type, name, tbl_name, rootpage, sql) VALUES ('table', 'secret', 'secret', 0, ?)",
                (statement,),
            )
            db.commit()
    with contextlib.closing(sqlite3.connect(workspace / "loads.sqlite")) as db, db:
        db.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY)")
        db.execute(f"CREATE VIEW loads AS SELECT load_extension('{workspace}/canary.so') AS x")


def tiff(tags: list[tuple[int, int, int, int]], following: int = 0, start: int = 8) -> bytes:
    """One directory of (tag, kind, count, value) at `start`. The caller sorts the entries."""
    rows = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return struct.pack("<H", len(tags)) + rows + struct.pack("<I", following)


def _image(
    width: int, height: int, *more: tuple[int, int, int, int], data: int, length: int, compression: int = 1
) -> list[tuple[int, int, int, int]]:
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, compression), (262, 3, 1, 1),
            (273, 4, 1, data), (277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, length)]  # fmt: skip
    return sorted([*tags, *more])


def tiffs(workspace: Path) -> None:
    """TIFF files with circular directories, with thousands of directories, and with far more pixels than bytes."""
    head = b"II*\0\x08\0\0\0"
    loop = head + tiff(_image(20, 20, data=200, length=400), following=8)
    (workspace / "ifd_loop.tif").write_bytes(loop.ljust(200, b"\0") + b"\1" * 400)
    sub = head + tiff(_image(20, 20, (330, 4, 1, 8), data=200, length=400))
    (workspace / "subifd_loop.tif").write_bytes(sub.ljust(200, b"\0") + b"\1" * 400)
    size, count = 2 + 12 * 9 + 4, 20_000
    many = (
        tiff(_image(20, 20, data=8, length=400), 8 + (number + 1) * size if number + 1 < count else 0)
        for number in range(count)
    )
    (workspace / "many_ifds.tif").write_bytes(head + b"".join(many))
    side = 16_384
    packed = zlib.compress(b"\0" * (side * side), 9)
    bomb = head + tiff(_image(side, side, data=200, length=len(packed), compression=8))
    (workspace / "deflate_bomb.tif").write_bytes(bomb.ljust(200, b"\0") + packed)
