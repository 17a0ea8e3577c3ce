"""Files that name other files, addresses and libraries: none of these is read, requested or loaded."""

import json
from collections.abc import Iterable

import mcp_types as t
import pytest

from tests.e2e.mcp.talk import Talk
from tests.security.attacks import traps_raster, traps_vector
from tests.security.attacks.careless import Careless
from tests.security.attacks.conftest import Attacked
from tests.security.attacks.ground import LIBRARIES, Ground, trap
from tests.security.attacks.leaks import code, discreet, leaked
from tests.security.attacks.listener import addresses
from tests.security.attacks.native import LOADED
from tests.security.attacks.table import Call, features, read, tool, write
from tests.waiting import until

pytestmark = pytest.mark.engine

# files that give the bait to a GDAL without guards, each with the format that it is converted to; the others do not
# even do that
PICTURES = """vrt-complex.vrt vrt-kernel.vrt vrt-pansharpened.vrt vrt-mask.vrt vrt-overview.vrt vrt-nested.vrt vrt-name.vrt vrt-subfile.vrt
vrt-cached.vrt vrt-zip.vrt vrt-gzip.vrt vrt-derived.vrt vrt-root.vrt vrt-cwd.vrt as-tif.tif as-nc.nc mrf-up.mrf gti-file.gti ozi.map
tiles.gti.gpkg tiles-vrt.gti.gpkg tiles-up.gti.gpkg beside-ovr.tif vrt_link.vrt linked.zarr""".split()
ARRAYS = "vrt-array.vrt kerchunk-up.json h5-storage.h5 h5-proc.h5 h5-virtual.h5".split()
TABLES = """ogr-geojson.vrt ogr-sql.vrt ogr-union.vrt ogr-warped.vrt ogr-vsi.vrt ogr-stream-file.vrt ogr-as-json.json ogr-as-shp.shp
read.gdalg.json virtual-ogr.sqlite virtual-text.sqlite linked-table""".split()
# of the other files, those that are read completely and not only opened
DOUBTFUL = "aux-abs.tif aux-up.tif beside-msk.tif h5-link.h5 h5-storage-up.nc spill.img vrt-warped.vrt link.gml link.kml link.ods".split()
UNREAD = "net-wms.xml net-wms.tif net-wmts.xml net-mrf.mrf net-crs.vrt".split()


def conversions() -> dict[str, Call]:
    """Converts each trap to the simplest format of its kind."""
    calls: dict[str, Call] = {}
    for name in (*PICTURES, *DOUBTFUL[:7]):
        calls[name] = tool("convert", input=name, output=f"taken-{trap(name)}.bil")
    for name in ARRAYS:
        calls[name] = write("mdim convert", input=name, array=["/a"], output=f"taken-{trap(name)}.nc")
    for name in (*TABLES, *DOUBTFUL[7:]):
        layer = {"input_layer": ["secret"]} if "virtual" in name else {}
        calls[name] = tool("vector_convert", input=name, output=f"taken-{trap(name)}.geojsonl", **layer)
    for name in ("aux-abs.tif", "aux-up.tif"):  # made from an overview if there is one
        smaller = {"input": name, "output": f"taken-{name}-5.bil", "size": ["10", "10"]}
        calls[f"smaller {name}"] = write("raster resize", **smaller)
    return calls


def opened(talk: Talk, names: Iterable[str]) -> t.CallToolResult:
    """Opens all of them by one call, in one container."""
    tool, arguments = read("dataset identify", filename=sorted(names), detailed=True)
    return talk.call(tool, **arguments)


@pytest.mark.claim("content.reads-nothing-outside")
def test_file_naming_an_outside_file_reveals_nothing(attacked: Attacked):
    ends = attacked.together(conversions())
    assert {code(end) for end in ends.values()} <= {"OK", "GDAL_ERROR"}
    assert [name for name, end in ends.items() if not discreet(end)] == []
    taken = [path for path in attacked.place.workspace.glob("taken-*") if path.is_file()]
    assert taken  # some of them are also valid files
    assert [path.name for path in taken if leaked(path.read_bytes())] == []


@pytest.mark.nightly
@pytest.mark.claim("content.reads-nothing-outside")
def test_unprotected_readers_are_harmed_by_these_files(careless: Careless, ground: Ground):
    """Shows that only the containers prevented the bait from being returned above."""
    names = {*PICTURES, *ARRAYS, *TABLES} - {"h5-virtual.h5"}  # which HDF5 does not follow everywhere
    assert careless.sprung(ground.place.path(name) for name in names) == names


