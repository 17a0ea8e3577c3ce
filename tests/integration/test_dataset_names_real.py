"""Dataset names against a real GDAL: accepted names open the intended data, and all other forms that GDAL knows are
refused.
"""

import json
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
import pytest

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.gdal.datasets.names import parse, table
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.toolboxes.gdal.environment import environment
from sandbox.outcome import Exited
from sandbox.runner import Job, Runner
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspace, Workspaces
from tests.conftest import SMALL, USER, TemplateMaker, handler

pytestmark = pytest.mark.engine

LIMITS = replace(SMALL, memory_bytes=512 << 20)

# Makes files of every format in which GDAL can create subdatasets, and prints the names that GDAL lists for them. The
# first pixel identifies the part that was opened: its value is the number in the file name or the number of the part.
MAKE = r"""
import gzip, json, os, sys, tarfile, zipfile
from osgeo import gdal, osr
gdal.UseExceptions()
gdal.PushErrorHandler("CPLQuietErrorHandler")
root = sys.argv[1]
os.chdir(root)
have = {gdal.GetDriver(number).ShortName for number in range(gdal.GetDriverCount())}
wgs84 = osr.SpatialReference()
wgs84.ImportFromEPSG(4326)

def raster(value, bands=1, kind=gdal.GDT_Byte, placed=True):
    made = gdal.GetDriverByName("MEM").Create("", 4, 3, bands, kind)
    if placed:
        made.SetGeoTransform((10, 1, 0, 50, 0, -1))
        made.SetSpatialRef(wgs84)
    for number in range(bands):
        made.GetRasterBand(number + 1).Fill(value)
    return made

def write(driver, name, data, *options):
    gdal.GetDriverByName(driver).CreateCopy(name, data, options=list(options))

def arrays(driver, name, extra):
    made = gdal.GetDriverByName(driver).CreateMultiDimensional(name)
    group = made.GetRootGroup()
    dimensions = [group.CreateDimension(axis, None, None, size) for axis, size in (*extra, ("y", 3), ("x", 4))]
    size = 12
    for _, length in extra:
        size *= length
    for value, label in ((1, "one"), (2, "two")):
        array = group.CreateMDArray(label, dimensions, gdal.ExtendedDataType.Create(gdal.GDT_Byte))
        array.Write(bytes([value]) * size)

def pdf(name):
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 40 30] /Contents %d 0 R /Resources << >> >>"
    white, black = "1 g 0 0 40 30 re f", "0 g 0 0 40 30 re f"
    things = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>", page % 5, page % 6]
    things += [f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream" for drawn in (white, black)]
    text, places = "%PDF-1.4\n", []
    for number, thing in enumerate(things, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{thing}\nendobj\n"
    rows = "".join(f"{place:010d} 00000 n \n" for place in places)
    text += f"xref\n0 7\n0000000000 65535 f \n{rows}trailer << /Size 7 /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    open(name, "w").write(text)

write("GTiff", "11.tif", raster(11))
write("GTiff", "NETCDF:12.tif", raster(12))
write("GTiff", "13,a b.tif", raster(13))
write("GTiff", "complex.tif", raster(3, kind=gdal.GDT_CFloat32))
write("GTiff", "two.tif", raster(1))
write("GTiff", "two.tif", raster(2), "APPEND_SUBDATASET=YES")
for folder in ("d.zip", "d.tar"):
    os.mkdir(folder)
for name, value in (("a.zip", 21), ("d.zip/real.zip", 22), ("a.kmz", 23), ("d.tar/a b.zip", 24)):
    with zipfile.ZipFile(name, "w") as packed:
        write("GTiff", "/vsimem/x.tif", raster(value))
        with gdal.VSIFile("/vsimem/x.tif", "rb") as file:
            data = file.read()
        packed.writestr("in.tif", data)
        packed.writestr("b.zip/in.tif", data)
        packed.write("two.tif", "deep/two.tif")
with zipfile.ZipFile("single.zip", "w") as packed:
    packed.write("11.tif")
for name, mode in (("a.tar", "w"), ("a.tgz", "w:gz"), ("a.tar.gz", "w:gz")):
    with tarfile.open(name, mode) as packed:
        packed.add("11.tif", "t/11.tif")
        packed.add("two.tif", "two.tif")
with gzip.open("11.tif.gz", "wb") as packed:
    packed.write(open("11.tif", "rb").read())
pdf("two.pdf") if "PDF" in have else None
if "NITF" in have:
    write("NITF", "two.ntf", raster(1), "NUMI=2")
    write("NITF", "two.ntf", raster(2), "APPEND_SUBDATASET=YES")
if "GPKG" in have:
    write("GPKG", "two.gpkg", raster(1), "RASTER_TABLE=one", "TILE_FORMAT=PNG")
    write("GPKG", "two.gpkg", raster(2), "RASTER_TABLE=two words", "TILE_FORMAT=PNG", "APPEND_SUBDATASET=YES")
if "netCDF" in have:
    arrays("netCDF", "two.nc", ())
    if "HDF5" in have:
        open("two.h5", "wb").write(open("two.nc", "rb").read())
if "Zarr" in have:
    arrays("Zarr", "two.zarr", (("z", 2),))
if "HDF4Image" in have:
    made = gdal.GetDriverByName("HDF4Image").Create("two.hdf", 4, 3, 2, gdal.GDT_Byte, ["RANK=2"])
    for number in (1, 2):
        made.GetRasterBand(number).Fill(number)
    del made
if "PDS4" in have:
    write("PDS4", "two.xml", raster(1), "VAR_TITLE=x")
    written = gdal.Open("two.xml")
    second = raster(2, placed=False)
    second.SetGeoTransform(written.GetGeoTransform())
    second.SetProjection(written.GetProjection())
    del written
    write("PDS4", "two.xml", second, "APPEND_SUBDATASET=YES", "ARRAY_IDENTIFIER=two")
if "FITS" in have:
    write("FITS", "1.fits", raster(1))
if "AVIF" in have:
    write("AVIF", "1.avif", raster(1), "QUALITY=100")
for driver, name, options in (("BAG", "1.bag", ()), ("S102", "1021.h5", ("VERTICAL_DATUM=MLLW",))):
    if driver in have:
        metric = gdal.Translate("", raster(1, 2, gdal.GDT_Float32), format="MEM", outputSRS="EPSG:32631")
        write(driver, name, metric, *options)

listed = []
for name in sorted(os.listdir(".")):
    if ":" in name:
        continue  # GDAL lists parts under such a path too, and we refuse them
    path = f"{root}/{name}"
    paths = [path] if not name.endswith((".zip", ".tar")) else [f"/vsizip/{path}/deep/two.tif", f"/vsitar/{path}/two.tif"]
    for one in paths:
        try:
            opened = gdal.OpenEx(one)
        except RuntimeError:
            continue
        for domain in ("SUBDATASETS", "DERIVED_SUBDATASETS"):
            listed += [value for key, value in (opened.GetMetadata(domain) or {}).items() if key.endswith("_NAME")]
        opened = None
print(json.dumps({"have": sorted(have), "listed": listed}))
"""

