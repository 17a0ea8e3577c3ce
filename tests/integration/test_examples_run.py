"""The server runs every example call that it shows, unchanged, on data with the names that the call uses."""

import shutil
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mcp.conftest import grounds
from tests.e2e.mcp.talk import Person, Place, Talk, inside
from tests.oracle.container import Oracle

__all__ = ["grounds"]
pytestmark = pytest.mark.engine

TEXT = (
    resources.files("gdal_mcp.toolboxes.gdal.discovery")
    .joinpath("data/examples.toml")
    .read_text(encoding="utf-8")
)
EXAMPLES = tomllib.loads(TEXT)["example"]
FEW = 8  # every so many of all examples
# algorithms whose input the official image cannot make: a PDF with layers, and RPF files
NO_DATA = {"driver pdf list-layers", "driver rpftoc create"}
# codes of checks that an example reports intentionally
MEANT = {
    "raster create": {"constant"},
    "raster set-type": {"values_rounded"},  # rounds to integers, as the example says
    "mdim convert": {"crs_missing"},  # arrays whose axes are not coordinates
    "vector explode-collections": {"fields_stale"},  # parts of islands with the counts of whole islands
    "vector layer-algebra": {"fields_stale"},  # parts of parcels with the areas of whole parcels
    "vector make-valid": {"identical_to_input"},  # on valid data
    "vector set-field-type": {"identical_to_input"},  # on a column that already has the type
}
IN_PLACE = {"raster update", "vector update"}  # examples that update an existing output
BEFORE = {  # calls that have to run first
    "raster overview refresh": {
        "algorithm": "raster overview add",
        "arguments": {"input": "scene.tif", "levels": [2]},
    }
}
MAKE = r"""
import os, sys, zipfile
import numpy
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
os.chdir(sys.argv[1])
crs = osr.SpatialReference(); crs.ImportFromEPSG(32633)
place = (499000, 100, 0, 4651000, 0, -100)
y, x = numpy.mgrid[0:120, 0:120]
dem = (200 + 3 * x + 2 * y + 20 * numpy.sin(x / 9) * numpy.cos(y / 7)).astype("float32")
KINDS = {"float32": gdal.GDT_Float32, "uint8": gdal.GDT_Byte, "uint16": gdal.GDT_UInt16, "int16": gdal.GDT_Int16}

def raster(name, *bands, nodata=None, driver="GTiff", at=place, then=None):
    made = gdal.GetDriverByName("MEM").Create("", bands[0].shape[1], bands[0].shape[0], len(bands), KINDS[str(bands[0].dtype)])
    made.SetSpatialRef(crs); made.SetGeoTransform(at)
    for number, one in enumerate(bands, 1):
        band = made.GetRasterBand(number); band.WriteArray(one)
        if nodata is not None: band.SetNoDataValue(nodata)
        if then: then(band)
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    gdal.GetDriverByName(driver).CreateCopy(name, made).Close()

photo = [((x * k + y * 3) % 240 + 10).astype("uint8") for k in (2, 3, 5, 7)]
holes = dem.copy(); holes[40:44, 40:44] = -9999
raster("dem.tif", holes, nodata=-9999); raster("dem_filled.tif", dem)
for name in ("scene", "scene1", "old"): raster(name + ".tif", *photo)
raster("scene.png", *photo[:3], driver="PNG")
raster("dem_cog.tif", dem, driver="COG")
half = dem[:60]
for folder in ("", "scenes/"):
    raster(folder + "north.tif", half); raster(folder + "south.tif", half, at=(499000, 100, 0, 4645000, 0, -100))
for number, name in enumerate(("red", "nir", "green", "blue")): raster(name + ".tif", photo[number].astype("float32"))
raster("pan.tif", numpy.repeat(numpy.repeat(photo[0], 2, 0), 2, 1).astype("float32"), at=(499000, 50, 0, 4651000, 0, -50))
raster("colors.tif", *photo[:3]); raster("map.tif", *photo[:3]); raster("aerial.tif", *photo[:3])
raster("hillshade.tif", photo[0])
raster("before.tif", dem); raster("after.tif", dem + (x > 90))
classes = (x // 30 + 4 * (y // 30)).astype("uint8"); classes[10:13, 10:13] = 9  # a region that `raster sieve` removes
raster("classes.tif", classes)
for year in (2015, 2020): raster(f"landcover_{year}.tif", (1 + (x + year) // 30 % 4).astype("uint8"))
raster("rivers.tif", (abs(x - y) < 2).astype("uint8"))
raster("slope.tif", (x / 2.5).astype("float32"))
raster("scene16.tif", (x * 25).astype("uint16"))
def scaled(band): band.SetScale(0.1); band.SetOffset(-5)
raster("temperature.tif", (x * 3).astype("int16"), then=scaled)
raster("mosaic.tif", dem); raster("correction.tif", dem[10:20, 10:20] + 1, at=(501000, 100, 0, 4649000, 0, -100))
with open("elevation_colors.txt", "w") as file: file.write("100 0 90 0\n400 200 200 90\n800 255 255 255\nnv 0 0 0 0\n")
with zipfile.ZipFile("scenes.zip", "w") as file: file.write("scenes/north.tif")
os.makedirs("archive", exist_ok=True)

for name, start in (("climate", 0), ("climate_2023", 0), ("climate_2024", 40)):
    root = gdal.GetDriverByName("netCDF").CreateMultiDimensional(name + ".nc").GetRootGroup()
    axes = [root.CreateDimension(one, kind, "", size) for one, kind, size in (("time", "TEMPORAL", 40), ("lat", "", 4), ("lon", "", 5))]
    for axis, first in zip(axes, (start, 40, 10)):
        values = root.CreateMDArray(axis.GetName(), [axis], gdal.ExtendedDataType.Create(gdal.GDT_Float64))
        values.Write(numpy.arange(first, first + axis.GetSize(), dtype="float64"))
    array = root.CreateMDArray("temperature", axes, gdal.ExtendedDataType.Create(gdal.GDT_Float32))
    array.Write(numpy.arange(800, dtype="float32").reshape(40, 4, 5)); array = values = axes = root = None

FIELDS = {"name": ogr.OFTString, "parcel_id": ogr.OFTInteger, "owner": ogr.OFTString, "class": ogr.OFTInteger, "country": ogr.OFTString, "rain": ogr.OFTReal}
def layer(path, wkts, driver="GPKG", population=ogr.OFTInteger, layers=None):
    made = gdal.GetDriverByName(driver).CreateVector(path)
    kind = ogr.CreateGeometryFromWkt(wkts[0]).GetGeometryType()
    into = made.CreateLayer(layers or os.path.basename(path).split(".")[0], crs, kind)
    for name, type_ in {**FIELDS, "population": population}.items(): into.CreateField(ogr.FieldDefn(name, type_))
    for n, wkt in enumerate(wkts):
        one = ogr.Feature(into.GetLayerDefn())
        for name, value in (("name", f"n{n}"), ("parcel_id", n), ("owner", "ab"[n % 2]), ("class", n + 1), ("country", "XY"[n % 2]), ("rain", 2.5 * n + 1)): one.SetField(name, value)
        one.SetField("population", str(9000 * (n + 1)) if population == ogr.OFTString else 9000 * (n + 1))
        one.SetGeometry(ogr.CreateGeometryFromWkt(wkt)); into.CreateFeature(one)
    made.Close()

def square(west, south, side): return f"POLYGON (({west} {south},{west + side} {south},{west + side} {south + side},{west} {south + side},{west} {south}))"
lines = [f"LINESTRING ({500100 + n * 900} 4640100,{501000 + n * 900} 4645000,{501900 + n * 700} 4651000)" for n in range(4)]
squares = [square(501000 + n * 1000, 4642000, 1000) for n in range(4)]
points = [f"POINT ({500500 + n * 1500} {4641000 + (n * n % 7) * 1100})" for n in range(7)]
for name in ("roads", "old_roads", "roads_north", "roads_south"): layer(name + ".shp", lines, "ESRI Shapefile")
for name in ("roads", "rivers", "border"): layer(name + ".gpkg", lines)
layer("coast.gpkg", [f"LINESTRING ({','.join(f'{500100 + 100 * n} {4640100 + 3 * (n % 2)}' for n in range(40))})"])
for name in ("parcels", "districts", "city", "municipality", "landuse", "buildings"): layer(name + ".gpkg", squares)
layer("flood_zones.gpkg", [square(501500, 4642500, 2000)]); layer("changes.gpkg", squares[:2])
layer("city.gdb", squares, "OpenFileGDB")
layer("stations.gpkg", points); layer("trees.gpkg", [f"MULTIPOINT ({','.join(one[6:] for one in points)})"])
layer("places.gpkg", points, population=ogr.OFTString if len(sys.argv) > 2 else ogr.OFTInteger)
layer("places.shp", points, "ESRI Shapefile")
layer("lakes.gpkg", ["POLYGON Z ((501000 4642000 1,502000 4642000 1,502000 4643000 1,501000 4642000 1))"])
layer("islands.gpkg", [f"MULTIPOLYGON ({','.join(squares[n][8:] for n in (0, 1, 3))})"])
gdal.VectorTranslate("places.geojson", "places.gpkg", dstSRS="EPSG:4326")
gdal.VectorTranslate("right_way.geojson", "places.gpkg", dstSRS="EPSG:4326")
with open("right_way.geojson") as file: text = file.read()
import json
found = json.loads(text)
for one in found["features"]: one["geometry"]["coordinates"].reverse()
with open("swapped.geojson", "w") as file: json.dump(found, file)
os.remove("right_way.geojson")
with open("stations.csv", "w") as file: file.write("name,lon,lat\na,15.01,41.95\nb,15.05,41.97\n")
"""


