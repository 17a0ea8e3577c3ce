"""Every place of a call that can contain a path, a dataset name or a step: a name that reaches further is refused
before a run.

Attacks that are tried once, and texts for a single argument, are in `table.py`.
"""

import pytest

from tests.e2e.mcp.talk import Person, talking
from tests.security.attacks.conftest import Attacked
from tests.security.attacks.table import TABLE, Call, info, read, sql, steps, tool, write

pytestmark = [pytest.mark.engine, pytest.mark.claim("args.refused-before-anything-runs")]

# the names of attacks that the table tries with one tool each, and similar names
PATHS = [attack.calls[0][1]["path"] for key, attack in TABLE.items() if key[0] == "P" and attack.letter == "V" and attack.calls[0][0] == "info"]  # fmt: skip
NAMES = [
    *(attack.calls[0][1]["path"] for key, attack in TABLE.items() if key[0] == "D" and attack.letter == "V"),
    *(attack.calls[0][1]["arguments"]["input"] for key, attack in TABLE.items() if key[0] == "E" and attack.letter == "V"),
    "/vsizip//ws/ok.zip/ok.tif", "MVT:x.pbf", "GMLAS:xxe.gml",
    "/vsisubfile/0_10,ok.tif", "/vsisparse/ok.vrt", "/vsicurl/http://192.0.2.1/x.tif", "/vsicurl_streaming/file:///etc/passwd",
    "/vsizip//vsicurl/http://192.0.2.1/x.zip/x.tif", "/vsizip//vsizip/nested.zip/ok.zip/ok.tif", "/vsizip/{/vsizip/{nested.zip}/ok.zip}/ok.tif",
    "/vsizip/ok.zip/../ok.tif", "/vsizip/{ok.zip}/../../outside/secret.tif", "/vsizip/{../outside/x.zip}/a.tif", "/vsizip/ln_abs.tif/x",
    "/vsitar//etc/passwd", "/vsigzip//etc/passwd", "/vsi7z/ok.zip/ok.tif", "/vsirar/ok.zip/ok.tif", "/VSIZIP//VSICURL/http://192.0.2.1/x.zip",
    "<VRTDataset/>", "DERIVED_SUBDATASET:AMPLITUDE:/etc/passwd", "MSSQL:DRIVER=canary.so;",
    '{"type":"gdal_streamed_alg","command_line":"gdal raster pipeline ! read ok.tif"}', "GPKG:/etc/passwd:x", "SQLITE:/etc/passwd", "CSV:/etc/passwd",
    "GTI:/etc/passwd", "GTIFF_DIR:1:/etc/passwd", "GTIFF_RAW:/etc/passwd", "STACTA:/etc/passwd", "AIVector:/etc",
    'STACIT:"http://127.0.0.1/x"', "AMIGOCLOUD:x", "ES:http://127.0.0.1", "OAPIF:http://127.0.0.1", "PLSCENES:", "WFS:http://127.0.0.1", "EEDA:x",
    "S3:x", "COG:/etc/passwd", "HDF4_SDS:UNKNOWN:/etc/passwd:0", "PCIDSK:/etc/passwd", "http:/192.0.2.1/x", "ftp://192.0.2.1/x.tif",
]  # fmt: skip


def uses(name: str) -> dict[str, Call]:
    """The places that can name a dataset: as input, in a list, beside the input, in a step, by name, as a file to
    change.
    """
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
        "gdalinfo": ("gdalinfo", {"dataset": name}),
        "convert": ("convert", {"input": name, "output": "x.tif"}),
        "gdalwarp": ("gdalwarp", {"src_datasets": ["ok.tif", name], "t_srs": "EPSG:4326"}),
        "polygonize": ("gdal_polygonize", {"src_dataset": "ok.tif", "mask": name}),
    }  # fmt: skip


def some(name: str, number: int) -> dict[str, Call]:
    """Reading the name, and a third of its other uses, so that each name and each use are combined with several
    others.

    A name without a slash is a valid name for a new file.
    """
    calls = uses(name)
    may = set() if "/" in name or not name.isprintable() else {"write", "sink"}
    keys = ["read", "features", *list(calls)[2 + number % 3 :: 3]]
    may |= {"schema"} if name.startswith("{") else set()  # an argument that takes a document
    return {key: calls[key] for key in keys if key not in may}


