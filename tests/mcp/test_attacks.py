"""Attacks through the tools that run any algorithm: refused with a typed error before anything runs, or harmless by effect.

The ids are those of the project's table of hostile inputs: P paths, D and E dataset names, A arguments, X second order,
R resources. What `test_hostile.py` does with the hand-picked tools is done here with `gdal_read`, `gdal_write` and `pipeline`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.attack_files import World, lay_all, refused_all, told
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
    may |= {"schema"} if name.startswith("{") else set()  # a document is what it takes
    return {key: made[key] for key in keys if key not in may}


@pytest.mark.parametrize("start", range(0, len(PATHS), 8))
def test_a_path_out_of_the_workspace_is_refused_wherever_a_path_can_stand(
    victim: Talk, own: Place, start: int
):
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
    "X12": write("vsi delete", filename="ln_root/etc", recursive=True),
    "X13": write("vsi copy", source="symdir", destination="copied", recursive=True),
    "X13b": write("vsi sync", source="symdir/", destination="copied", recursive=True),
    "X15": read("raster info", input="ok.tif", config={"GDAL_SKIP": ""}),
}  # fmt: skip


def test_an_argument_that_reaches_further_is_refused_before_anything_runs(victim: Talk, own: Place):
    refused_all(victim, own, ARGUMENTS)


VALUES = ("/etc/passwd", "plain", "1", "YES")


def options_of(argument: str, driver: str, name: str, value: str) -> Iterator[tuple[str, Call]]:
    """The option for rasters and for vectors, alone and in the steps of a pipeline."""
    text = f"{name}={value}"
    for kind, source in (("raster", "ok.tif"), ("vector", "zones.gpkg")):
        if argument == "open-option":
            yield kind, read(f"{kind} info", input=source, input_format=[driver], open_option=[text])
            yield f"{kind} any", read(f"{kind} info", input=source, open_option=[text])
        elif (kind, argument) != ("raster", "layer-creation-option"):
            named = {"input": source, "output": "x.out", "output_format": driver, argument: [text]}
            yield kind, write(f"{kind} convert", **named)
            step = {"output": "x.out", "output-format": driver, argument: [text]}
            yield f"{kind} step", ("pipeline", {"steps": [{"step": "read", "arguments": {"input": source}}, {"step": "write", "arguments": step}]})  # fmt: skip


@pytest.mark.parametrize("argument", OPTIONS)
def test_a_driver_option_that_reaches_further_is_refused_whatever_its_value(
    victim: Talk, own: Place, argument: str
):
    calls = {}
    for driver, names in OPTIONS[argument].items():
        for number, name in enumerate(names.split()):
            value = VALUES[(number + len(driver)) % len(VALUES)]
            calls |= {
                (driver, name, value, use): call for use, call in options_of(argument, driver, name, value)
            }
    errors = refused_all(victim, own, calls)
    assert {error["code"] for error in errors.values()} <= {"INVALID_ARGUMENT", "NETWORK_BLOCKED"}


def test_an_option_of_the_same_drivers_that_reaches_nothing_is_passed_on(victim: Talk):
    """What is refused above is refused for what it is, not for where it stands."""
    calls = [
        write("raster convert", input="ok.tif", output="passed.tif", creation_option=["COMPRESS=LZW"]),
        read("raster info", input="ok.tif", input_format=["GTiff"], open_option=["NUM_THREADS=1"]),
        steps("read zones.gpkg ! write passed.gpkg --layer-creation-option=FID=id"),
    ]
    for tool, arguments in calls:
        planned = victim.done("validate_call", tool=tool, arguments=arguments)
        assert planned["valid"], planned


EXTERNAL = [
    "read ok.tif ! external --command=id ! write x.tif", "read ok.tif ! EXTERNAL --command id ! write x.tif", "external id",
    'read ok.tif ! "external" --command=id ! write x.tif', "read zones.gpkg ! external --command=id ! write x.gpkg",
    "read ok.tif ! tee [ external --command=id ! write y.tif ] ! write x.tif", "read ok.tif ! gdal external x ! write x.tif",
    "read ok.tif ! shell id ! write x.tif", "read ok.tif ! gdal_calc --calc=1 ! write x.tif", "read ok.tif ! exter-nal ! write x.tif",
    "read ok.tif ! gdal_external ! write x.tif", "read ok.tif ! raster_external ! write x.tif",
]  # fmt: skip
PIPED = [
    "write.gdalg.json", "ok.gdalg.json", "@inputs.txt", "/etc/passwd", "gdal pipeline read ok.tif ! info", "read ok.tif ! write /dev/stdout",
    "read ok.tif ! write /proc/self/fd/1", "read ok.tif ! write ../outside/PWNED.tif", "read ok.tif ! write /vsistdout/", "read /etc/passwd ! info",
    "read ok.tif ! tee [ write ../outside/PWNED.tif ] ! write x.tif", "read ok.tif ! tee ../outside/PWNED.tif ! write x.tif",
    "read ok.tif ! tee [ write /tmp/PWNED.tif ] [ write y.tif ] ! write x.tif", "read ok.tif ! tee [ materialize ../outside/PWNED.tif ! write y.tif ] ! write x.tif",
    "read ok.tif ! materialize ../outside/PWNED.tif ! write x.tif", "read ok.tif ! materialize --output=/tmp/PWNED.tif ! write x.tif",
    "read ok.tif ! tile ../outside/PWNED", "read zones.gpkg ! partition --field=name ../outside/PWNED", "read ln_abs.tif ! info",
    "read zones.gpkg ! partition --field=name --pattern=../%d parts", "read ok.tif ! clip --like=../outside/secret.tif ! write x.tif",
    "read ok.tif ! mosaic [ read ../outside/secret.tif ] ! write x.tif", "mosaic [ read /etc/passwd ] ok.tif ! write x.tif",
    "calc --input=A=/etc/passwd --calc=A ! write x.tif", "calc --input=[ read /etc/passwd ] --calc=A ! write x.tif",
    "read ok.tif ! color-map --color-map=/etc/passwd ! write x.tif", "read zones.gpkg ! sql --sql=@/etc/passwd ! write x.gpkg",
    "read zones.gpkg ! filter --where=@/etc/passwd ! write x.gpkg", "read ok.tif ! write --of=PostGISRaster PG:x", "read ok.tif ! write --of=MEM x",
    "read ok.tif ! write --of=stream x", "read ok.tif ! write --co=OGR_DATASOURCE=CSV:/etc/passwd --of=PDF x.pdf", "read --oo=ROOT_PATH=/etc ok.vrt ! info",
    "read ok.tif ! reproject --output-crs=/etc/passwd ! write x.tif", "read ok.tif ! write ok.tif --overwrite", "read ok.tif ! update ../outside/secret.tif",
    "read ok.tif ! write x.tif ! external id", "read ok.tif ! write x.tif --optfile=inputs.txt", "read ok.tif --pause ! info", "read ok.tif ! info --help",
    "read ok.tif ! write --output", "read ok.tif ! write -o", "read ok.tif ; rm ! info", "read ok.tif | info",
    "read ok.tif ! write x\0.tif", "read ok.tif ! write /vsimem/x.tif", "read ok.tif ! " + "scale ! " * 60 + "write x.tif", "read ok.tif ! write ~/x.tif",
    "read ok.tif ! tee [ tee [ tee [ tee [ tee [ write a.tif ] ! write b.tif ] ! write c.tif ] ! write d.tif ] ! write e.tif ] ! write x.tif",
]  # fmt: skip


def test_no_step_runs_a_program_however_it_is_spelt(victim: Talk, own: Place):
    calls = {text: steps(text) for text in EXTERNAL}
    for path in ("pipeline", "raster pipeline", "vector pipeline"):
        calls |= {
            (path, text): write(path, pipeline=text)
            for text in EXTERNAL
            if "zones" in text or "vector" not in path
        }
    spellings = (
        "external",
        "External",
        " external",
        "raster external",
        "gdal external",
        "exter\u200bnal",
        "external\0",
    )
    for name in spellings:
        for given in ({"command": "id"}, {}):
            listed = [
                {"step": "read", "arguments": {"input": "ok.tif"}},
                {"step": name, "arguments": given},
                {"step": "write", "arguments": {"output": "x.tif"}},
            ]
            calls[name, str(given)] = ("pipeline", {"steps": listed})
            calls[name, str(given), "tool"] = write(name, **given)
    refused_all(victim, own, calls)


def test_a_pipeline_reaches_no_further_than_its_steps_may(victim: Talk, own: Place):
    calls: dict[Any, Call] = {text: steps(text) for text in PIPED}
    calls |= {("write", text): write("pipeline", pipeline=text) for text in PIPED[::2]}
    calls |= {("read", text): read("pipeline", pipeline=text) for text in PIPED[1::2]}
    calls["config"] = write("pipeline", pipeline="read ok.tif ! write x.tif", config={"GDAL_SKIP": ""})
    calls["input"] = write("pipeline", pipeline="read ! write x.tif", input="/etc/passwd")
    calls["output"] = write("pipeline", pipeline="read ok.tif ! write", output="../outside/PWNED.tif")
    refused_all(victim, own, calls)


SQL = [
    "SELECT * FROM '/etc/passwd'.passwd", "SELECT a.*, b.* FROM zones a LEFT JOIN 'CSV:/etc/passwd'.passwd b ON a.name = b.field_1",
    'SELECT * FROM "/etc/passwd".passwd', "SELECT load_extension('/ws/e.so')", "SELECT ogr_datasource_load_layers('CSV:/etc/passwd')",
    "ATTACH DATABASE 'PWNED_ATT.db' AS a", "SELECT gdal_get_pixel_value('ok.tif', 1, 'pixel', 1, 1)", "SELECT BlobFromFile('/etc/passwd')",
    "CREATE VIRTUAL TABLE t USING VirtualOGR('CSV:/etc/passwd')", "SELECT * FROM pragma_database_list", "SELECT readfile('/etc/passwd')",
    "DELETE FROM zones", "VACUUM INTO 'PWNED.db'", "PRAGMA writable_schema=1", "@/etc/passwd", " @inputs.txt", "SELECT zeroblob(900000000)",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "INSERT INTO zones (name) VALUES ('x')",
    "SELECT * FROM zones; DROP TABLE zones", "SELECT * FROM zones; ATTACH DATABASE 'PWNED.db' AS a", "UPDATE zones SET name = 'x'",
    "SELECT * FROM zones /* x */ ; DELETE FROM zones", "SELECT * FROM zones -- x\n; DELETE FROM zones", "EXPLAIN SELECT 1", "SELECT * FROM sqlite_master",
    'SELECT * FROM "GPKG:../outside/x.gpkg".x', "SELECT * FROM [/etc/passwd]", "SELECT * FROM `CSV:/etc/passwd`", "SELECT randomblob(900000000) FROM zones",
    "SELECT * FROM zones WHERE name IN (SELECT field_1 FROM 'CSV:/etc/passwd'.passwd)", "SELECT writefile('PWNED', 'x')", "SELECT fileio_read('x')",
    "SELECT * FROM fsdir('/etc')", "SELECT ogr_geocode('x')", "SELECT * FROM json_each(readfile('/etc/passwd'))", "CREATE TABLE x AS SELECT 1",
    "SELECT replace(hex(zeroblob(99999999)), '0', 'aaaaaaaaaa')", "SELECT CAST(x'2f' AS TEXT)\0", "ALTER TABLE zones RENAME TO x",
]  # fmt: skip


def sql_calls(statement: str) -> dict[str, Call]:
    """Wherever SQL may stand, in every dialect."""
    made = {
        dialect: write("vector sql", input="zones.gpkg", output="sql.gpkg", sql=[statement], dialect=dialect)
        for dialect in ("OGRSQL", "SQLITE")
    }
    made["none"] = write("vector sql", input="zones.gpkg", output="sql.gpkg", sql=[statement])
    made["info"] = read("vector info", input="zones.gpkg", sql=statement)
    made["like"] = write("raster clip", input="ok.tif", output="x.tif", like="zones.gpkg", like_sql=statement)
    made["burnt"] = write(
        "vector rasterize", input="zones.gpkg", output="x.tif", sql=statement, size=[5, 5], burn=[1]
    )
    step = {"step": "sql", "arguments": {"sql": [statement]}}
    made["step"] = ("pipeline", {"steps": [{"step": "read", "arguments": {"input": "zones.gpkg"}}, step, {"step": "write", "arguments": {"output": "x.gpkg"}}]})  # fmt: skip
    return made


def test_without_the_setting_no_statement_at_all_is_taken(victim: Talk, own: Place):
    calls = {
        (statement, use): call
        for statement in ("SELECT * FROM zones", *SQL[:3])
        for use, call in sql_calls(statement).items()
    }
    refused_all(victim, own, calls)


def test_with_the_setting_no_statement_reaches_another_file_or_never_ends(with_sql: Talk, own: Place):
    calls = {
        (statement, use): call
        for number, statement in enumerate(SQL)
        for use, call in list(sql_calls(statement).items())[number % 2 :: 2]
    }
    refused_all(with_sql, own, calls)


def test_a_plain_statement_does_what_it_says(with_sql: Talk, own: Place):
    """The traps above are refused for what they say, not because it is SQL."""
    tool, arguments = write(
        "vector sql", input="zones.gpkg", output="plain-sql.geojson", sql=["SELECT name FROM zones WHERE value > 5"]
    )  # fmt: skip
    made = with_sql.done(tool, **arguments)
    assert made["outputs"][0]["description"]["layers"][0]["features"] == 1
    assert "south" in own.path("plain-sql.geojson").read_text()


def ends(talk: Talk, *calls: Call) -> list[dict[str, Any]]:
    """What the calls were told, made together; nothing of the host is in it."""
    under_way = [talk.start(tool, **arguments) for tool, arguments in calls]
    answers = [call.result(timeout=300) for call in under_way]
    for answer in answers:
        told(answer)
    return [answer.structured_content for answer in answers]


def test_names_that_only_look_dangerous_are_names(victim: Talk, own: Place):
    """A list with a comma in a name, names like switches, drivers and formulas: one dataset each."""
    odd = ["comma,name.tif", "--config", "PG:host=x.tif", "semi;colon.tif", "ok.tif?bands=1", "[x].tif", "-oo.tif", "a b.tif"]  # fmt: skip
    answers = ends(
        victim,
        *(read("raster info", input=name) for name in odd),
        *(
            steps(f'read "{name}" ! info')
            for name in ("a b.tif", "semi;colon.tif", "comma,name.tif", "$(id).tif")
        ),
    )
    assert [answer["untrusted"]["report"]["size"] for answer in answers] == [[20, 20]] * len(answers)


def test_an_archive_of_the_workspace_is_read_and_nothing_behind_it(victim: Talk, own: Place):
    """Zip slip names and links in archives lead nowhere: inside an archive nothing is extracted or followed."""
    good = [
        read("raster info", input=name)
        for name in ("/vsizip/ok.zip/ok.tif", "/vsizip/{ok.zip}/folder/in.tif", "/vsitar/links.tar/ok.tif")
    ]
    bad = [
        read("raster info", input=name)
        for name in ("/vsizip/slip.zip/etc/PWNED.tif", "/vsitar/links.tar/secret.tif", "/vsizip/slip.zip/outside/secret.tif")
    ]  # fmt: skip
    lists = [
        read("vsi sozip list", input="slip.zip"),
        write("vsi sozip optimize", input=["slip.zip"], output="again.zip"),
    ]
    answers = ends(victim, *good, *bad, *lists)
    assert [answer["untrusted"]["report"]["size"] for answer in answers[:3]] == [[20, 20]] * 3
    assert all("error" in answer for answer in answers[4:5])


def test_deleting_a_dataset_that_refers_to_others_takes_away_itself_alone(victim: Talk, own: Place):
    source = own.path("ok.tif").read_bytes()
    for name in ("gone.vrt", "renamed.vrt", "copied.vrt"):
        own.path(name).write_bytes(own.path("ok.vrt").read_bytes())
    answers = ends(
        victim,
        write("dataset delete", filename=["gone.vrt"]),
        write("dataset rename", source="renamed.vrt", destination="other-name.vrt"),
        write("dataset copy", source="copied.vrt", destination="copy-of.vrt"),
    )
    assert not [answer for answer in answers if "error" in answer]
    assert [own.path(name).exists() for name in ("gone.vrt", "renamed.vrt", "copied.vrt")] == [
        False,
        False,
        True,
    ]
    assert own.path("other-name.vrt").is_file()
    assert own.path("copy-of.vrt").is_file()
    assert own.path("ok.tif").read_bytes() == source  # neither deleted, renamed nor copied along
    assert not [path for path in own.workspace.glob("*.tif") if path.stem in ("other-name", "copy-of")]


def test_an_overwrite_of_a_dataset_that_refers_to_others_leaves_them(victim: Talk, own: Place):
    own.path("over.vrt").write_bytes(own.path("ok.vrt").read_bytes())
    own.path("edited.vrt").write_bytes(own.path("ok.vrt").read_bytes())
    answers = ends(
        victim,
        write("raster convert", input="dem.tif", output="over.vrt", overwrite=True),
        write("raster edit", dataset="edited.vrt", nodata="1"),
    )
    assert not [answer for answer in answers if "error" in answer]


def test_what_takes_a_folder_away_takes_a_link_in_it_and_not_what_it_leads_to(
    victim: Talk, own: Place, world: World
):
    for folder in ("doomed", "moving"):
        own.path(folder).mkdir()
        own.path(folder).joinpath("link").symlink_to(world.outside / "victim")
        own.path(folder).joinpath("file.txt").write_text("x")
    answers = ends(
        victim,
        write("vsi delete", filename="doomed", recursive=True),
        write("vsi move", source="moving", destination="moved"),
    )
    assert not own.path("doomed").exists() or "error" in answers[0]
    assert (world.outside / "victim" / "keep.txt").read_bytes() == CANARY
    for path in own.workspace.rglob("keep.txt"):
        assert path.is_relative_to(own.workspace / "nowhere"), "a file from outside was copied in"


FLOODS: dict[str, Call] = {
    "R01": write("raster create", size=[200_000, 200_000], output="big.tif", output_data_type="Byte"),
    "R02": write("raster create", size=[200_000, 200_000], output="big.tif", output_data_type="Byte", burn=[1]),
    "R04": write("raster resize", input="dem.tif", output="big.tif", size=["200000", "200000"]),
    "R06": write("raster reproject", input="dem.tif", output="big.tif", output_crs="EPSG:4326", resolution=[1e-07, 1e-07]),
    "R10": write("raster tile", input="dem.tif", output="tiles", min_zoom=0, max_zoom=24),
    "R11": write("vector rasterize", input="zones.gpkg", output="big.tif", size=[200_000, 200_000], burn=[1]),
    "R13": write("vector grid invdist", input="places.geojson", output="big.tif", size=[200_000, 200_000]),
    "R04 step": steps("read dem.tif ! resize --size=200000,200000 ! write big.tif"),
    "R10 step": steps("read dem.tif ! tile --min-zoom=0 --max-zoom=24 tiles"),
}  # fmt: skip


def test_a_flood_is_refused_by_its_estimate(victim: Talk, own: Place):
    errors = refused_all(victim, own, FLOODS)
    assert {error["code"] for error in errors.values()} <= {"DISK_LIMIT", "MEMORY_LIMIT", "TIMEOUT"}
    assert not own.path("big.tif").exists()
    assert not own.path("tiles").exists()


def test_a_flood_that_nobody_foresaw_is_ended_by_the_limits(with_sql: Talk, own: Place):
    """A59: memory from a function of SQL."""
    tool, arguments = read("vector info", input="zones.gpkg", sql="SELECT printf('%.900000000c', 'x')")
    error = with_sql.failed(tool, **arguments)
    assert error["code"] in ("MEMORY_LIMIT", "TIMEOUT", "GDAL_ERROR")
    assert own.staged == []