@pytest.mark.claim("content.reads-nothing-outside")
def test_other_file_references_are_opened_without_effect(attacked: Attacked):
    known = {*traps_raster.FILES, *traps_vector.FILES, *traps_vector.WORKBOOKS}
    for kind in ("view-*", "virtual-*", "trigger*"):
        known |= {path.name for path in attacked.place.workspace.glob(kind)}
    end = opened(attacked.talk, known - {*PICTURES, *ARRAYS, *TABLES})
    assert code(end) == "OK"
    assert discreet(end)
    assert len(end.structured_content["untrusted"]["report"]) > len(known) / 3


@pytest.mark.claim("content.pictures-show-nothing-outside")
def test_picture_of_a_trap_shows_nothing_it_names(attacked: Attacked):
    names = ("as-tif.tif", "mrf-up.mrf", "vrt-mask.vrt", "ogr-geojson.vrt")
    calls = {name: ("preview", {"path": name}) for name in names}
    ends = attacked.together(calls)
    assert {name: code(end) for name, end in ends.items()} == dict.fromkeys(calls, "GDAL_ERROR")
    assert all(discreet(end) for end in ends.values())


@pytest.mark.claim("network.no-request-leaves")
def test_no_file_makes_requests_to_host_addresses(attacked, listener, remote):
    before = listener.total
    calls = {name: ("convert", {"input": name, "output": f"fetched-{trap(name)}.bil"}) for name in UNREAD}
    calls["array"] = write("mdim convert", input="net-kerchunk.json", array=["/a"], output="fetched.nc")
    moved = {"input": "net-crs.vrt", "output": "fetched-crs.tif", "output_crs": "EPSG:3857"}
    calls["crs"] = write("raster reproject", **moved)
    ends = attacked.together(calls)
    ends["all"] = opened(attacked.talk, remote)
    assert code(ends["all"]) == "OK"
    assert {code(end) for end in ends.values()} <= {"OK", "GDAL_ERROR"}
    assert listener.total == before


@pytest.mark.nightly
@pytest.mark.claim("network.no-request-leaves")
def test_unprotected_readers_make_requests_for_these_files(careless, ground, listener, remote):
    names = {trap(name): ground.place.path(name) for name in remote}
    quiet = {trap(name) for name in QUIET}
    careless.sprung(path for name, path in names.items() if name not in quiet)
    until(lambda: names.keys() - quiet <= listener.arrivals.keys())
    for host in addresses():  # each address of the host would have been requested
        assert listener.arrivals[f"net-at-{host.replace('.', '-').replace(':', 'c')}-vrt"] > 0


# files that cause no request when they are only opened and read, or a request that names no trap
QUIET = """net-crs.csv net-crs.prj net-crs.vrt net-csw.xml net-esri.json net-esric.json net-link.kml net-mapml.mapml net-next.geojson
net-oapif.json net-ogr-mysql.vrt net-ogr-pg.vrt net-schema.gml net-stacta.json net-vrt-nc.vrt net-vrt-pg.vrt net-vrt-s3.vrt net-wfs.xml
net.gpx""".split()

LOADED_BY_OTHERS = ("so-odbc.vrt", "so-odbc.geojson", "so-pgeo.vrt")


@pytest.mark.claim("content.loads-no-library")
def test_no_file_has_a_library_loaded(attacked: Attacked):
    names = [*LIBRARIES, "so-adbc.vrt", "ogr_odbc.vrt", "ogr_mssql.vrt", "loads.sqlite", "canary.so"]
    calls = {name: features(name) for name in LOADED_BY_OTHERS}
    ends = attacked.together(calls)
    ends["all"] = opened(attacked.talk, names)
    assert {key: code(end) for key, end in ends.items()} == dict.fromkeys(calls, "GDAL_ERROR") | {"all": "OK"}
    for end in ends.values():
        assert LOADED.decode().strip() not in json.dumps(end.structured_content)
        assert "stopped" not in str(end.structured_content.get("error", {}).get("message"))


@pytest.mark.nightly
@pytest.mark.claim("content.loads-no-library")
def test_unprotected_readers_load_what_these_files_name(careless: Careless, ground: Ground):
    assert all(careless.loads(ground.place.path(name)) for name in LOADED_BY_OTHERS)
