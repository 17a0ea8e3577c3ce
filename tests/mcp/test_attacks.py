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


def some(name: str, number: int) -> dict[str, Call]:
    """Reading it, and a third of its other uses: each name meets some, each use meets many names.

    A name without a slash is a fine one for a file that is yet to be written.
    """
    made = uses(name)
    may = set() if "/" in name or not name.isprintable() else {"write", "sink"}
    keys = ["read", "features", *list(made)[2 + number % 3 :: 3]]
    return {key: made[key] for key in keys if key not in may}


@pytest.mark.parametrize("start", range(0, len(PATHS), 8))
def test_a_path_out_of_the_workspace_is_refused_wherever_a_path_can_stand(victim: Talk, own: Place, start: int):
    calls = {
        (key, use): call
        for number, (key, path) in list(enumerate(PATHS.items()))[start : start + 8]
        for use, call in some(path, number).items()
    }
    refused_all(victim, own, calls)


@pytest.mark.parametrize("start", range(0, len(NAMES), 12))
def test_a_dataset_name_that_is_no_file_is_refused_wherever_one_can_stand(
    victim: Talk, own: Place, start: int
):
    calls = {
        (name, use): call
        for number, name in list(enumerate(NAMES))[start : start + 12]
        for use, call in some(name, number).items()
    }
    refused_all(victim, own, calls)


