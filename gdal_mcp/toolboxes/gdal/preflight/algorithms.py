"""Sets of algorithms, by what the algorithms do to the data that they read. Plain data.

A set is built from the sets that it contains, so that a new algorithm is added in one place.
"""

from typing import Final


def _raster(names: str) -> frozenset[str]:
    return frozenset(f"raster {name}" for name in names.split())


def _vector(names: str) -> frozenset[str]:
    return frozenset(f"vector {name}" for name in names.split())


# the output is one band, computed from the differences between neighbouring pixels
TERRAIN: Final = _raster("slope hillshade aspect roughness tri tpi")
# the output has the pixel values of the input; a resampled pixel lies between them
STORES: Final = _raster("write convert set-type clip reproject resize mosaic stack select")
STORES_OR_READS: Final = STORES | _raster("read")
# STORES_OR_READS, and algorithms that change only a part of a raster or only its metadata
KEEPS_PIXELS: Final = STORES_OR_READS | _raster("edit nodata-to-alpha") | {"raster overview add"}
PIXELS_OF_INPUT: Final = STORES_OR_READS | _raster("update")
# outputs must hide the pixels that the inputs hide
HIDES: Final = (
    STORES_OR_READS
    | TERRAIN
    | _raster("calc reclassify scale unscale neighbors sieve color-map blend pansharpen rgb-to-palette")
)
# the output has the extent of the input, so facts about that extent remain valid
SAME_GRID: Final = TERRAIN | _raster(
    "calc color-map convert fill-nodata neighbors nodata-to-alpha proximity reclassify rgb-to-palette scale select set-type sieve "
    "unscale write"
)
# the output has the nodata value of the input, unless an argument sets another
KEEPS_NODATA: Final = _raster("clip convert reproject resize select set-type sieve write")
# 64-bit integers are copied unchanged, or refused
EXACT_INTEGERS: Final = (
    STORES_OR_READS - _raster("reproject resize")
    | _raster("sieve edit update info compare unscale footprint create zonal-stats")
    | {"raster overview add", "raster overview refresh", "raster overview delete"}
)
# results are computed from the numbers in the file, without its scale and offset
COMPUTES: Final = (
    TERRAIN | _raster("calc contour zonal-stats reclassify viewshed as-features neighbors") | {"gdal2xyz"}
)
NORTH_UP: Final = TERRAIN | _raster("viewshed")
# without a geotransform, columns and lines are taken for coordinates, or the raster is refused
ON_A_GRID: Final = (
    TERRAIN
    | _raster("contour polygonize as-features viewshed zonal-stats clip mosaic")
    | {"gdal_merge", "gdal_polygonize", "gdal2xyz"}
)
IGNORES_MASKS: Final = _raster("contour as-features proximity viewshed") | {"gdal2xyz"}
ONE_BAND: Final = TERRAIN | _raster("proximity viewshed")
SAME_BANDS: Final = STORES - _raster("mosaic") | _raster("scale unscale reclassify")
# the output is a layer made from the pixels of a raster, in the raster's CRS
LAYERS_OF_PIXELS: Final = _raster("polygonize contour as-features")

# the output is a layer of footprints, one for each input, in the CRS of the first one
INDEXES: Final = frozenset({"raster index", "vector index"})

# the output has each feature of the input, with the same fields and values
_FEATURES: Final = _vector(
    "convert edit reproject make-valid buffer simplify segmentize simplify-coverage swap-xy convex-hull concave-hull"
)
KEEPS_FEATURES: Final = _FEATURES | _vector("read write")
# the output has some of the input's features, or other geometries, with the input's CRS and fields
_SELECTED: Final = _FEATURES | _vector(
    "clean-coverage clip dissolve explode-collections filter rename-layer set-field-type set-geom-type sort write"
)
KEEPS_FIELDS: Final = _SELECTED | _vector("make-point read")
KEEPS_CRS: Final = _SELECTED | _vector("check-coverage check-geometry combine layer-algebra partition select")