@pytest.mark.nightly
@pytest.mark.claim("paths.inside", "names.files-only")
@pytest.mark.parametrize("texts", [PATHS, NAMES], ids=["paths", "names"])
def test_non_workspace_name_is_refused_in_every_argument(attacked, texts):
    for start in range(0, len(texts), 10):  # several hundred calls at once would wait for one another
        some_of = list(enumerate(texts))[start : start + 10]
        attacked.refuses(
            {(text, use): call for number, text in some_of for use, call in some(text, number).items()}
        )


@pytest.mark.claim("args.total-roles")
def test_path_argument_is_checked_like_the_input(attacked: Attacked):
    beside = ("like", "mask", "table", "identify", "gdalwarp", "polygonize")
    absolute = f"{attacked.ground.outside}/secret.tif"
    for path in ("../outside/secret.tif", absolute, "ln_abs.tif", "/vsicurl/http://192.0.2.1/x.tif"):
        calls = {use: uses(path)[use] for use in beside}
        calls["cutline"] = tool("gdalwarp", src_datasets=["ok.tif"], t_srs="EPSG:4326", cutline=path)
        calls["template"] = write("raster tile", input="ok.tif", mapml_template=path, output="tiles")
        calls["reference"] = read("raster compare", input="ok.tif", reference=path)
        attacked.refuses(calls)


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
    "read ok.tif ! blend --overlay [ read /etc/passwd ] ! write x.tif", "mosaic [ read ok.tif ! clip --like=/etc/passwd ] [ read ok.tif ] ! write x.tif",
    "read ok.tif ! blend --overlay [ read ok.tif ! tee [ write ../outside/x.tif ] ] ! write x.tif",
    "read ok.tif ! color-map --color-map=/etc/passwd ! write x.tif", "read zones.gpkg ! sql --sql=@/etc/passwd ! write x.gpkg",
    "read zones.gpkg ! filter --where=@/etc/passwd ! write x.gpkg", "read ok.tif ! write --of=PostGISRaster PG:x", "read ok.tif ! write --of=MEM x",
    "read ok.tif ! write --of=stream x", "read ok.tif ! write --co=OGR_DATASOURCE=CSV:/etc/passwd --of=PDF x.pdf", "read --oo=ROOT_PATH=/etc ok.vrt ! info",
    "read ok.tif ! reproject --output-crs=/etc/passwd ! write x.tif", "read ok.tif ! write ok.tif --overwrite", "read ok.tif ! update ../outside/secret.tif",
    "read ok.tif ! write x.tif ! external id", "read ok.tif ! write x.tif --optfile=inputs.txt", "read ok.tif --pause ! info", "read ok.tif ! info --help",
    "read ok.tif ! write --output", "read ok.tif ! write -o", "read ok.tif ; rm ! info", "read ok.tif | info",
    "read ok.tif ! write x\0.tif", "read ok.tif ! write /vsimem/x.tif", "read ok.tif ! " + "scale ! " * 60 + "write x.tif", "read ok.tif ! write ~/x.tif",
    "read ok.tif ! tee [ tee [ tee [ tee [ tee [ write a.tif ] ! write b.tif ] ! write c.tif ] ! write d.tif ] ! write e.tif ] ! write x.tif",
]  # fmt: skip


@pytest.mark.claim("args.pipelines-parsed")
def test_no_step_runs_a_program_in_any_spelling(attacked: Attacked):
    calls: dict[object, Call] = {text: steps(text) for text in EXTERNAL}
    for path in ("pipeline", "raster pipeline", "vector pipeline"):
        texts = [text for text in EXTERNAL if "zones" in text or "vector" not in path]
        calls |= {(path, text): write(path, pipeline=text) for text in texts}
    spelt = ("external", "External", " external", "raster external", "gdal external")
    for name in (*spelt, "exter\u200bnal", "external\0"):
        for step_arguments in ({"command": "id"}, {}):
            rows = {"read": {"input": "ok.tif"}, name: step_arguments, "write": {"output": "x.tif"}}
            listed = [{"step": step, "arguments": arguments} for step, arguments in rows.items()]
            calls[name, str(step_arguments)] = tool("pipeline", steps=listed)
            calls[name, str(step_arguments), "tool"] = write(name, **step_arguments)
    attacked.refuses(calls)