# Opens each name and prints the driver and the value of the first pixel.
OPEN = """
import struct
from osgeo import gdal
gdal.UseExceptions()
gdal.PushErrorHandler("CPLQuietErrorHandler")
told = {}
for name in job["names"]:
    try:
        opened = gdal.OpenEx(name)
        band = opened.GetRasterBand(1) if opened.RasterCount else None
        pixel = struct.unpack("d", band.ReadRaster(0, 0, 1, 1, buf_type=gdal.GDT_Float64))[0] if band else None
        told[name] = [opened.GetDriver().ShortName, pixel]
    except RuntimeError as error:
        told[name] = [None, str(error)]
return {"code": 0, "told": told}
"""

# text by the caller, driver that opens it, and first pixel
WRITTEN = {
    "11.tif": ("GTiff", 11), "NETCDF:12.tif": ("GTiff", 12), "GTIFF_DIR:1:13,a b.tif": ("GTiff", 13),
    "GTIFF_DIR:2:two.tif": ("GTiff", 2), "GTIFF_DIR:off:8:11.tif": ("GTiff", 11),
    "GTIFF_RAW:11.tif": ("GTiff", 11), "DERIVED_SUBDATASET:INTENSITY:complex.tif": ("DERIVED", 9),
    "/vsizip/a.zip/in.tif": ("GTiff", 21), "/vsizip/{a.zip}/in.tif": ("GTiff", 21),
    "/vsizip/{ws}/a.zip/b.zip/in.tif": ("GTiff", 21), "/vsizip/{ws}/d.zip/real.zip/in.tif": ("GTiff", 22),
    "/vsizip/d.zip/real.zip/b.zip/in.tif": ("GTiff", 22), "/vsizip/a.kmz/in.tif": ("GTiff", 23),
    "/vsizip/d.tar/a b.zip//in.tif": ("GTiff", 24), "/vsizip/single.zip": ("GTiff", 11),
    "/vsitar/a.tar/t/11.tif": ("GTiff", 11), "/vsitar/{ws}/a.tgz/t/11.tif": ("GTiff", 11),
    "/vsitar/{a.tar.gz}/t/11.tif": ("GTiff", 11), "/vsigzip/11.tif.gz": ("GTiff", 11),
    "/vsigzip/{ws}/11.tif.gz": ("GTiff", 11), "GTIFF_DIR:2:/vsizip/a.zip/deep/two.tif": ("GTiff", 2),
    "GTIFF_DIR:2:/vsitar/{ws}/a.tgz/two.tif": ("GTiff", 2), "GTIFF_DIR:1:/vsigzip/11.tif.gz": ("GTiff", 11),
    'NETCDF:"two.nc":two': ("netCDF", 2), "NETCDF:two.nc:one": ("netCDF", 1),
    'NETCDF:"two.nc"': ("netCDF", None), 'HDF5:"two.h5"://two': ("HDF5Image", 2),
    'HDF4_SDS:GDAL_HDF4:"two.hdf":1': ("HDF4Image", 2), 'ZARR:"two.zarr":/two': ("Zarr", 2),
    'ZARR:"two.zarr":/two:1': ("Zarr", 2), "GPKG:two.gpkg:two words": ("GPKG", 2),
    "NITF_IM:1:two.ntf": ("NITF", 2), "PDS4:two.xml:1:2": ("PDS4", 2), "PDF:1:two.pdf": ("PDF", 255),
    "PDF:2:two.pdf": ("PDF", 0), 'FITS:"1.fits":1': ("FITS", 1), "AVIF:1:1.avif": ("AVIF", 1),
    'BAG:"1.bag":bathymetry_coverage': ("BAG", 1), 'S102:"1021.h5":BathymetryCoverage': ("S102", 1),
}  # fmt: skip


