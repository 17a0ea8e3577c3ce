"""Rasters of every kind for which GDAL has separate code: data type, block layout, size, and masks or scales of
pixels.
"""

import json
from dataclasses import asdict, dataclass
from itertools import product
from typing import Final

TYPES: Final = (
    "UInt8",
    "Int8",
    "UInt16",
    "Int16",
    "UInt32",
    "Int32",
    "UInt64",
    "Int64",
    "Float16",
    "Float32",
    "Float64",
)
LAYOUTS: Final = {
    "lines": ["BLOCKYSIZE=1"],
    "strips": ["BLOCKYSIZE=8"],
    "one-strip": ["BLOCKYSIZE=1000"],
    "tiles": ["TILED=YES", "BLOCKXSIZE=64", "BLOCKYSIZE=64"],
    "compressed": ["TILED=YES", "BLOCKXSIZE=256", "BLOCKYSIZE=256", "COMPRESS=DEFLATE"],
}
SIZES: Final = {
    "small": (40, 30),
    "whole": (256, 256),
    "odd": (301, 203),
}  # smaller than a block, whole blocks, partial blocks
HIDDEN: Final = ("nothing", "nodata", "nan", "mask", "scale")

# makes each raster that the JSON on its command line describes, with repeating numbers
PROGRAM: Final = r"""
import json, sys
import numpy
from osgeo import gdal, osr
gdal.UseExceptions()
gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
crs = osr.SpatialReference()
crs.ImportFromEPSG(32631)
types = {"UInt8": "u1", "Int8": "i1", "Float16": "f2", "Float32": "f4", "Float64": "f8"}
for one in json.loads(sys.argv[2]):
    width, height = one["size"]
    kind = types.get(one["type"]) or one["type"].lower()
    values = numpy.random.default_rng(7).integers(1, 100, (height, width)).astype(kind)
    values[: height // 3, : width // 2] += 20
    hole = numpy.s_[height // 2 :, : width // 3]
    code = gdal.GetDataTypeByName(one["type"])
    made = gdal.GetDriverByName("GTiff").Create(f"{sys.argv[1]}/{one['name']}.tif", width, height, 1, code, one["options"])
    made.SetGeoTransform((500000, 10, 0, 5000000, 0, -10))
    made.SetSpatialRef(crs)
    band = made.GetRasterBand(1)
    if one["hidden"] == "nodata":
        band.SetNoDataValue(0)
        values[hole] = 0
    if one["hidden"] == "nan":
        values[hole] = numpy.nan
    if one["hidden"] == "scale":
        band.SetScale(0.5)
        band.SetOffset(-3)
    band.WriteArray(values)
    if one["hidden"] == "mask":
        made.CreateMaskBand(gdal.GMF_PER_DATASET)
        seen = numpy.full((height, width), 255, "u1")
        seen[hole] = 0
        band.GetMaskBand().WriteArray(seen)
    band = made = None
"""


@dataclass(frozen=True)
class Kind:
    type: str
    layout: str
    size: str
    hidden: str

    @property
    def name(self) -> str:
        return f"{self.type}-{self.layout}-{self.size}-{self.hidden}"

    def described(self) -> dict[str, object]:
        derived = {"name": self.name, "options": LAYOUTS[self.layout], "size": SIZES[self.size]}
        return {**asdict(self), **derived}


def makes_sense(kind: Kind) -> bool:
    return kind.hidden != "nan" or "Float" in kind.type


ALL: Final = tuple(filter(makes_sense, (Kind(*values) for values in product(TYPES, LAYOUTS, SIZES, HIDDEN))))
# each type once; types that share GDAL's code for statistics also in more layouts, and with each kind of mask
FEW: Final = (
    *(Kind(data_type, "tiles", "odd", "nothing") for data_type in TYPES),
    *(
        Kind("Int16", *rest)
        for rest in (
            ("strips", "odd", "nodata"),
            ("compressed", "whole", "mask"),
            ("one-strip", "small", "scale"),
        )
    ),
    *(
        Kind("Float32", *rest)
        for rest in (("strips", "small", "nan"), ("compressed", "odd", "scale"), ("lines", "odd", "nodata"))
    ),
    Kind("UInt16", "compressed", "odd", "nodata"),
    Kind("UInt8", "strips", "odd", "mask"),
    Kind("Float64", "one-strip", "whole", "nan"),
)


def listed(kinds: tuple[Kind, ...]) -> str:
    """The input of `PROGRAM`."""
    return json.dumps([kind.described() for kind in kinds])