OUT = {"input": "ok.tif", "output": "out.tif"}
DEM = {"input": "dem.tif", "output": "out.tif"}
ARGUMENTS: dict[str, Call] = {
    "P12": write("raster convert", input="ok.tif", output="ln_dangling.tif"),
    "P13": write("raster convert", input="ok.tif", output="ln_rel.tif", overwrite=True),
    "P14": write("raster convert", input="ok.tif", output="ln_inside.tif", overwrite=True),
    "P35": write("raster convert", input="--config", output="CPL_LOG=/tmp/PWNED"),
    "P36": write("raster convert", **OUT, creation_option=["--config", "CPL_LOG=/tmp/PWNED"]),
    "P39": read("raster info", input="ok.tif", optfile="inputs.txt"),
    "P42": write("raster convert", **OUT, output_format="?"),
    "P42b": write("raster convert", **OUT, creation_option=["COMPRESS=?"]),
    "P45": read("dataset identify", filename=["comma,../outside/secret.tif"]),
    "P45b": write("raster overview refresh", input="ok.tif", like=["ok.tif,/etc/passwd"]),
    "A01": read("raster info", input="ok.tif", config={"GDAL_SKIP": ""}),
    "A02": read("raster info", input="ok.tif", config=["PYTHONSO=/ws/evil.so"]),
    "A03": ("gdal_read", {"algorithm": "raster info --config CPL_LOG=/tmp/PWNED", "arguments": {"input": "ok.tif"}}),
    "A04": ("gdal_read", {"algorithm": "--config", "arguments": {"input": "ok.tif"}}),
    "A05": read("raster info", **{"input": "ok.tif", "--config": "CPL_LOG=/tmp/PWNED"}),
    "A06": ("info", {"path": "ok.tif", "config": {"CPL_LOG": "/tmp/PWNED"}}),
    "A06b": read("raster info", **{"input": "ok.tif", "config=CPL_LOG": "/tmp/PWNED"}),
    "A06c": steps("read --config=CPL_LOG=/tmp/PWNED ok.tif ! info"),
    "A06d": steps("read ok.tif --config CPL_LOG=/tmp/PWNED ! info"),
    "A06e": steps("--config CPL_LOG=/tmp/PWNED read ok.tif ! info"),
    "A06f": steps("read ok.tif ! --config=CPL_LOG=/tmp/PWNED ! info"),
    "A06g": ("pipeline", {"steps": [{"step": "read", "arguments": {"input": "ok.tif", "config": ["CPL_LOG=/tmp/PWNED"]}}, {"step": "info"}]}),
    "A25": read("vector info", input="zones.gpkg", where="@/etc/passwd"),
    "A25b": write("vector filter", input="zones.gpkg", output="x.gpkg", where="@inputs.txt"),
    "A25c": write("vector filter", input="zones.gpkg", output="x.gpkg", where=" @../outside/secret.txt"),
    "A25d": write("raster clip", **OUT, like="zones.gpkg", like_where="@/etc/passwd"),
    "A25e": write("vector filter", input="zones.gpkg", output="x.gpkg", where="fid IN (SELECT fid FROM '/etc/passwd')"),
    "A25f": write("vector filter", input="zones.gpkg", output="x.gpkg", where="load_extension('evil.so')"),
    "A26": write("vector sql", input="zones.gpkg", output="x.gpkg", sql=["@/etc/passwd"]),
    "A27": write("raster reclassify", **OUT, mapping="@/etc/passwd"),
    "A27b": write("raster reclassify", **OUT, mapping="@inputs.txt"),
    "A28": write("raster edit", dataset="dem.tif", gcp=["@/etc/passwd"]),
    "A29": write("vector create", output="x.gpkg", schema="@/etc/passwd"),
    "A29b": write("vector create", output="x.gpkg", schema="@inputs.txt"),
    "A30": write("raster calc", input=["A=/etc/passwd"], calc=["A"], output="out.tif"),
    "A30b": write("raster calc", input=["A=../outside/secret.tif"], calc=["A"], output="out.tif"),
    "A30c": write("raster calc", input=["A=[ read /etc/passwd ]"], calc=["A"], output="out.tif"),
    "A30d": write("raster calc", input=["[ read ok.tif ! external --command x ]"], calc=["X"], output="out.tif"),
    "A30e": write("raster calc", input=["--config=x"], calc=["A"], output="out.tif"),
    "A31": write("raster calc", input=["A=ok.tif"], calc=["A + gdal_get_pixel_value('/etc/passwd')"], output="out.tif"),
    "A31b": write("raster calc", input=["A=ok.tif"], calc=["var x := 1; while (true) { x += 1 }"], dialect="muparser", output="out.tif"),
    "A31c": write("raster calc", input=["A=ok.tif"], calc=["@/etc/passwd"], output="out.tif"),
    **{f"A32 {number}": write("raster reproject", **OUT, output_crs=crs) for number, crs in enumerate((
        "/etc/passwd", "http://169.254.169.254/x", "DICT:/etc/passwd,1", "+proj=longlat +nadgrids=/etc/passwd", "+init=/etc/passwd:root",
        "+proj=longlat +ellps=WGS84 +geoidgrids=/vsicurl/x", "inputs.txt", "file:///etc/passwd", "@/etc/passwd", "ESRI::/etc/passwd",
        "URL:http://192.0.2.1", "IGNF:/etc/passwd", "urn:ogc:def:crs,crs:EPSG::4326,cs:/etc/passwd", "+proj=pipeline +step +proj=hgridshift +grids=/etc/passwd",
        "+proj=longlat +nadgrids=@null +file=/etc/passwd", "+proj=longlat\n+nadgrids=x", "OSR:http://192.0.2.1", "--config"))},
    "A33": write("raster clip", **OUT, bbox=[0, 0, 1, 1], bbox_crs="/etc/passwd"),
    "A33b": read("raster pixel-info", input="ok.tif", position=[1, 1], position_crs="http://192.0.2.1"),
    "A33c": write("vector reproject", input="zones.gpkg", output="x.gpkg", output_crs="EPSG:4326", input_crs="/etc/passwd"),
    "A33d": write("raster edit", dataset="dem.tif", crs="/etc/passwd"),
    "A38": write("raster reproject", **OUT, output_crs="EPSG:4326", transform_option=["COORDINATE_OPERATION=+proj=hgridshift +grids=/etc/passwd"]),
    "A38b": write("raster reproject", **OUT, output_crs="EPSG:4326", transform_option=["RPC_DEM=/etc/passwd"]),
    "A38c": write("raster reproject", **OUT, output_crs="EPSG:4326", warp_option=["CUTLINE=POLYGON((0 0,1 0,1 1,0 0))", "SRC_ALPHA_MAX=/etc/passwd"]),
    "A40": write("raster color-map", **DEM, color_map="/etc/passwd"),
    "A41": write("raster tile", input="ok.tif", output="tiles", mapml_template="/etc/passwd"),
    "A41b": write("raster tile", input="ok.tif", output="../outside/tiles"),
    "A41c": write("raster tile", input="ok.tif", output="/tmp/tiles"),
    "A55": write("raster tile", input="ok.tif", output="tiles", forked=True),
    "A55b": write("raster tile", input="ok.tif", output="tiles", config_options_in_stdin=True),
    "A55c": read("raster info", input="ok.tif", stdout=True),
    "A55d": read("raster info", input="ok.tif", output_string="x"),
    "A55e": read("vector info", input="zones.gpkg", help=True),
    "A55f": read("vector info", input="zones.gpkg", json_usage=True),
    "A60": write("raster convert", input="ok.tif", output="/vsistdout/"),
    "A61": write("raster convert", input="ok.tif", output="/vsistdout_redirect/x"),
    "A62": write("raster convert", input="ok.tif", output="/dev/stdout", output_format="GTiff"),
    "A63": write("raster convert", input="ok.tif", output="/proc/self/fd/1", output_format="GTiff"),
    "A64": write("raster convert", input="ok.tif", output="PG:host=127.0.0.1 dbname=x", output_format="PostGISRaster"),
    "A65": write("vector convert", input="zones.gpkg", output="PG:host=127.0.0.1", output_format="PostgreSQL"),
    "A66": write("vector convert", input="zones.gpkg", output="x", output_format="MySQL"),
    "A67": write("vector convert", input="zones.gpkg", output="x", output_format="GPSBabel"),
    "A68": write("raster convert", input="ok.tif", output="x", output_format="MEM"),
    "A71": write("raster convert", input="ok.tif", output="x", output_format="stream"),
    "A73": write("vector convert", input="zones.gpkg", output="x", output_format="MEM"),
    "A75": write("raster convert", input="ok.tif", output="a/b/c/x.tif"),
    "A76": read("vsi list", filename="/"),
    "A77": read("vsi list", filename="/proc", recursive=True),
    "A77b": read("vsi list", filename="symdir", recursive=True),
    "A77c": read("vsi list", filename="circle", recursive=True),
    "A78": write("vsi copy", source="/etc/passwd", destination="p.txt"),
    "A79": write("vsi copy", source="ok.tif", destination="/tmp/p.tif"),
    "A80": write("vsi copy", source="ok.tif", destination="ln_dir/p.tif"),
    "A81": write("vsi sync", source="ok.tif", destination="../outside"),
    "A82": write("vsi sync", source="/etc", destination="x"),
    "A83": write("vsi move", source="ok.tif", destination="../outside/PWNED.tif"),
    "A84": write("vsi delete", filename="../outside/victim", recursive=True),
    "A84b": write("vsi delete", filename=".", recursive=True),
    "A84c": write("vsi delete", filename=".gdal-mcp", recursive=True),
    "A84d": write("vsi delete", filename="ln_dir/secret.txt"),
    "A85": write("vsi sozip create", input=["/etc"], output="e.zip"),
    "A85b": write("vsi sozip create", input=["symdir"], output="e.zip", recursive=True),
    "A90": write("raster clip", **OUT, like="/outside/secret.tif"),
    "A91": write("raster clip", **OUT, geometry="@/etc/passwd"),
    "A91b": write("raster clip", **OUT, geometry="/etc/passwd"),
    "A91c": write("vector clip", input="zones.gpkg", output="x.gpkg", geometry="<gml:Point xlink:href='file:///etc/passwd'/>"),
    "A104": write("raster index", input=["symdir"], recursive=True, output="o.gpkg"),
    "A104b": write("vector index", input=["."], recursive=True, output="o.gpkg"),
    "A106": write("raster polygonize", input="ok.tif", output="x.gpkg", attribute_name="--config"),
    "A107": write("raster convert", input="ok.tif", output="ok.tif", overwrite=True),
    "A108": write("raster reproject", input="dem.tif", output="./sub/../dem.tif", output_crs="EPSG:4326", overwrite=True),
    "A113": write("raster index", input="ok.tif", output="o.gpkg", absolute_path=True, source_crs_field_name="../../x\0"),
    "A115": write("vector partition", input="zones.gpkg", output="parts", field=["name"], pattern="../../%d"),
    "A115b": write("vector partition", input="zones.gpkg", output="parts", field=["name"], pattern="/etc/cron.d/%d"),
    "A115c": write("vector partition", input="zones.gpkg", output="../outside/parts", field=["name"]),
    "A116": write("driver gti create", input="ok.tif", output="x.gti.gpkg", xml_filename="../outside/x.gti"),
    "A117": write("raster neighbors", **OUT, kernel=["@/etc/passwd"]),
    "A117b": write("raster neighbors", **OUT, kernel=["/etc/passwd"]),
    "A118": write("raster mosaic", input=["@inputs.txt"], output="x.vrt"),
    "A118b": write("raster mosaic", input=["*.tif"], output="x.vrt"),
    "A118c": write("raster mosaic", input=["ok.tif"], pixel_function="python", pixel_function_arg=["module=/etc/x"], output="x.vrt"),
    "A119": write("dataset rename", source="ok.tif", destination="../outside/PWNED.tif"),
    "A119b": write("dataset copy", source="ok.tif", destination="/tmp/PWNED.tif"),
    "A119c": write("dataset delete", filename=["ok.tif", "../outside/secret.tif"]),
    "A119d": write("dataset delete", filename=["ok.tif,../outside/secret.tif"]),
    "R18": write("raster convert", input="ok.tif", output="/tmp/x.tif"),
    "R20": write("raster neighbors", **OUT, kernel=["[" + ",".join(["[" + ",".join(["1"] * 101) + "]"] * 101) + "]"]),
    "R23": write("raster calc", input=["A=ok.tif"], calc=["1+" * 65_000 + "1"], output="out.tif"),
    "X12": write("vsi delete", filename="delme/link", recursive=True) if False else write("vsi delete", filename="ln_root/etc", recursive=True),
    "X13": write("vsi copy", source="symdir", destination="copied", recursive=True),
    "X13b": write("vsi sync", source="symdir/", destination="copied", recursive=True),
    "X15": read("raster info", **{"input": "ok.tif", "config": {"GDAL_SKIP": ""}}),
}  # fmt: skip


def test_an_argument_that_reaches_further_is_refused_before_anything_runs(victim: Talk, own: Place):
    refused_all(victim, own, ARGUMENTS)