@dataclass(frozen=True)
class Opened:
    """Results of a hardened container for the names that `Paths` made from texts, and the names that GDAL listed
    itself.
    """

    paths: Paths
    have: frozenset[str]
    listed: tuple[str, ...]
    told: dict[str, Any]

    def of(self, text: str) -> tuple[str | None, Any]:
        driver, pixel = self.told[self.paths.source(text).name]
        return driver, pixel


@pytest.fixture(scope="module")
def opened(
    tmp_path_factory: pytest.TempPathFactory,
    client: docker.DockerClient,
    image: Image,
    runner: Runner,
    make_template: TemplateMaker,
) -> Opened:
    root = tmp_path_factory.mktemp("names") / "ws"
    root.mkdir()
    report = make(client, image, root)
    paths = Paths(Workspaces((Workspace.at(root, writable=False),)), "outputs", "0123456789abcdef")
    texts = [text.replace("{ws}", str(root)) for text in WRITTEN if WRITTEN[text][0] in report["have"]]
    names = [paths.source(text).name for text in (*texts, *report["listed"])]
    template = make_template(
        handler(OPEN), limits=LIMITS, workspace=root, environment=dict(environment(LIMITS))
    )
    with closing(Cancellation()) as cancel:
        result = runner.run(Job("call-0001", template, {"names": names}), cancel)
    assert result.outcome == Exited(0), result
    assert result.final is not None
    return Opened(paths, frozenset(report["have"]), tuple(report["listed"]), result.final["told"])