@pytest.fixture(scope="module")
def example_data(oracle: Oracle) -> Path:
    folder = oracle.folder("examples")
    oracle.python(MAKE, str(folder))
    return folder


@pytest.fixture(scope="module")
def own(grounds: Path) -> Place:
    return Place.made(grounds / "examples")


@pytest.fixture(scope="module")
def talk(own: Place) -> Iterator[Talk]:
    with inside(own.command("--approval", "never", "--no-preview"), person=Person()) as new_talk:
        yield new_talk


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fresh(own: Place, example_data: Path) -> None:
    """The data as it was before any example ran."""
    root = own.path(".")
    for path in root.iterdir():
        remove(path)
    shutil.copytree(example_data, root, dirs_exist_ok=True)


def ran(talk: Talk, example: dict[str, Any]) -> dict[str, Any]:
    algorithm = {"algorithm": example["algorithm"], "arguments": example["arguments"]}
    for tool in ("gdal_read", "gdal_write"):
        done = talk.start(tool, **algorithm).result(timeout=300)
        if not done.is_error:
            return done.structured_content
    return done.structured_content


def spring(
    talk: Talk, own: Place, example_data: Path, examples: list[dict[str, Any]], subtests: pytest.Subtests
) -> None:
    for example in examples:
        if example["algorithm"] in NO_DATA:
            continue
        fresh(own, example_data)
        if (output := example["arguments"].get("output")) and example["algorithm"] not in IN_PLACE:
            remove(own.path(output))
        if first := BEFORE.get(example["algorithm"]):
            ran(talk, first)
        result = ran(talk, example)
        with subtests.test(example["algorithm"], does=example["does"]):
            assert result.get("outcome") == "OK" or "error" not in result, result
            outputs = (entry for entry in result.get("outputs", ()) if isinstance(entry, dict))
            codes = {
                row["code"]
                for row in [*result.get("checks", ()), *(row for entry in outputs for row in entry["checks"])]
            }
            assert codes <= MEANT.get(example["algorithm"], set()), (codes, result)


def test_some_examples_run_and_their_checks_find_nothing(talk, own, example_data, subtests):
    spring(talk, own, example_data, EXAMPLES[::FEW], subtests)


@pytest.mark.nightly
def test_all_examples_run_and_their_checks_find_nothing(talk, own, example_data, subtests):
    spring(talk, own, example_data, [example for n, example in enumerate(EXAMPLES) if n % FEW], subtests)