@pytest.mark.claim("args.pipelines-parsed")
def test_pipeline_reaches_no_further_than_its_steps(attacked: Attacked):
    calls: dict[object, Call] = {text: steps(text) for text in PIPED}
    calls |= {("write", text): write("pipeline", pipeline=text) for text in PIPED[::2]}
    calls |= {("read", text): read("pipeline", pipeline=text) for text in PIPED[1::2]}
    calls["config"] = write("pipeline", pipeline="read ok.tif ! write x.tif", config={"GDAL_SKIP": ""})
    calls["input"] = write("pipeline", pipeline="read ! write x.tif", input="/etc/passwd")
    calls["output"] = write("pipeline", pipeline="read ok.tif ! write", output="../outside/PWNED.tif")
    attacked.refuses(calls)


# and those of the table
SQL = [
    'SELECT * FROM "/etc/passwd".passwd',
    "VACUUM INTO 'PWNED.db'", "PRAGMA writable_schema=1", "@/etc/passwd", " @inputs.txt",
    "INSERT INTO zones (name) VALUES ('x')",
    "SELECT * FROM zones; DROP TABLE zones", "SELECT * FROM zones; ATTACH DATABASE 'PWNED.db' AS a", "UPDATE zones SET name = 'x'",
    "SELECT * FROM zones /* x */ ; DELETE FROM zones", "SELECT * FROM zones -- x\n; DELETE FROM zones", "EXPLAIN SELECT 1",
    'SELECT * FROM "GPKG:../outside/x.gpkg".x', "SELECT * FROM [/etc/passwd]", "SELECT * FROM `CSV:/etc/passwd`",
    "SELECT * FROM zones WHERE name IN (SELECT field_1 FROM 'CSV:/etc/passwd'.passwd)", "SELECT writefile('PWNED', 'x')",
    "SELECT * FROM fsdir('/etc')", "SELECT ogr_geocode('x')", "SELECT * FROM json_each(readfile('/etc/passwd'))", "CREATE TABLE x AS SELECT 1",
    "SELECT * FROM zones, 'CSV:/etc/passwd'.passwd", 'SELECT * FROM zones z JOIN places p ON 1, "etc".passwd',
    "SELECT XB_Create(CAST('<a/>' AS BLOB), 0, '/etc/passwd'), XB_GetLastValidateError()",
    "SELECT ST_Transform(geom, 3857, NULL, '+proj=hgridshift +grids=/etc/passwd') FROM zones",
    "SELECT CAST(x'2f' AS TEXT)\0", "ALTER TABLE zones RENAME TO x",
]  # fmt: skip


@pytest.mark.claim("sql.one-select")
def test_no_statement_reaches_another_file(attacked: Attacked):
    """Alone in both dialects, and as an argument and a step in turn."""
    calls: dict[object, Call] = {}
    for number, statement in enumerate(SQL):
        step = {"step": "sql", "arguments": {"sql": [statement]}}
        closing = f"SELECT * FROM zones), ({statement}"
        beside = (
            read("vector info", input="zones.gpkg", sql=statement),
            write("raster clip", input="ok.tif", output="x.tif", like="zones.gpkg", like_sql=statement),
            tool("pipeline", steps=[{"step": "read", "arguments": {"input": "zones.gpkg"}}, step]),
            tool("query", inputs=["zones.gpkg"], sql=statement),
            tool("query_to_file", inputs={"zones": "zones.gpkg"}, sql=closing, output="x.json"),
        )
        calls[statement, "alone"] = sql(statement, ("OGRSQL", "SQLITE")[number % 2])
        calls[statement, "beside"] = beside[number % len(beside)]
    attacked.refuses(calls)


@pytest.mark.claim("sql.can-be-off", "audit.secrets-not-kept")
def test_server_without_sql_refuses_statements_storing_no_secrets(attacked, grounds):
    secret, log = "hunter2-not-for-the-log", grounds / "without-sql.log"
    with talking(attacked.place.command("--approval", "never", "--no-sql"), log, person=Person()) as talk:
        calls = {
            "tool": write("vector sql", input="zones.gpkg", output="x.gpkg", sql=["SELECT * FROM zones"]),
            "argument": read("vector info", input="zones.gpkg", sql="SELECT * FROM zones"),
            "query": tool("query", inputs=["zones.gpkg"], sql="SELECT * FROM zones"),
            "step": steps("read zones.gpkg ! sql --sql='SELECT * FROM zones' ! write x.gpkg"),
            "path": info(f"PG:host=db user=me password={secret}"),
            "switch": tool("convert", input="ok.tif", output="x.tif", extra_args=[f"--password={secret}"]),
        }
        attacked.refuses(calls, talk)
    files = [log, *(path for path in attacked.place.state.rglob("*") if path.is_file())]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