def make(client: docker.DockerClient, image: Image, root: Path) -> Any:
    root.chmod(0o777)  # the container runs as `nobody` here
    output = plain(client, image, MAKE, str(root), volumes={str(root): {"bind": str(root), "mode": "rw"}})
    root.chmod(0o755)
    return output


def plain(client: docker.DockerClient, image: Image, program: str, *arguments: str, **options: Any) -> Any:
    """Prints of a program, as JSON, in a container without our settings."""
    command = ["python3", "-c", program, *arguments]
    user = f"{USER[0]}:{USER[1]}"
    output = client.containers.run(
        image.id, command, user=user, network_mode="none", remove=True, stderr=False, **options
    )
    return json.loads(output)


@pytest.mark.claim("names.read-whole")
def test_an_accepted_name_opens_what_was_meant(opened: Opened, subtests: pytest.Subtests):
    for written, (driver, pixel) in WRITTEN.items():
        with subtests.test(text=written):
            text = written.replace("{ws}", str(opened.paths.workspaces.items[0].root))
            # the stand-in has all of them: see below
            expected = {text: (driver, pixel)} if driver in opened.have else {}
            assert {text: opened.of(text) for text in expected} == expected


def test_every_part_gdal_lists_is_accepted_and_opens(opened: Opened):
    assert len(opened.listed) > 20
    unopened = {name: opened.of(name) for name in opened.listed if opened.of(name)[0] is None}
    assert not unopened


def test_every_proved_form_was_opened(opened: Opened, image: Image):
    proved = {form["driver"] for form in table().forms if form.get("proved", True)}
    assert proved == {driver for driver, _ in WRITTEN.values()} | {"GTiff"}
    assert proved & opened.have == {answer[0] for answer in opened.told.values()}
    if image.standin:
        assert proved <= opened.have


PREFIXES = """
import json
from osgeo import gdal
drivers = [gdal.GetDriver(number) for number in range(gdal.GetDriverCount())]
print(json.dumps({
    "connections": [one.GetMetadataItem("DMD_CONNECTION_PREFIX") for one in drivers if one.GetMetadataItem("DMD_CONNECTION_PREFIX")],
    "file_systems": gdal.GetFileSystemsPrefixes(),
}))
"""


@pytest.mark.claim("names.files-only")
def test_every_declared_connection_and_file_system_is_refused(client, image):
    prefixes = plain(client, image, PREFIXES)
    assert "PG:" in prefixes["connections"]
    assert "/vsicurl/" in prefixes["file_systems"]
    texts = [f"{prefix}x" for prefix in (*prefixes["connections"], *prefixes["file_systems"])]
    texts = [text for text in texts if not text.startswith(("/vsizip/", "/vsitar/", "/vsigzip/"))]
    accepted = [text for text in texts if not refused(text)]
    assert not accepted
    named = {text for text in texts if parse_code(text) is Code.NETWORK_BLOCKED}
    assert {"PG:x", "MYSQL:x", "WMTS:x", "/vsis3/x", "/vsiaz_streaming/x"} <= named


def refused(text: str) -> bool:
    return parse_code(text) is not None


def parse_code(text: str) -> Code | None:
    try:
        parse(text)
    except ToolError as error:
        return error.code
    return None
