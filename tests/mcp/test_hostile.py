"""Hostile names, arguments and files, judged by what they did: no byte from outside, nothing changed, no container left.

The ids are those of the project's table of hostile inputs: P paths, D and E dataset names, A arguments, F and G contents, X second order.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import mcp_types as t
import pytest

from tests.mcp.attack_files import everything
from tests.mcp.conftest import Containers
from tests.mcp.hostile_files import CANARY, HIDDEN, Ground, endless_view, lay
from tests.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import Oracle

pytestmark = [pytest.mark.engine, pytest.mark.claim("args.refused-before-anything-runs")]

EARLY = {"validate", "resolve"}  # nothing has run
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ff]"
)


@pytest.fixture(scope="module")
def own(grounds: Path, oracle: Oracle, place: Place) -> Place:
    made = Place.made(grounds / "hostile")
    lay(Ground(made.workspace, grounds / "hostile" / "outside"), oracle, place.workspace)
    endless_view(made.path("endless.gpkg"), place.path("zones.gpkg"))
    return made


@pytest.fixture(scope="module")
def outside(own: Place) -> Path:
    return own.workspace.parent / "outside"


@pytest.fixture(scope="module")
def victim(own: Place, outside: Path, grounds: Path, containers: Containers) -> Iterator[Talk]:
    """A server that asks nobody. When it has gone through all of it, the world is looked over."""
    before = everything(outside)
    workspace = everything(own.workspace)
    command = own.command(
        "--approval", "never", "--timeout-seconds", "5", "--memory", "512MiB", "--log-level", "debug"
    )
    log = grounds / "hostile.log"
    with talking(command, log, person=Person()) as made:
        yield made
        assert containers.none_of(own.owners)
        assert own.staged == []
    assert everything(outside) == before
    after = everything(own.workspace)
    assert {name: after.get(name) for name in workspace} == workspace  # no input was changed
    assert not [name for name in after if "PWNED" in name]
    published = [content for name, content in after.items() if name not in workspace]
    records = [path.read_bytes() for path in own.state.rglob("*") if path.is_file()]
    for content in [*published, *records, log.read_bytes()]:
        assert CANARY not in (content.encode() if isinstance(content, str) else content)


def told(result: t.CallToolResult) -> str:
    """All that a client is told, free of the canary and of text that hides or forges."""
    text = json.dumps(result.model_dump(mode="json"), ensure_ascii=False)
    assert CANARY.decode() not in text
    inner = "".join(one.text for one in result.content if isinstance(one, t.TextContent))
    assert not UNSAFE.search(inner)
    assert not UNSAFE.search(json.dumps(result.structured_content, ensure_ascii=False))
    return text


REFUSED_PATHS = {
    "P01": "../outside/secret.tif", "P02": "/etc/passwd", "P04": "ln_dir/secret.tif", "P05": "ln_abs.tif", "P06": "ln_rel.tif",
    "P07": "ln_passwd.csv", "P08": "ln_environ.csv", "P09": "ln_root/etc/passwd", "P10": "ln_loop.tif", "P15": "ok.tif\0.png",
    "P16": "new\nline.tif", "P26": "%2e%2e%2foutside/secret.tif", "P30": "L" * 252 + ".tif", "P32": "x/" * 2500, "P38": "--",
    "P39": "--optfile", "P40": "--pause", "P41": "--mempreload", "P42": "?", "P49": "fifo.tif", "P50": "/dev/zero",
    "P52": "/proc/self/fd/0", "P53": "bad\ufffd\ufffdutf8.tif", "P56": "ok.tif/", "P60": "~/x.tif", "P61": "ln_state/audit.jsonl",
    "P62": ".gdal-mcp/lock", "P63": "sub/../../outside/secret.tif", "P64": "file:///etc/passwd", "P65": "file://host/share/ok.tif",
}  # fmt: skip


@pytest.mark.claim("paths.inside")
def test_a_path_out_of_the_workspace_is_refused_before_anything_runs(victim: Talk, subtests: pytest.Subtests):
    for path in REFUSED_PATHS.values():
        with subtests.test(path=path):
            for tool, name in (("info", "path"), ("gdalinfo", "dataset")):
                result = victim.call(tool, **{name: path})
                assert result.structured_content["error"]["stage"] in EARLY
                told(result)


DATASET_NAMES = [
    "/vsis3/bucket/x.tif", "/vsiaz/c/x.tif", "/vsihdfs/x", "http://169.254.169.254/x.tif", "/vsizip//ws/ok.zip/ok.tif", "/vsizip/ok.zip/ok.tif",
    "/vsizip//outside/x.zip/a.tif", "/vsistdin?buffer_limit=-1", "/vsimem/x.tif", "/vsicrypt/key=00,file=/etc/passwd", "/vsicached?file=ok.tif",
    "/vsikerchunk_json_ref/{kerchunk.json}/a/0.0", "vrt://ok.tif?bands=1,1", "vrt:///outside/secret.tif?bands=1",
    "<GDAL_WMS><Service name='TMS'><ServerUrl>http://127.0.0.1/${z}</ServerUrl></Service></GDAL_WMS>", "WMS:http://127.0.0.1/?SERVICE=WMS",
    "WMTS:http://127.0.0.1/", 'NETCDF:"http://127.0.0.1/x":v', 'HDF5:"/outside/x.h5"://a',
    'ZARR:"/vsicurl/http://127.0.0.1/x.zarr"', 'ZARR:"/vsikerchunk_json_ref/{kerchunk.json}":/a',
    "MEM:::DATAPOINTER=4194304,PIXELS=16,LINES=16", "PG:host=127.0.0.1 dbname=x table=t", "/vsicurl?url=http%3A%2F%2F127.0.0.1%2Fx.mbtiles",
    "EEDAI:x", "OGCAPI:http://127.0.0.1/", "DAAS:http://127.0.0.1/", "PLMOSAIC:", "JPEG_SUBDATASET:1,1,/etc/passwd", "NITF_IM:0:/etc/passwd",
    '{"type":"FeatureCollection","stac_version":"1.0.0","features":[]}', "PG:host=127.0.0.1 port=5432 dbname=x",
    "MYSQL:x,host=127.0.0.1", "ODBC:x", "CSW:http://127.0.0.1", "CARTO:x", "NGW:http://127.0.0.1/resource/1",
    '{"type":"Point","coordinates":[2,49]}', "GEOJSON:/etc/passwd", "GEOJSONSeq:http://127.0.0.1/x", "ESRIJSON:http://127.0.0.1/x",
    "TopoJSON:http://127.0.0.1/x", "MVT:x.pbf", "MVT:http://127.0.0.1/0", "GMLAS:xxe.gml", "GPSBABEL:gpx:/etc/passwd", "ADBC:x",
    "/vsistdin/", "CSV:/etc/passwd",
    "<OGRVRTDataSource><OGRVRTLayer name='passwd'><SrcDataSource>CSV:/etc/passwd</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>",
    "AVCE00:/etc/passwd", "CAD:/etc/passwd", "GNM:x", "XLS:/etc/passwd", "/vsizip/slip.zip",
]  # fmt: skip


@pytest.mark.claim("names.files-only")
def test_a_dataset_name_that_is_no_file_is_refused_before_anything_runs(
    victim: Talk, subtests: pytest.Subtests
):
    for name in DATASET_NAMES:
        with subtests.test(name=name):
            for tool, arguments in (
                ("info", {"path": name}),
                ("convert", {"input": name, "output": "x.tif"}),
                ("gdalwarp", {"src_datasets": ["ok.tif", name], "t_srs": "EPSG:4326"}),
                ("gdal_polygonize", {"src_dataset": "ok.tif", "mask": name}),
            ):
                result = victim.call(tool, **arguments)
                assert result.structured_content["error"]["stage"] in EARLY
                told(result)


PARTS = [
    'NETCDF:"ok.tif":v', "DERIVED_SUBDATASET:AMPLITUDE:ok.tif", "RADARSAT_2_CALIB:UNCALIB:ok.tif", "GPKG:zones.gpkg:zones",
]  # fmt: skip
ASTRAY = [
    ("ok.tif", "../outside/secret.tif"), ("ok.tif", "/etc/passwd"), ("zones.gpkg", "/etc/passwd"), ("ok.tif", "ln_rel.tif"),
    ("zones.gpkg", "ln_passwd.csv"), ("ok.tif", "/vsicurl/http://127.0.0.1/x.tif"), ("ok.tif", "http://127.0.0.1/x.tif"),
    ("ok.tif", "/vsistdin/"), ("zones.gpkg", "/dev/zero"),
]  # fmt: skip


@pytest.mark.claim("names.read-whole")
def test_a_name_of_a_part_opens_that_file_of_the_workspace_or_nothing(victim: Talk, own: Place):
    calls = {name: victim.start("info", path=name) for name in PARTS}
    for name, call in calls.items():
        result = call.result(timeout=120)
        told(result)
        if result.is_error:
            assert result.structured_content["error"]["code"] == "GDAL_ERROR"
        else:
            inside = str(own.path("zones.gpkg" if "zones" in name else "ok.tif"))
            assert inside in result.structured_content["receipt"]["argv"][-1]
    assert not calls["GPKG:zones.gpkg:zones"].result().is_error


@pytest.mark.claim("names.read-whole")
def test_a_name_of_a_part_of_another_place_is_refused_before_anything_runs(
    victim: Talk, subtests: pytest.Subtests
):
    for name in PARTS:
        with subtests.test(name=name):
            for inside, astray in ASTRAY:
                if inside in name:
                    result = victim.call("info", path=name.replace(inside, astray))
                    assert result.structured_content["error"]["stage"] in EARLY, astray
                    told(result)


OUT = {"input": "ok.tif", "output": "out.tif"}
ARGUMENTS = {
    "P12": ("convert", {"input": "ok.tif", "output": "ln_dangling.tif"}),
    "P13": ("convert", {"input": "ok.tif", "output": "ln_rel.tif"}),
    "P14": ("convert", {"input": "ok.tif", "output": "ln_inside.tif"}),
    "P36": ("convert", {**OUT, "creation_options": ["--config", "CPL_LOG=/tmp/PWNED"]}),
    "A02": ("convert", {**OUT, "extra_args": ["--config", "PYTHONSO=/ws/evil.so"]}),
    "A06": ("reproject", {**OUT, "dst_crs": "EPSG:3857", "extra_args": ["--config=CPL_LOG=ok.csv"]}),
    "A07": ("convert", {**OUT, "output": "o.pdf", "output_format": "PDF", "creation_options": {"OGR_DATASOURCE": "CSV:/etc/passwd"}}),
    "A08": ("convert", {**OUT, "output": "o.pdf", "output_format": "PDF", "creation_options": {"COMPOSITION_FILE": "comp.xml"}}),
    "A09": ("convert", {**OUT, "output": "o.pdf", "output_format": "PDF", "creation_options": {"JAVASCRIPT_FILE": "/etc/passwd"}}),
    "A12": ("convert", {**OUT, "output": "o.xml", "output_format": "PDS4", "creation_options": {"IMAGE_FILENAME": "/tmp/evil.img"}}),
    "A14": ("convert", {"input": "zones.gpkg", "output": "o.mvt", "output_format": "MVT", "creation_options": {"TEMPORARY_DB": "ok.tif"}}),
    "A15": ("convert", {**OUT, "output": "o.mrf", "output_format": "MRF", "creation_options": {"DATANAME": "ok.tif"}}),
    "A17": ("convert", {"input": "zones.gpkg", "output": "o.mapml", "output_format": "MapML", "creation_options": {"HEAD": "/etc/passwd"}}),
    "A18": ("convert", {**OUT, "extra_args": ["--open-option=ROOT_PATH=/outside"]}),
    "A19": ("convert", {"input": "zones.gpkg", "output": "o.gpkg", "extra_args": ["--open-option=PRELUDE_STATEMENTS=ATTACH DATABASE 'x' AS a"]}),
    "A21": ("convert", {"input": "zones.gpkg", "output": "o.gpkg", "extra_args": ["--oo=ADBC_DRIVER=evil.so"]}),
    "A22": ("convert", {"input": "xxe.gml", "output": "o.gpkg", "extra_args": ["--oo", "XSD=/etc/passwd"]}),
    "A32": ("reproject", {**OUT, "dst_crs": "/etc/passwd"}),
    "A33": ("reproject", {**OUT, "dst_crs": "http://169.254.169.254/x"}),
    "A34": ("reproject", {**OUT, "dst_crs": "DICT:/etc/passwd,1"}),
    "A35": ("reproject", {**OUT, "dst_crs": "+proj=longlat +nadgrids=/etc/passwd"}),
    "A36": ("reproject", {**OUT, "dst_crs": "+init=/etc/passwd:root"}),
    "A37": ("gdalwarp", {"src_datasets": ["ok.tif"], "t_srs": "+proj=longlat +ellps=WGS84 +geoidgrids=/vsicurl/x"}),
    "A38": ("reproject", {**OUT, "dst_crs": "EPSG:4326", "transform_options": {"COORDINATE_OPERATION": "+proj=hgridshift +grids=/etc/passwd"}}),
    "A39": ("reproject", {**OUT, "dst_crs": "EPSG:4326", "bbox": [0, 0, 1, 1], "bbox_crs": "/etc/passwd"}),
    "A60": ("convert", {"input": "ok.tif", "output": "/vsistdout/"}),
    "A62": ("convert", {"input": "ok.tif", "output": "/dev/stdout", "output_format": "GTiff"}),
    "A63": ("convert", {"input": "ok.tif", "output": "/proc/self/fd/1", "output_format": "GTiff"}),
    "A64": ("convert", {"input": "ok.tif", "output": "PG:host=127.0.0.1 dbname=x", "output_format": "PostGISRaster"}),
    "A73": ("convert", {"input": "ok.tif", "output": "x", "output_format": "MEM"}),
    "A75": ("convert", {"input": "ok.tif", "output": "a/b/c/x.tif"}),
    "A76": ("convert", {"input": "ok.tif", "output": ".gdal-mcp/x.tif"}),
    "A78": ("gdal_translate", {"src_dataset": "ok.tif", "dst_dataset": "../outside/x.tif"}),
    "A90": ("convert", {**OUT, "extra_args": ["--like=/outside/secret.tif"]}),
    "A91": ("convert", {**OUT, "extra_args": ["@/etc/passwd"]}),
    "A92": ("convert", {**OUT, "extra_args": ["ok.tif"]}),
    "A93": ("convert", {**OUT, "extra_args": ["--output=other.tif"]}),
    "A97": ("gdalwarp", {"src_datasets": ["ok.tif"], "t_srs": "EPSG:4326", "cutline": "CSV:/etc/passwd"}),
    "A99": ("gdalbuildvrt", {"src_datasets": ["@inputs.txt"]}),
    "A103": ("gdal_translate", {"src_dataset": "<VRTDataset/>"}),
    "A105": ("gdal_polygonize", {"src_dataset": "ok.tif", "mask": "../outside/secret.tif"}),
    "A106": ("gdal_polygonize", {"src_dataset": "ok.tif", "field_name": "--config"}),
    "A109": ("gdal_translate", {"src_dataset": "ok.tif", "bands": ["-of"]}),
    "A110": ("gdal_translate", {"src_dataset": "ok.tif", "output_format": "PostGISRaster"}),
    "A111": ("gdal_rasterize", {"src_vector": "zones.gpkg", "burn_value": 1, "width": 0, "height": 5, "extent": [0, 0, 1, 1]}),
    "X15": ("reproject", {**OUT, "dst_crs": "EPSG:4326", "extra_args": ["--config", "GDAL_SKIP="]}),
}  # fmt: skip


@pytest.mark.claim("args.unknown-refused")
def test_an_argument_that_reaches_further_is_refused_before_anything_runs(
    victim: Talk, subtests: pytest.Subtests
):
    for tool, arguments in ARGUMENTS.values():
        with subtests.test(tool=tool, arguments=arguments):
            result = victim.call(tool, **arguments)
            assert result.is_error, result.structured_content
            assert result.structured_content["error"]["stage"] in EARLY
            told(result)


@pytest.mark.claim("content.reads-nothing-outside")
def test_a_chain_of_our_own_outputs_stays_inside(victim: Talk, own: Place):
    victim.done("gdalbuildvrt", src_datasets=["ok.tif"], dst_vrt="chain1.vrt")
    victim.done("convert", input="chain1.vrt", output="chain2.vrt", output_format="VRT")
    victim.done("gdal_translate", src_dataset="chain2.vrt", dst_dataset="-rf.tif")
    assert own.path("-rf.tif").is_file()


@pytest.mark.claim("content.cleaned")
def test_text_from_inside_a_file_cannot_hide_or_drive_a_terminal(victim: Talk, subtests: pytest.Subtests):
    for name, tool in (
        ("injection.vrt", "info"),
        ("injection.geojson", "info"),
        ("injection.vrt", "gdalinfo"),
    ):
        with subtests.test(name=name, tool=tool):
            result = victim.call(tool, **{"path" if tool == "info" else "dataset": name})
            assert not result.is_error, result.structured_content
            text = told(result)
            assert "IGNORE" in text or name.endswith("geojson")  # cleaned, not left out
            assert HIDDEN not in text


@pytest.mark.claim("content.cleaned")
def test_a_layer_of_a_hostile_name_is_described_cleanly(victim: Talk):
    told(victim.call("convert", input="injection.geojson", output="named.gpkg"))


@pytest.mark.claim("audit.secrets-not-kept")
def test_secrets_in_refused_arguments_are_not_kept(victim: Talk, own: Place, grounds: Path):
    secret = "hunter2-not-for-the-log"
    victim.failed("info", path=f"PG:host=db user=me password={secret}")
    victim.failed("convert", input="ok.tif", output="x.tif", extra_args=[f"--password={secret}"])
    kept = [path for path in own.state.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert kept == []
    assert secret not in (grounds / "hostile.log").read_text()
