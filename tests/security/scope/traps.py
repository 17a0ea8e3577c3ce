"""Files of a workspace that include a file beside them, by every kind of reference that GDAL follows.

The bait is in the same workspace. So a call that sees the whole workspace returns the bait, and a call that sees only
what it names does not.
"""

import json
import struct
import zipfile
from pathlib import Path
from typing import Any, Final

from tests.e2e.mcp.hostile_files import OGR_VRT, SOURCE, VRT
from tests.oracle.container import Oracle

BAIT: Final = b"BAIT-51c7-OF-THE-SAME-WORKSPACE"
Call = tuple[str, dict[str, Any]]
ERS: Final = """DatasetHeader Begin{data}
	DataSetType = ERStorage
	DataType = Raster
	ByteOrder = LSBFirst
	RasterInfo Begin
		CellType = Unsigned8BitInteger
		NrOfLines = 20
		NrOfCellsPerLine = 20
		NrOfBands = 1
	RasterInfo End
DatasetHeader End
"""

# the pixels of bait.tif and the bytes of bait.raw are repetitions of the text
PROGRAM = r"""
import ctypes, glob, os, sys, numpy
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
out, bait = sys.argv[1] + "/", sys.argv[2].encode()
crs = osr.SpatialReference()
crs.ImportFromEPSG(32611)
transform = (440000, 60, 0, 3751000, 0, -60)

def raster(name, size, pixels):
    made = gdal.GetDriverByName("GTiff").Create(out + name, size, size)
    made.SetGeoTransform(transform)
    made.SetSpatialRef(crs)
    made.GetRasterBand(1).WriteArray(pixels)

text = numpy.frombuffer((bait * 20)[:400], "uint8").reshape(20, 20)
raster("bait.tif", 20, text)
for name in ("big.tif", "big2.tif"):
    raster(name, 40, numpy.full((40, 40), 7, "uint8"))
index = ogr.GetDriverByName("GPKG").CreateDataSource(out + "tiles.gti.gpkg")
layer = index.CreateLayer("tiles", crs, ogr.wkbPolygon)
layer.CreateField(ogr.FieldDefn("location", ogr.OFTString))
one = ogr.Feature(layer.GetLayerDefn())
one["location"] = "bait.tif"
one.SetGeometry(ogr.CreateGeometryFromWkt(
    "POLYGON ((440000 3751000,441200 3751000,441200 3749800,440000 3749800,440000 3751000))"))
layer.CreateFeature(one)
index = layer = one = None

library = ctypes.CDLL(next(iter(glob.glob("/usr/lib/*/libhdf5_serial.so*") + glob.glob("/usr/lib/*/libhdf5.so*"))))
number = ctypes.c_int64
for name in ("H5Fcreate", "H5Screate_simple", "H5Dcreate2", "H5Pcreate"):
    getattr(library, name).restype = number
library.H5open()
at = lambda name: number.in_dll(library, name)
size = (ctypes.c_uint64 * 2)(20, 20)
default = number(0)
file = number(library.H5Fcreate((out + "external.h5").encode(), 2, default, default))
space = number(library.H5Screate_simple(2, size, None))
plist = number(library.H5Pcreate(at("H5P_CLS_DATASET_CREATE_ID_g")))
library.H5Pset_external(plist, sys.argv[3].encode(), ctypes.c_int64(0), ctypes.c_uint64(400))
library.H5Dclose(number(library.H5Dcreate2(file, b"data", at("H5T_STD_U8LE_g"), space, default, plist, default)))
library.H5Fclose(file)
"""


def lay(ws: Path, oracle: Oracle) -> None:
    """Puts the bait and the traps into a workspace."""
    folder = oracle.folder("traps")
    oracle.python(PROGRAM, str(folder), BAIT.decode(), str(ws / "bait.raw"))
    for path in folder.iterdir():
        (ws / path.name).write_bytes(path.read_bytes())
    (ws / "bait.raw").write_bytes((BAIT * 20)[:400])
    (ws / "bait.csv").write_text(f"id,secret\n1,{BAIT.decode()}\n")
    (ws / "ids.csv").write_text("id,name\n1,a\n")
    for name, text in _texts(ws).items():
        (ws / name).write_text(text)
    (ws / "data.idx").write_bytes(struct.pack(">QQ", 0, 400))
    with zipfile.ZipFile(ws / "trap.zip", "w") as archive:
        archive.writestr("trap.vrt", OGR_VRT.format(layer="bait", name=ws / "bait.csv"))


