"""The calls that stand for each id of `table.py`. What is refused by its path or name alone is in `tests/mcp/attack_calls.py`."""

from tests.mcp.attack_calls import ARGUMENTS, BY_ID, FLOODS, PATHS, Call, read, steps, write
from tests.mcp.hostile_files import LONGEST

OUT = {"input": "ok.tif", "output": "out.tif"}


def info(path: str, **more: object) -> list[Call]:
    return [("info", {"path": path, **more})]


def features(path: str) -> list[Call]:
    return [read("vector info", input=path, features=True)]


def sql(statement: str, dialect: str, output: str = "sql.gpkg") -> list[Call]:
    return [write("vector sql", input="zones.gpkg", output=output, sql=[statement], dialect=dialect)]


def driver_option(kind: str, driver: str, output: str, option: str) -> list[Call]:
    source = "ok.tif" if kind == "raster" else "zones.gpkg"
    return [
        write(f"{kind} convert", input=source, output=output, output_format=driver, creation_option=[option])
    ]


def opened(kind: str, source: str, option: str) -> list[Call]:
    return [read(f"{kind} info", input=source, open_option=[option])]


def crs(text: str) -> list[Call]:
    return [write("raster reproject", **OUT, output_crs=text)]


NAMED = {
    "P11": "ln_inside.tif", "P19": "a b.tif", "P20": "quote'\"x.tif", "P22": "`id`.tif", "P24": "back\\slash.tif",
    "P25": "\uff0e\uff0e\uff0fx.tif", "P27": "caf\u00e9.tif", "P29": LONGEST, "P33": "-oo.tif", "P46": "PG:host=x.tif", "P57": ".//./ok.tif",
    "P21": "$(id).tif", "P58": "sub/../ok.tif", "P59": "ok.tif?bands=1", "P66": "star*.tif", "P67": "[x].tif", "P68": "100%.tif", "P69": "--config",
    "P70": "comma,name.tif", "P71": "semi;colon.tif",
}  # fmt: skip

# GDAL parts a list of names itself, so that one with a comma or a quotation mark cannot stand in it
LISTED = [name for name in NAMED.values() if not set(name) & set(",'\"")]
TOGETHER = read("dataset identify", filename=LISTED)

