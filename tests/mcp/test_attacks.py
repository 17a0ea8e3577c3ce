"""Attacks through the tools that run any algorithm: refused with a typed error before anything runs, or harmless by effect.

The ids are those of the project's table of hostile inputs: P paths, D and E dataset names, A arguments, X second order,
R resources. What `test_hostile.py` does with the hand-picked tools is done here with `gdal_read`, `gdal_write` and `pipeline`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.attack_files import World, everything, judged, lay_all, refused_all, told
from tests.mcp.attack_options import OPTIONS
from tests.mcp.conftest import Containers
from tests.mcp.hostile_files import CANARY
from tests.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

Call = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def own(grounds: Path, oracle: Oracle, place: Place) -> Place:
    made = Place.made(grounds / "attacks")
    lay_all(made, oracle, place.workspace)
    return made


@pytest.fixture(scope="module")
def world(own: Place) -> World:
    return World.seen(own, own.workspace.parent / "outside")


@pytest.fixture(scope="module")
def victim(own: Place, world: World, grounds: Path, containers: Containers) -> Iterator[Talk]:
    """A server that asks only where it must, and a person who would say yes. At the end the world is looked over."""
    command = own.command(
        "--approval", "never", "--timeout-seconds", "10", "--memory", "512MiB", "--log-level", "debug"
    )
    log = grounds / "attacks.log"
    with talking(command, log, person=Person()) as made:
        yield made
        assert containers.of_owners(own.owners) == []
        assert own.staged == []
    world.check(log)


@pytest.fixture(scope="module")
def with_sql(own: Place, world: World, grounds: Path) -> Iterator[Talk]:
    command = own.command("--approval", "never", "--allow-sql", "--timeout-seconds", "5")
    log = grounds / "attacks-sql.log"
    with talking(command, log, person=Person()) as made:
        yield made
    world.check(log)


def read(algorithm: str, /, **arguments: Any) -> Call:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return "gdal_read", {"algorithm": algorithm, "arguments": named}


def write(algorithm: str, /, **arguments: Any) -> Call:
    return "gdal_write", read(algorithm, **arguments)[1]


def steps(text: str) -> Call:
    return "pipeline", {"steps": text}


PATHS = {
    "P01": "../outside/secret.tif", "P02": "/etc/passwd", "P04": "ln_dir/secret.tif", "P05": "ln_abs.tif", "P06": "ln_rel.tif",
    "P07": "ln_passwd.csv", "P08": "ln_environ.csv", "P09": "ln_root/etc/passwd", "P10": "ln_loop.tif", "P15": "ok.tif\0.png",
    "P16": "new\nline.tif", "P26": "%2e%2e%2foutside/secret.tif", "P30": "L" * 252 + ".tif", "P32": "x/" * 2500, "P34": "-ootif",
    "P38": "--", "P39": "--optfile", "P40": "--pause", "P41": "--mempreload", "P42": "?", "P43": "ok.tif=?", "P49": "fifo.tif",
    "P50": "/dev/zero", "P52": "/proc/self/fd/0", "P53": "bad\ufffd\ufffdutf8.tif", "P56": "ok.tif/", "P60": "~/x.tif",
    "P61": "ln_state/audit.jsonl", "P62": ".gdal-mcp/lock", "P63": "sub/../../outside/secret.tif", "P64": "file:///etc/passwd",
}  # fmt: skip
NAMES = [
    "/vsis3/bucket/x.tif", "/vsiaz/c/x.tif", "/vsihdfs/x", "http://169.254.169.254/x.tif", "/vsizip//outside/x.zip/a.tif",
    "/vsistdin?buffer_limit=-1", "/vsistdin/", "/vsimem/x.tif", "/vsicrypt/key=00,file=/etc/passwd", "/vsicached?file=ok.tif",
    "/vsikerchunk_json_ref/{kerchunk.json}/a/0.0", "vrt:///outside/secret.tif?bands=1", "/vsisubfile/0_10,ok.tif", "/vsisparse/ok.vrt",
    "/vsicurl/http://192.0.2.1/x.tif", "/vsicurl_streaming/file:///etc/passwd", "/vsicurl?url=http%3A%2F%2F127.0.0.1%2Fx.mbtiles",
    "/vsizip//vsicurl/http://192.0.2.1/x.zip/x.tif", "/vsizip//vsizip/nested.zip/ok.zip/ok.tif", "/vsizip/{/vsizip/{nested.zip}/ok.zip}/ok.tif",
    "/vsizip/ok.zip/../ok.tif", "/vsizip/{ok.zip}/../../outside/secret.tif", "/vsizip/{../outside/x.zip}/a.tif", "/vsizip/ln_abs.tif/x",
    "/vsitar//etc/passwd", "/vsigzip//etc/passwd", "/vsi7z/ok.zip/ok.tif", "/vsirar/ok.zip/ok.tif", "/VSIZIP//VSICURL/http://192.0.2.1/x.zip",
    "<GDAL_WMS><Service name='TMS'><ServerUrl>http://127.0.0.1/${z}</ServerUrl></Service></GDAL_WMS>", "<VRTDataset/>",
    "<OGRVRTDataSource><OGRVRTLayer name='p'><SrcDataSource>CSV:/etc/passwd</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>",
    "WMS:http://127.0.0.1/?SERVICE=WMS", "WMTS:http://127.0.0.1/", 'NETCDF:"http://127.0.0.1/x":v', 'NETCDF:"/etc/passwd":v',
    'HDF5:"/outside/x.h5"://a', 'ZARR:"/vsicurl/http://127.0.0.1/x.zarr"', 'ZARR:"/vsikerchunk_json_ref/{kerchunk.json}":/a',
    "DERIVED_SUBDATASET:AMPLITUDE:/etc/passwd", "MEM:::DATAPOINTER=4194304,PIXELS=16,LINES=16", "PG:host=127.0.0.1 dbname=x table=t",
    "EEDAI:x", "OGCAPI:http://127.0.0.1/", "DAAS:http://127.0.0.1/", "PLMOSAIC:", "JPEG_SUBDATASET:1,1,/etc/passwd", "NITF_IM:0:/etc/passwd",
    "RADARSAT_2_CALIB:UNCALIB:/etc/passwd", '{"type":"FeatureCollection","stac_version":"1.0.0","features":[]}', "MYSQL:x,host=127.0.0.1",
    '{"type":"gdal_streamed_alg","command_line":"gdal raster pipeline ! read ok.tif"}', "ODBC:x", "MSSQL:DRIVER=canary.so;", "CSW:http://127.0.0.1",
    "CARTO:x", "NGW:http://127.0.0.1/resource/1", '{"type":"Point","coordinates":[2,49]}', "GEOJSON:/etc/passwd", "GEOJSONSeq:http://127.0.0.1/x",
    "ESRIJSON:http://127.0.0.1/x", "TopoJSON:http://127.0.0.1/x", "MVT:/etc/passwd", "MVT:http://127.0.0.1/0", "GMLAS:/etc/passwd",
    "GPSBABEL:gpx:/etc/passwd", "ADBC:x", "GPKG:/etc/passwd:x", "SQLITE:/etc/passwd", "CSV:/etc/passwd", "AVCE00:/etc/passwd", "CAD:/etc/passwd",
    "GNM:x", "XLS:/etc/passwd", "GTI:/etc/passwd", "GTIFF_DIR:1:/etc/passwd", "GTIFF_RAW:/etc/passwd", "STACTA:/etc/passwd", "AIVector:/etc",
    'STACIT:"http://127.0.0.1/x"', "AMIGOCLOUD:x", "ES:http://127.0.0.1", "OAPIF:http://127.0.0.1", "PLSCENES:", "WFS:http://127.0.0.1", "EEDA:x",
    "S3:x", "COG:/etc/passwd", "HDF4_SDS:UNKNOWN:/etc/passwd:0", "PCIDSK:/etc/passwd", "http:/192.0.2.1/x", "ftp://192.0.2.1/x.tif",
]  # fmt: skip


def uses(name: str) -> dict[str, Call]:
    """The places where a dataset can be named: alone, in a list, beside the input, in a step, by name, as a file to work on."""
    return {
        "read": read("raster info", input=name),
        "features": read("vector info", input=name, features=True),
        "mdim": read("mdim info", input=name),
        "list": write("raster mosaic", input=["ok.tif", name], output="x.tif"),
        "like": write("raster clip", input="ok.tif", like=name, output="x.tif"),
        "mask": write("raster fill-nodata", input="dem.tif", mask=name, output="x.tif"),
        "named": write("raster calc", input=[f"A={name}"], calc=["A+1"], output="x.tif"),
        "table": write("raster color-map", input="dem.tif", color_map=name, output="x.tif"),
        "schema": write("vector create", schema=name, output="x.gpkg"),
        "step": ("pipeline", {"steps": [{"step": "read", "arguments": {"input": name}}, {"step": "info"}]}),
        "branch": ("pipeline", {"steps": [{"step": "read", "arguments": {"input": "ok.tif"}},
                                           {"step": "mosaic", "arguments": {"input": [name]}}]}),
        "identify": read("dataset identify", filename=["ok.tif", name]),
        "updated": write("raster edit", dataset=name, nodata="1"),
        "overviews": write("raster overview add", input=name, levels=[2]),
        "delete": write("dataset delete", filename=[name]),
        "rename": write("dataset rename", source=name, destination="x.tif"),
        "copy": write("dataset copy", source=name, destination="x.tif"),
        "remove": write("vsi delete", filename=name),
        "move": write("vsi move", source=name, destination="x.tif"),
        "sync": write("vsi sync", source=name, destination="x"),
        "vsi list": read("vsi list", filename=name),
        "vsi copy": write("vsi copy", source=name, destination="x.tif"),
        "zip": write("vsi sozip create", input=[name], output="x.zip"),
        "write": write("raster convert", input="ok.tif", output=name, output_format="GTiff"),
        "sink": ("pipeline", {"steps": [{"step": "read", "arguments": {"input": "ok.tif"}},
                                         {"step": "write", "arguments": {"output": name, "overwrite": True}}]}),
        "preview": ("preview", {"path": name}),
        "folder": ("list_workspace", {"path": name}),
        "planned": ("validate_call", {"tool": "info", "arguments": {"path": name}}),
    }  # fmt: skip


# what of these is no attack for a tool: a name to write to that is only odd, or a file that an operation may take away
MAY = {
    "P11": set(),
    "new name": {"write", "sink"},
    "link itself": {"remove", "move"},
}
PLAIN_NAMES = {"P26", "P34", "P38", "P39", "P40", "P41", "P42", "P43", "P53"}  # fine for a file that is yet to be


@pytest.mark.parametrize("key", PATHS)
def test_a_path_out_of_the_workspace_is_refused_wherever_a_path_can_stand(victim: Talk, own: Place, key: str):
    calls = uses(PATHS[key])
    if key in PLAIN_NAMES:
        calls = {use: call for use, call in calls.items() if use not in ("write", "sink")}
    refused_all(victim, own, calls)


@pytest.mark.parametrize("name", NAMES)
def test_a_dataset_name_that_is_no_file_is_refused_wherever_one_can_stand(victim: Talk, own: Place, name: str):
    refused_all(victim, own, uses(name))