def _vrt(name: str, relative: int = 0) -> str:
    return VRT.format(more="", kind="", band=SOURCE.format(relative=relative, name=name))


def _texts(ws: Path) -> dict[str, str]:
    array = {"shape": [20, 20], "chunks": [20, 20], "dtype": "|u1", "compressor": None, "fill_value": 0,
             "order": "C", "filters": None, "zarr_format": 2}  # fmt: skip
    chunk = [str(ws / "bait.raw"), 0, 400]
    kerchunk = {".zgroup": '{"zarr_format":2}', "a/.zarray": json.dumps(array), "a/0.0": chunk}
    overviews = '<Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">:::BASE:::bait.tif</MDI></Metadata>'
    joined = f"SELECT ids.id, bait.secret FROM ids LEFT JOIN '{ws / 'bait.csv'}'.bait ON ids.id = bait.id"
    return {
        "absolute.vrt": _vrt(str(ws / "bait.tif")),
        "relative.vrt": _vrt("bait.tif", 1),
        "twice.vrt": _vrt("relative.vrt", 1),
        "raw.vrt": VRT.format(more="", kind=' subClass="VRTRawRasterBand"', band=(
            '<SourceFilename relativeToVRT="1">bait.raw</SourceFilename><ImageOffset>0</ImageOffset>'
            "<PixelOffset>1</PixelOffset><LineOffset>20</LineOffset>")),
        "innocent.geojson": OGR_VRT.format(layer="bait", name=f"CSV:{ws / 'bait.csv'}"),
        "joined.vrt": '<OGRVRTDataSource><OGRVRTLayer name="joined"><SrcDataSource>'
            f'{ws / "ids.csv"}</SrcDataSource><SrcSQL dialect="OGRSQL">{joined}</SrcSQL></OGRVRTLayer></OGRVRTDataSource>',
        "piped.gdalg.json": json.dumps({"type": "gdal_streamed_alg", "command_line":
            f"gdal raster pipeline ! read {ws / 'bait.tif'} ! write --of stream streamed_dataset"}),
        "rows.gdalg.json": json.dumps({"type": "gdal_streamed_alg", "command_line":
            f"gdal vector pipeline ! read {ws / 'bait.csv'} ! write --of stream streamed_dataset"}),
        "kerchunk.json": json.dumps(kerchunk),
        "data.mrf": "<MRF_META><Raster><Size x='20' y='20' c='1'/><PageSize x='20' y='20' c='1'/><Compression>NONE</Compression>"
            "<DataType>Byte</DataType><DataFile>bait.raw</DataFile></Raster></MRF_META>",
        "big.tif.aux.xml": f"<PAMDataset>{overviews}</PAMDataset>",
        "big2.tif.ovr": _vrt("bait.tif", 1),
        "label.lbl": 'PDS_VERSION_ID = PDS3\n^IMAGE = "bait.raw"\nOBJECT = IMAGE\nLINES = 20\nLINE_SAMPLES = 20\n'
            "SAMPLE_TYPE = LSB_UNSIGNED_INTEGER\nSAMPLE_BITS = 8\nEND_OBJECT\nEND\n",
        "header.ers": ERS.format(data='\n\tDataFile = "bait.raw"'),
    }  # fmt: skip


# files that include another file when GDAL opens them
TRAPS: Final = (
    "absolute.vrt", "relative.vrt", "twice.vrt", "raw.vrt", "piped.gdalg.json", "kerchunk.json", "data.mrf", "tiles.gti.gpkg",
    "label.lbl", "header.ers", "external.h5", "big.tif", "big2.tif", "innocent.geojson", "joined.vrt", "rows.gdalg.json",
)  # fmt: skip
SMALLER: Final = {"input": "big.tif", "output": "out-big.tif", "size": [20, 20]}
ARCHIVED: Final = {"input": "/vsizip/{trap.zip}/trap.vrt", "features": True}
CALLS: Final[dict[str, Call]] = {
    "pixels": ("convert", {"input": "absolute.vrt", "output": "out-pixels.tif"}),
    "an overview": ("gdal_write", {"algorithm": "raster resize", "arguments": SMALLER}),
    "an archive": ("gdal_read", {"algorithm": "vector info", "arguments": ARCHIVED}),
}