CASES: dict[str, list[Call]] = {
    **{key: info(path) for key, path in PATHS.items()},
    **{key: info(name) if key[0] == "D" else features(name) for key, name in BY_ID.items()},
    **{key: [TOGETHER] for key in NAMED},
    "P20": info(NAMED["P20"]), "P55": info("sub"), "P70": info(NAMED["P70"]),
    **{key: [call] for key, call in {**ARGUMENTS, **FLOODS}.items()},
    "P34": [read("raster info", input="-oo"), steps("read -oo ! info")],
    "P45": [read("dataset identify", filename=["comma,../outside/secret.tif"])],
    "P47": [read("raster info", input="PG:host=127.0.0.1 dbname=x")],
    "D09": info("/vsizip/ok.zip/ok.tif"),
    "D37": info("DERIVED_SUBDATASET:AMPLITUDE:ok.tif"),
    "E23": info("GPKG:zones.gpkg:zones"),
    "E33": features("sub"),
    # contents of rasters
    "F01": info("vrt_abs.vrt"), "F02": info("vrt_rel.vrt"), "F03": info("vrt_innocent.tif"), "F04": info("vrt-raw-passwd.vrt"),
    "F06": info("vrt_zero.vrt"), "F07": info("vrt-raw-inside.vrt"), "F09": info("vrt_stdin.vrt"), "F10": info("vrt_python.vrt"),
    "F11": info("vrt_huge.vrt"), "F12": [read("raster info", input="vrt_huge.vrt", stats=True)],
    "F13": [read("raster info", input="vrt-busy.vrt", checksum=True)], "F17": info("chain/c000.vrt"), "F18": info("laughs.vrt"),
    "F19": info("deep.vrt"), "F21": info("bad_dims.tif"), "F23": info("ifd_loop.tif"), "F24": info("trunc.tif"), "F31": info("injection.vrt"),
    "F32": info("injection.vrt", format="text"), "F33": info("gti.gti"), "F34": info("wms_file.xml"), "F35": info("wms_http.xml"),
    "F36": [write("raster convert", input="mrf-passwd.mrf", output="f36.tif")], "F37": info("pds-passwd.lbl"), "F40": info("kerchunk.json"),
    "F44": info("ok.gdalg.json"), "F45": info("stacta.json"), "F46": info("stacit.json"), "F47": info("bomb.zip"),
    "F60": [read("raster info", input="/vsizip/bomb.zip/zeros.bil", checksum=True)],
    "F71": info("latin1.vrt"), "F72": info("zeros.tif"), "F73": info("."), "F74": info("write.gdalg.json"),
    # contents of vectors
    "G02": features("laughs.kml"), "G05": features("xxe.kml"), "G10": features("wide.csv"), "G11": features("injection.geojson"),
    "G13": features("ogr_abs.vrt"), "G16": features("ogr_pg.vrt"), "G17": features("passwd.gdalg.json"), "G20": features("endless.gpkg"),
    "G21": info("endless.gpkg"), "G22": features("endless.sqlite"),
    # arguments
    "A07": driver_option("raster", "PDF", "o.pdf", "OGR_DATASOURCE=CSV:/etc/passwd"),
    "A08": driver_option("raster", "PDF", "o.pdf", "COMPOSITION_FILE=comp.xml"),
    "A09": driver_option("raster", "PDF", "o.pdf", "JAVASCRIPT_FILE=/etc/passwd"),
    "A12": driver_option("raster", "PDS4", "o.xml", "IMAGE_FILENAME=/tmp/evil.img"),
    "A14": driver_option("vector", "MVT", "o.mvt", "TEMPORARY_DB=victim.csv"),
    "A17": driver_option("vector", "MapML", "o.mapml", "HEAD=/etc/passwd"),
    "A18": opened("raster", "ok.vrt", "ROOT_PATH=/outside"),
    "A19": opened("vector", "zones.gpkg", "PRELUDE_STATEMENTS=ATTACH DATABASE '/outside/x' AS a"),
    "A20": opened("vector", "zones.gpkg", "PRELUDE_STATEMENTS=SELECT load_extension('/ws/e.so')"),
    "A21": opened("vector", "zones.gpkg", "ADBC_DRIVER=canary.so"),
    "A22": opened("vector", "link.gml", "XSD=/etc/passwd"),
    "A23": features("template-new.gml"),
    "A24": [read("raster info", input="ok.tif", stats=True)],
    "A32": crs("/etc/passwd"), "A33": crs("http://169.254.169.254/x"), "A34": crs("DICT:/etc/passwd,1"),
    "A35": crs("+proj=longlat +nadgrids=/etc/passwd"), "A36": crs("+init=/etc/passwd:root"), "A37": crs("+proj=longlat +ellps=WGS84 +geoidgrids=/vsicurl/x"),
    "A43": sql("SELECT * FROM '/etc/passwd'.passwd", "OGRSQL"),
    "A44": sql("SELECT a.*, b.* FROM zones a LEFT JOIN 'CSV:/etc/passwd'.passwd b ON a.name = b.field_1", "OGRSQL"),
    "A45": sql("SELECT load_extension('/ws/e.so')", "SQLITE"), "A46": sql("SELECT ogr_datasource_load_layers('CSV:/etc/passwd')", "SQLITE"),
    "A48": sql("ATTACH DATABASE 'PWNED_ATT.db' AS a", "SQLITE"), "A49": sql("SELECT gdal_get_pixel_value('ok.tif', 1, 'pixel', 1, 1)", "SQLITE"),
    "A50": sql("SELECT BlobFromFile('/etc/passwd')", "SQLITE"), "A51": sql("CREATE VIRTUAL TABLE t USING VirtualOGR('CSV:/etc/passwd')", "SQLITE"),
    "A53": sql("SELECT * FROM pragma_database_list", "SQLITE", "a53.gpkg"), "A54": sql("SELECT readfile('/etc/passwd')", "SQLITE"),
    "A57": [write("vector sql", input="zones.gpkg", sql=["DELETE FROM zones"], update=True), *sql("DELETE FROM zones", "SQLITE")],
    "A58": sql("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "SQLITE"),
    "A59": sql("SELECT zeroblob(900000000)", "SQLITE", "a59.gpkg"),
    "A69": [write("raster convert", input="ok.tif", output="o.gdalg.json", output_format="GDALG")],
    "A70": [write("raster convert", input="ok.tif", output="a70.vrt", output_format="VRT")],
    "A74": [write("raster convert", input="ok.tif", output="-rf.tif")],
    "A88": [write("pipeline", pipeline="external.gdalg.json"), ("pipeline", {"steps": "external.gdalg.json"})],
    "A94": info("ok.tif"), "A95": info("ok.tif"),
    "A96": [("gdalinfo", {"dataset": "-oo"}), ("gdalinfo", {"dataset": "ok.tif", "extra_args": ["-oo", "X=Y"]})],
    "A97": [("gdalwarp", {"src_datasets": ["ok.tif"], "t_srs": "EPSG:4326", "cutline": "CSV:/etc/passwd"})],
    "A98": [("gdalwarp", {"src_datasets": ["ok.tif"], "t_srs": "EPSG:4326", "cutline": "PG:host=127.0.0.1"})],
    "A99": [("gdalbuildvrt", {"src_datasets": ["@inputs.txt"]}), ("gdalbuildvrt", {"src_datasets": ["-input_file_list", "inputs.txt"]})],
    "A101": [("gdal_rasterize", {"src_vector": "zones.gpkg", "dst_raster": "ok.tif", "burn_value": 9, "width": 5, "height": 5})],
    "A102": [("gdal_merge", {"src_datasets": ["--optfile", "inputs.txt"]})],
    "A103": [("gdal_translate", {"src_dataset": "<VRTDataset/>"})],
    "A104": [("gdal2xyz", {"dataset": "ok.tif", "dst_csv": "a104.csv"})],
    "A105": [("gdal_polygonize", {"src_dataset": "ok.tif", "mask": "../outside/secret.tif"})],
    "A107": [("gdalwarp", {"src_datasets": ["ok.tif"], "dst_dataset": "ok.tif", "t_srs": "EPSG:4326"})],
    "A108": [("gdal_translate", {"src_dataset": "ok.tif", "dst_dataset": "ok.tif"})],
    "A112": [write("raster convert", input="ok.vrt", output="a112.vrt", output_format="VRT")],
    "A113": [write("raster index", input=["ok.tif"], output="a113.gpkg", source_crs_field_name="http://127.0.0.1/")],
    "A114": [write("raster index", input=["."], recursive=True, output="a114.gpkg")],
    # content to code, second order
    "X02": features("so-odbc.geojson"), "X03": features("so-mssql.vrt"), "X04": features("so-adbc.vrt"),
    "X07": [write("raster convert", input=f"mrf-{which}-in.vrt", output=f"x07-{which}.tif") for which in ("passwd", "secret")],
    "X08": [write("mdim convert", input=f"kerchunk-{which}.json", array=["/a"], output=f"x08-{which}.nc") for which in ("passwd", "secret")],
    "X10": [write("raster convert", input="wms-picture.xml", output="x10.tif"), write("raster convert", input="wms_file.xml", output="x10b.tif")],
    "X12": [write("vsi delete", filename="ln_dir", recursive=True), ARGUMENTS["X12"]],
    "X13": [ARGUMENTS["X13"], ARGUMENTS["X13b"]],
    "X16": [write("dataset delete", filename=["x16.vrt"])],
    "X20": [write("dataset copy", source="ok.vrt", destination="x20.vrt")],
    "X22": [write("raster convert", input="dem.tif", output="x22.vrt", overwrite=True)],
    "X24": [write("raster edit", dataset="x24.vrt", nodata="1")],
    # resources
    "R05": [write("raster resize", input="dem.tif", output="r05.tif", size=["60000", "60000"], creation_option=["COMPRESS=ZSTD"])],
    "R07": [write("raster contour", input="dem.tif", output="r07.gpkg", interval=1e-6)],
    "R08": [write("vector buffer", input="zones.gpkg", output="r08.gpkg", distance=100, quadrant_segments=1_000_000_000)],
    "R09": [write("vector segmentize", input="zones.gpkg", output="r09.gpkg", max_length=1e-12)],
    "R12": [write("raster reproject", input="dem.tif", output="r12.tif", output_crs="EPSG:4326", num_threads="10000")],
    "R15": [write("raster convert", input="dem.tif", output="/vsistdout/")],
    "R16": [("gdal2xyz", {"dataset": "vrt_huge.vrt", "dst_csv": "r16.csv"})],
    "R17": info("chain"),
    "R18": [write("raster convert", input="ok.tif", output="/tmp/x.tif")],
    "R19": [write("raster viewshed", input="dem.tif", output="r19.tif", position=[441_000, 3_749_500])],
    "R21": [write("raster calc", input=["A=ok.tif"], calc=["(" * 500 + "A" + ")" * 500], output="r21.tif")],
    "R24": [steps("read ok.tif ! " + "scale ! " * 40 + "write r24.tif")],
    "R25": [("gdal_merge", {"src_datasets": ["ok.tif"], "ul_lr": [0, 9e9, 9e9, 0], "dst_dataset": "r25.tif"})],
    "R27": [write("raster overview add", input="r27.tif", levels=[2] * 50)],
    "R29": [("vector_convert", {"input": "flood.geojson", "output": "r29.gpkg"})],
    "R30": [write("raster convert", input="large.vrt", output="r30.jp2")],
}  # fmt: skip
