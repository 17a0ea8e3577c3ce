"""The calls of test_attacks.py as tables. The ids are those of the project's table of hostile inputs."""

from typing import Any

Call = tuple[str, dict[str, Any]]


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
# dataset names by their ids; the others below have none
BY_ID = {
    "D02": "/vsis3/bucket/x.tif", "D04": "/vsiaz/c/x.tif", "D05": "/vsihdfs/x", "D06": "http://169.254.169.254/x.tif",
    "D11": "/vsizip//outside/x.zip/a.tif", "D16": "/vsistdin?buffer_limit=-1", "D17": "/vsimem/x.tif", "D19": "/vsicrypt/key=00,file=/etc/passwd",
    "D20": "/vsicached?file=ok.tif", "D21": "/vsikerchunk_json_ref/{kerchunk.json}/a/0.0", "D22": "vrt://ok.tif?bands=1,1",
    "D23": "vrt:///outside/secret.tif?bands=1",
    "D25": "<GDAL_WMS><Service name='TMS'><ServerUrl>http://127.0.0.1/${z}</ServerUrl></Service></GDAL_WMS>",
    "D26": "WMS:http://127.0.0.1/?SERVICE=WMS", "D27": "WMTS:http://127.0.0.1/", "D29": 'NETCDF:"/etc/passwd":v', "D30": 'NETCDF:"http://127.0.0.1/x":v',
    "D31": 'HDF5:"/outside/x.h5"://a', "D35": 'ZARR:"/vsicurl/http://127.0.0.1/x.zarr"', "D36": 'ZARR:"/vsikerchunk_json_ref/{kerchunk.json}":/a',
    "D40": "MEM:::DATAPOINTER=4194304,PIXELS=16,LINES=16", "D41": "PG:host=127.0.0.1 dbname=x table=t",
    "D42": "/vsicurl?url=http%3A%2F%2F127.0.0.1%2Fx.mbtiles", "D43": "EEDAI:x", "D44": "OGCAPI:http://127.0.0.1/", "D45": "DAAS:http://127.0.0.1/",
    "D46": "PLMOSAIC:", "D47": "JPEG_SUBDATASET:1,1,/etc/passwd", "D48": "NITF_IM:0:/etc/passwd", "D49": "RADARSAT_2_CALIB:UNCALIB:/etc/passwd",
    "D50": '{"type":"FeatureCollection","stac_version":"1.0.0","features":[]}',
    "E01": "PG:host=127.0.0.1 port=5432 dbname=x", "E02": "MYSQL:x,host=127.0.0.1", "E04": "ODBC:x", "E09": "CSW:http://127.0.0.1", "E10": "CARTO:x",
    "E11": "NGW:http://127.0.0.1/resource/1", "E13": '{"type":"Point","coordinates":[2,49]}', "E14": "GEOJSON:/etc/passwd",
    "E15": "GEOJSONSeq:http://127.0.0.1/x", "E16": "ESRIJSON:http://127.0.0.1/x", "E17": "TopoJSON:http://127.0.0.1/x", "E18": "MVT:/etc/passwd",
    "E19": "MVT:http://127.0.0.1/0", "E20": "GMLAS:/etc/passwd", "E21": "GPSBABEL:gpx:/etc/passwd", "E22": "ADBC:x", "E25": "/vsistdin/",
    "E26": "<OGRVRTDataSource><OGRVRTLayer name='p'><SrcDataSource>CSV:/etc/passwd</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>",
    "E27": "AVCE00:/etc/passwd", "E28": "CAD:/etc/passwd", "E29": "GNM:x", "E30": "XLS:/etc/passwd", "E34": "/vsizip//outside/slip.zip",
}  # fmt: skip
NAMES = [
    *BY_ID.values(),
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
    "A114a": write("raster index", input=["symdir"], recursive=True, output="o.gpkg"),
    "A114b": write("vector index", input=["."], recursive=True, output="o.gpkg"),
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


FLOODS: dict[str, Call] = {
    "R01": write("raster create", size=[200_000, 200_000], output="big.tif"),
    "R02": write("raster create", size=[200_000, 200_000], output="big.tif", burn=[1]),
    "R04": write("raster resize", input="dem.tif", output="big.tif", size=["200000", "200000"]),
    "R06": write("raster reproject", input="dem.tif", output="big.tif", output_crs="EPSG:4326", resolution=[1e-07, 1e-07]),
    "R10": write("raster tile", input="dem.tif", output="tiles", min_zoom=0, max_zoom=24),
    "R11": write("vector rasterize", input="zones.gpkg", output="big.tif", size=[200_000, 200_000], burn=[1]),
    "R13": write("vector grid invdist", input="places.geojson", output="big.tif", size=[200_000, 200_000]),
    "R04 step": steps("read dem.tif ! resize --size=200000,200000 ! write big.tif"),
    "R10 step": steps("read dem.tif ! tile --min-zoom=0 --max-zoom=24 tiles"),
}  # fmt: skip
