"""The attacks by their ids, with the calls that try each one and the required result."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.e2e.mcp.hostile_files import LONGEST

Call = tuple[str, dict[str, Any]]


def tool(name: str, /, **arguments: Any) -> Call:
    return name, arguments


def read(algorithm: str, /, **arguments: Any) -> Call:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return "gdal_read", {"algorithm": algorithm, "arguments": named}


def write(algorithm: str, /, **arguments: Any) -> Call:
    return "gdal_write", read(algorithm, **arguments)[1]


def info(path: str, **more: Any) -> Call:
    return tool("info", path=path, **more)


def features(path: str) -> Call:
    return read("vector info", input=path, features=True)


def steps(text: str) -> Call:
    return tool("pipeline", steps=text)


def sql(statement: str, dialect: str, output: str = "sql.gpkg") -> Call:
    return write("vector sql", input="zones.gpkg", output=output, sql=[statement], dialect=dialect)


def crs(text: str, **more: Any) -> Call:
    return write("raster reproject", **OUT, output_crs=text, **more)


def converted(
    source: str, output: str, *, kind: str = "raster", to: str = "", **options: str
) -> tuple[Call, Call]:
    """The same conversion by the algorithm and by its tool, with creation options."""
    arguments = {"input": source, "output": output, **({"output_format": to} if to else {})}
    named = {"creation_option": [f"{name}={value}" for name, value in options.items()]} if options else {}
    tabled = {"creation_options": options} if options else {}
    return write(f"{kind} convert", **arguments, **named), tool("convert", **arguments, **tabled)


def calculated(formula: str, *, of: str = "A=ok.tif", output: str = "out.tif", **more: Any) -> Call:
    return write("raster calc", input=[of], calc=[formula], output=output, **more)


def filtered(where: str) -> Call:
    return write("vector filter", input="zones.gpkg", output="x.gpkg", where=where)


def deleted(*names: str) -> list[Call]:
    return [write("vsi delete", filename=name, recursive=True) for name in names]


@dataclass(frozen=True)
class Attack:
    """One attack. The letter is the way that each of its calls must end."""

    letter: str
    says: str
    calls: tuple[Call, ...]


def _attack(letter: str, says: str, *calls: Call) -> Attack:
    return Attack(letter, says, calls)


V = partial(_attack, "V")  # refused before a container is started
S = partial(_attack, "S")  # run in a container, where it reaches nothing
A = partial(_attack, "A")  # succeeds and does no harm
K = partial(_attack, "K")  # ended by a limit, before or while it runs
# refused because it would exceed a limit, from its arguments or from the description of its inputs
F = partial(_attack, "F")

OUT = {"input": "ok.tif", "output": "out.tif"}
DEM = {"input": "dem.tif", "output": "out.tif"}
# all in one call; GDAL splits a list of names itself, so names with a comma or a quotation mark are not possible
LISTED = [
    "ln_inside.tif", "a b.tif", "$(id).tif", "`id`.tif", "back\\slash.tif", "\uff0e\uff0e\uff0fx.tif", "caf\u00e9.tif", LONGEST, "-oo.tif",
    "PG:host=x.tif", ".//./ok.tif", "sub/../ok.tif", "ok.tif?bands=1", "star*.tif", "[x].tif", "100%.tif", "--config", "semi;colon.tif",
]  # fmt: skip
TOGETHER = read("dataset identify", filename=LISTED)

TABLE: dict[str, Attack] = {
    # paths
    "P01": V("the parent of the workspace", info("../outside/secret.tif")),
    "P02": V("an absolute path elsewhere", info("/etc/passwd")),
    "P04": V("through a link to a folder elsewhere", info("ln_dir/secret.tif")),
    "P05": V("a link with an absolute target elsewhere", info("ln_abs.tif")),
    "P06": V("a link with a relative target elsewhere", info("ln_rel.tif")),
    "P07": V("a link to a password file, read as a table", info("ln_passwd.csv")),
    "P08": V("a link to the environment of a process", info("ln_environ.csv")),
    "P09": V("a link to the root of the file system", info("ln_root/etc/passwd")),
    "P10": V("a link to itself", info("ln_loop.tif")),
    "P11": A("a link that stays inside", TOGETHER),
    "P12": V("an output through a link whose target does not exist", *converted("ok.tif", "ln_dangling.tif")),
    "P13": V("an output through a link to a file elsewhere",
        write("raster convert", input="ok.tif", output="ln_rel.tif", overwrite=True), tool("convert", input="ok.tif", output="ln_rel.tif")),
    "P14": V("an output through a link that stays inside",
        write("raster convert", input="ok.tif", output="ln_inside.tif", overwrite=True), tool("convert", input="ok.tif", output="ln_inside.tif")),
    "P15": V("a zero byte", info("ok.tif\x00.png")),
    "P16": V("a line break", info("new\nline.tif")),
    "P19": A("a space", TOGETHER, steps('read "a b.tif" ! info')),
    "P20": A("quotation marks", info('quote\'"x.tif')),
    "P21": A("a dollar and brackets, as a shell would run them", TOGETHER, steps('read "$(id).tif" ! info')),
    "P22": A("backquotes", TOGETHER),
    "P24": A("a backslash", TOGETHER),
    "P25": A("full-width dots and a full-width slash", TOGETHER),
    "P26": V("dots and slashes in percent signs", info("%2e%2e%2foutside/secret.tif")),
    "P27": A("a letter with an accent", TOGETHER),
    "P29": A("a name of 255 bytes", TOGETHER),
    "P30": V("a name of 256 bytes", info("L" * 252 + ".tif")),
    "P32": V("a path of 5000 bytes", info("x/" * 2500)),
    "P33": A("a file whose name looks like an option", TOGETHER),
    "P34": V("a name that looks like an option, of no file", info("-ootif"), read("raster info", input="-oo"), steps("read -oo ! info")),
    "P35": V("the general option --config for an input", write("raster convert", input="--config", output="CPL_LOG=/tmp/PWNED")),
    "P36": V("the general option --config for a value",
        write("raster convert", **OUT, creation_option=["--config", "CPL_LOG=/tmp/PWNED"]),
        tool("convert", **OUT, creation_options=["--config", "CPL_LOG=/tmp/PWNED"])),
    "P38": V("two dashes, which end nothing in GDAL", info("--")),
    "P39": V("--optfile, which reads arguments from a file", info("--optfile"), read("raster info", input="ok.tif", optfile="inputs.txt")),
    "P40": V("--pause, which waits for standard input", info("--pause")),
    "P41": V("--mempreload, which copies a folder into memory", info("--mempreload")),
    "P42": V("a question mark, which asks for completions", info("?"),
        write("raster convert", **OUT, output_format="?"), write("raster convert", **OUT, creation_option=["COMPRESS=?"])),
    "P43": V("a completion behind a path", info("ok.tif=?")),
    "P45": V("a comma, which parts a packed list",
        read("dataset identify", filename=["comma,../outside/secret.tif"]), write("raster overview refresh", input="ok.tif", like=["ok.tif,/etc/passwd"])),
    "P46": A("a file named like a database connection", TOGETHER),
    "P47": V("a database connection where a path is expected", read("raster info", input="PG:host=127.0.0.1 dbname=x")),
    "P49": V("a pipe that nobody writes to", info("fifo.tif")),
    "P50": V("a device without an end", info("/dev/zero")),
    "P52": V("a descriptor of the process", info("/proc/self/fd/0")),
    "P53": V("a name that is no text", info("bad\ufffd\ufffdutf8.tif")),
    "P55": S("a folder that is no dataset", info("sub")),
    "P56": V("a slash behind a file", info("ok.tif/")),
    "P57": A("doubled slashes and single dots", TOGETHER),
    "P58": A("two dots that stay inside", TOGETHER),
    "P59": A("a file named like a query", TOGETHER),
    "P60": V("a tilde", info("~/x.tif")),
    "P61": V("a link to the records of the server", info("ln_state/audit.jsonl")),
    "P62": V("the server's own folder in the workspace", info(".gdal-mcp/lock")),
    "P63": V("two dots behind a folder", info("sub/../../outside/secret.tif")),
    "P64": V("a file URI elsewhere", info("file:///etc/passwd")),
    "P65": V("a file URI of another host", info("file://host/share/ok.tif")),
    "P66": A("a file named with a star", TOGETHER),
    "P67": A("a file named with brackets", TOGETHER),
    "P68": A("a file named with a percent sign", TOGETHER),
    "P69": A("a file named --config", TOGETHER),
    "P70": A("a file named with a comma", info("comma,name.tif"), steps('read "comma,name.tif" ! info')),
    "P71": A("a file named with a semicolon", TOGETHER, steps('read "semi;colon.tif" ! info')),
    "P72": A("outputs whose names leave no room for those of companions", write("raster convert", input="ok.tif", output="o" * 251 + ".tif"),
        write("vector convert", input="zones.gpkg", output="o" * 251 + ".shp")),
    # names of raster datasets
    "D02": V("Amazon's object store", info("/vsis3/bucket/x.tif")),
    "D04": V("Azure's object store", info("/vsiaz/c/x.tif")),
    "D05": V("a Hadoop file system", info("/vsihdfs/x")),
    "D06": V("an address of the link-local network", info("http://169.254.169.254/x.tif")),
    "D09": A("an archive in the workspace", info("/vsizip/ok.zip/ok.tif"), info("/vsizip/{ok.zip}/folder/in.tif"), info("/vsitar/links.tar/ok.tif")),
    "D11": V("an archive elsewhere", info("/vsizip//outside/x.zip/a.tif")),
    "D12": S("a name in an archive that leads out of it", info("/vsizip/slip.zip/etc/PWNED.tif"), info("/vsizip/slip.zip/outside/secret.tif")),
    "D13": S("a link in an archive", info("/vsitar/links.tar/secret.tif")),
    "D14": A("an archive of such names, listed and packed again", read("vsi sozip list", input="slip.zip"), write("vsi sozip optimize", input=["slip.zip"], output="again.zip")),
    "D16": V("standard input with a query", info("/vsistdin?buffer_limit=-1")),
    "D17": V("GDAL's memory files", info("/vsimem/x.tif")),
    "D19": V("an encrypted file system around a file", info("/vsicrypt/key=00,file=/etc/passwd")),
    "D20": V("a cache around a file", info("/vsicached?file=ok.tif")),
    "D21": V("chunks that a JSON file refers to", info("/vsikerchunk_json_ref/{kerchunk.json}/a/0.0")),
    "D22": V("a virtual dataset as a name", info("vrt://ok.tif?bands=1,1")),
    "D23": V("a virtual dataset around a file elsewhere", info("vrt:///outside/secret.tif?bands=1")),
    "D25": V("a web map service as a document", info("<GDAL_WMS><Service name='TMS'><ServerUrl>http://127.0.0.1/${z}</ServerUrl></Service></GDAL_WMS>")),
    "D26": V("a web map service by prefix", info("WMS:http://127.0.0.1/?SERVICE=WMS")),
    "D27": V("a tile service by prefix", info("WMTS:http://127.0.0.1/")),
    "D29": V("a part of a file elsewhere", info('NETCDF:"/etc/passwd":v')),
    "D30": V("a part of a remote file", info('NETCDF:"http://127.0.0.1/x":v')),
    "D31": V("a part of an HDF5 file elsewhere", info('HDF5:"/outside/x.h5"://a')),
    "D35": V("a remote array store", info('ZARR:"/vsicurl/http://127.0.0.1/x.zarr"')),
    "D36": V("an array store of references", info('ZARR:"/vsikerchunk_json_ref/{kerchunk.json}":/a')),
    "D37": A("a derived dataset of a file in the workspace", info("DERIVED_SUBDATASET:AMPLITUDE:ok.tif")),
    "D40": V("memory of the process by its address", info("MEM:::DATAPOINTER=4194304,PIXELS=16,LINES=16")),
    "D41": V("a database by prefix", info("PG:host=127.0.0.1 dbname=x table=t")),
    "D42": V("a remote file with the address encoded", info("/vsicurl?url=http%3A%2F%2F127.0.0.1%2Fx.mbtiles")),
    "D43": V("a vendor's service", info("EEDAI:x")),
    "D44": V("a web service by prefix", info("OGCAPI:http://127.0.0.1/")),
    "D45": V("another vendor's service", info("DAAS:http://127.0.0.1/")),
    "D46": V("a mosaic service", info("PLMOSAIC:")),
    "D47": V("pixels at an offset of any file", info("JPEG_SUBDATASET:1,1,/etc/passwd")),
    "D48": V("an image in any file", info("NITF_IM:0:/etc/passwd")),
    "D49": V("a calibration of any file", info("RADARSAT_2_CALIB:UNCALIB:/etc/passwd")),
    "D50": V("a catalogue as a document", info('{"type":"FeatureCollection","stac_version":"1.0.0","features":[]}')),
    # names of vector datasets
    "E01": V("a PostgreSQL database", features("PG:host=127.0.0.1 port=5432 dbname=x")),
    "E02": V("a MySQL database", features("MYSQL:x,host=127.0.0.1")),
    "E04": V("an ODBC source, which loads a library", features("ODBC:x")),
    "E09": V("a catalogue service", features("CSW:http://127.0.0.1")),
    "E10": V("a cloud service with an account", features("CARTO:x")),
    "E11": V("a web GIS", features("NGW:http://127.0.0.1/resource/1")),
    "E13": V("a geometry as a document", features('{"type":"Point","coordinates":[2,49]}')),
    "E14": V("a driver's prefix before a path elsewhere", features("GEOJSON:/etc/passwd")),
    "E15": V("features from an address", features("GEOJSONSeq:http://127.0.0.1/x")),
    "E16": V("a vendor's JSON from an address", features("ESRIJSON:http://127.0.0.1/x")),
    "E17": V("a topology from an address", features("TopoJSON:http://127.0.0.1/x")),
    "E18": V("a tile elsewhere", features("MVT:/etc/passwd")),
    "E19": V("tiles from an address", features("MVT:http://127.0.0.1/0")),
    "E20": V("a document with a schema of its own", features("GMLAS:/etc/passwd")),
    "E21": V("a program that is started", features("GPSBABEL:gpx:/etc/passwd")),
    "E22": V("a database driver that is loaded", features("ADBC:x")),
    "E23": A("one layer of a database in the workspace", info("GPKG:zones.gpkg:zones")),
    "E25": V("standard input", features("/vsistdin/")),
    "E26": V("a virtual dataset as a document", features("<OGRVRTDataSource><OGRVRTLayer name='p'><SrcDataSource>CSV:/etc/passwd</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>")),
    "E27": V("a coverage elsewhere", features("AVCE00:/etc/passwd")),
    "E28": V("a drawing elsewhere", features("CAD:/etc/passwd")),
    "E29": V("a network of datasets", features("GNM:x")),
    "E30": V("a workbook elsewhere", features("XLS:/etc/passwd")),
    "E33": S("a folder read as layers", features("sub")),
    "E34": V("an archive elsewhere read as layers", features("/vsizip//outside/slip.zip")),
    # contents of rasters and archives
    "F01": S("a virtual raster of an absolute path elsewhere", info("vrt_abs.vrt")),
    "F02": S("the same by a relative path", info("vrt_rel.vrt")),
    "F03": S("the same under the name of a picture", info("vrt_innocent.tif")),
    "F04": S("raw bytes of a password file as a band", info("vrt-raw-passwd.vrt")),
    "F06": S("raw bytes of a device as a band", info("vrt_zero.vrt")),
    "F07": A("raw bytes of a file beside it as a band", info("vrt-raw-inside.vrt")),
    "F09": S("standard input as a source", info("vrt_stdin.vrt")),
    "F10": S("Python in a pixel function", info("vrt_python.vrt")),
    "F11": A("two thousand million pixels square, described", info("vrt_huge.vrt")),
    "F12": S("the same, with statistics", read("raster info", input="vrt_huge.vrt", stats=True)),
    "F13": K("pixels without an end, summed", read("raster info", input="vrt-busy.vrt", checksum=True)),
    "F17": S("two hundred descriptions, each naming the next", info("chain/c000.vrt")),
    "F18": S("entities within entities", info("laughs.vrt")),
    "F19": S("twenty thousand elements within each other", info("deep.vrt")),
    "F21": A("a picture that says it is far larger than its bytes", info("bad_dims.tif")),
    "F23": A("a directory of a TIFF that names itself", info("ifd_loop.tif")),
    "F24": S("a file that was cut off", info("trunc.tif")),
    "F31": A("orders to a model and terminal codes in the metadata", info("injection.vrt")),
    "F32": A("the same in a report as text", info("injection.vrt", format="text")),
    "F33": S("a tile index elsewhere", info("gti.gti")),
    "F34": S("a web map service whose address is a file", info("wms_file.xml")),
    "F35": S("a web map service", info("wms_http.xml")),
    "F36": S("pixels in a password file", write("raster convert", input="mrf-passwd.mrf", output="f36.tif")),
    "F37": S("a label whose image is a password file", info("pds-passwd.lbl")),
    "F40": S("references to bytes of other files", info("kerchunk.json")),
    "F44": A("a pipeline as a file that reads its neighbour", info("ok.gdalg.json")),
    "F45": S("tiles by a template of paths elsewhere", info("stacta.json")),
    "F46": S("assets elsewhere", info("stacit.json")),
    "F47": S("an archive that is no dataset", info("bomb.zip")),
    "F60": A("pixels that are far more than their archive", read("raster info", input="/vsizip/bomb.zip/zeros.bil", checksum=True)),
    "F71": S("bytes that are no text in a description", info("latin1.vrt")),
    "F72": S("nothing but zeros", info("zeros.tif")),
    "F73": S("the workspace itself as a dataset", info(".")),
    "F74": S("a pipeline as a file that writes", info("write.gdalg.json")),
    # contents of vectors
    "G02": S("entities within entities in a KML file", features("laughs.kml")),
    "G05": S("an entity that is a file elsewhere", features("xxe.kml")),
    "G10": A("twenty thousand columns", features("wide.csv")),
    "G11": A("orders to a model in names and values", features("injection.geojson")),
    "G13": S("a virtual layer of a file elsewhere", features("ogr_abs.vrt")),
    "G16": S("a virtual layer of a database", features("ogr_pg.vrt")),
    "G17": S("a pipeline as a file that reads a password file", features("passwd.gdalg.json")),
    "G20": K("a view without an end, read", features("endless.gpkg")),
    "G21": K("a view without an end, counted", info("endless.gpkg")),
    "G22": S("a view that opens other files", features("endless.sqlite")),
    # arguments
    "A01": V("a general option as an argument, as an object", read("raster info", input="ok.tif", config={"GDAL_SKIP": ""})),
    "A02": V("a library for Python by a general option",
        read("raster info", input="ok.tif", config=["PYTHONSO=/ws/evil.so"]), tool("convert", **OUT, extra_args=["--config", "PYTHONSO=/ws/evil.so"])),
    "A03": V("a general option behind the name of an algorithm", read("raster info --config CPL_LOG=/tmp/PWNED", input="ok.tif")),
    "A04": V("a general option as the name of an algorithm", read("--config", input="ok.tif")),
    "A05": V("a general option as the name of an argument", read("raster info", **{"input": "ok.tif", "--config": "CPL_LOG=/tmp/PWNED"})),
    "A06": V("a log file by a general option, in every spelling",
        info("ok.tif", config={"CPL_LOG": "/tmp/PWNED"}), read("raster info", **{"input": "ok.tif", "config=CPL_LOG": "/tmp/PWNED"}),
        steps("read --config=CPL_LOG=/tmp/PWNED ok.tif ! info"), steps("read ok.tif --config CPL_LOG=/tmp/PWNED ! info"), steps("--config CPL_LOG=/tmp/PWNED read ok.tif ! info"),
        steps("read ok.tif ! --config=CPL_LOG=/tmp/PWNED ! info"),
        tool("pipeline", steps=[{"step": "read", "arguments": {"input": "ok.tif", "config": ["CPL_LOG=/tmp/PWNED"]}}, {"step": "info"}]),
        tool("reproject", **OUT, dst_crs="EPSG:3857", extra_args=["--config=CPL_LOG=ok.csv"])),
    "A07": V("a vector dataset drawn into a PDF", *converted("ok.tif", "o.pdf", to="PDF", OGR_DATASOURCE="CSV:/etc/passwd")),
    "A08": V("a composition for a PDF", *converted("ok.tif", "o.pdf", to="PDF", COMPOSITION_FILE="comp.xml")),
    "A09": V("a file embedded in a PDF", *converted("ok.tif", "o.pdf", to="PDF", JAVASCRIPT_FILE="/etc/passwd")),
    "A12": V("a second output by an option", *converted("ok.tif", "o.xml", to="PDS4", IMAGE_FILENAME="/tmp/evil.img")),
    "A14": V("a temporary file that is deleted, by an option",
        write("vector convert", input="zones.gpkg", output="o.mvt", output_format="MVT", creation_option=["TEMPORARY_DB=victim.csv"]),
        tool("convert", input="zones.gpkg", output="o.mvt", output_format="MVT", creation_options={"TEMPORARY_DB": "ok.tif"})),
    "A15": V("a second output by an option of another format", tool("convert", input="ok.tif", output="o.mrf", output_format="MRF", creation_options={"DATANAME": "ok.tif"})),
    "A17": V("a file copied into a document by an option", *converted("zones.gpkg", "o.mapml", kind="vector", to="MapML", HEAD="/etc/passwd")),
    "A18": V("another folder for the sources of a virtual raster",
        read("raster info", input="ok.vrt", open_option=["ROOT_PATH=/outside"]), tool("convert", **OUT, extra_args=["--open-option=ROOT_PATH=/outside"])),
    "A19": V("SQL ahead of the reading that attaches a file",
        read("vector info", input="zones.gpkg", open_option=["PRELUDE_STATEMENTS=ATTACH DATABASE '/outside/x' AS a"]),
        tool("convert", input="zones.gpkg", output="o.gpkg", extra_args=["--open-option=PRELUDE_STATEMENTS=ATTACH DATABASE 'x' AS a"])),
    "A20": V("SQL ahead of the reading that loads a library", read("vector info", input="zones.gpkg", open_option=["PRELUDE_STATEMENTS=SELECT load_extension('/ws/e.so')"])),
    "A21": V("a database driver by an option",
        read("vector info", input="zones.gpkg", open_option=["ADBC_DRIVER=canary.so"]),
        tool("convert", input="zones.gpkg", output="o.gpkg", extra_args=["--oo=ADBC_DRIVER=evil.so"])),
    "A22": V("a schema elsewhere by an option",
        read("vector info", input="link.gml", open_option=["XSD=/etc/passwd"]), tool("convert", input="xxe.gml", output="o.gpkg", extra_args=["--oo", "XSD=/etc/passwd"])),
    "A23": A("a reader that writes a template beside its input", features("template-new.gml")),
    "A24": A("statistics that would be written beside the input", read("raster info", input="ok.tif", stats=True)),
    "A25": V("a condition from a file",
        read("vector info", input="zones.gpkg", where="@/etc/passwd"), write("raster clip", **OUT, like="zones.gpkg", like_where="@/etc/passwd"),
        filtered("@inputs.txt"), filtered(" @../outside/secret.txt"), filtered("fid IN (SELECT fid FROM '/etc/passwd')"), filtered("load_extension('evil.so')")),
    "A26": V("a statement from a file", write("vector sql", input="zones.gpkg", output="x.gpkg", sql=["@/etc/passwd"])),
    "A27": V("a mapping from a file",
        write("raster reclassify", **OUT, mapping="@/etc/passwd"), write("raster reclassify", **OUT, mapping="@inputs.txt")),
    "A28": V("control points from a file", write("raster edit", dataset="dem.tif", gcp=["@/etc/passwd"])),
    "A29": V("a schema from a file", write("vector create", output="x.gpkg", schema="@/etc/passwd"), write("vector create", output="x.gpkg", schema="@inputs.txt")),
    "A30": V("an input with a name before a path elsewhere",
        calculated("A", of="A=/etc/passwd"), calculated("A", of="A=../outside/secret.tif"), calculated("A", of="A=[ read /etc/passwd ]"),
        calculated("X", of="[ read ok.tif ! external --command x ]"), calculated("A", of="--config=x")),
    "A31": V("a formula that calls what it should not",
        calculated("A + gdal_get_pixel_value('/etc/passwd')"), calculated("@/etc/passwd"),
        calculated("var x := 1; while (true) { x += 1 }", dialect="muparser")),
    "A32": V("a CRS from a file",
        crs("/etc/passwd"), crs("+init=/etc/passwd:root"),
        crs("inputs.txt"), crs("file:///etc/passwd"), crs("@/etc/passwd"), crs("ESRI::/etc/passwd"),
        crs("URL:http://192.0.2.1"), crs("IGNF:/etc/passwd"), crs("urn:ogc:def:crs,crs:EPSG::4326,cs:/etc/passwd"), crs("+proj=pipeline +step +proj=hgridshift +grids=/etc/passwd"),
        crs("+proj=longlat +nadgrids=@null +file=/etc/passwd"), crs("+proj=longlat\n+nadgrids=x"), crs("OSR:http://192.0.2.1"), crs("--config"),
        tool("reproject", **OUT, dst_crs="/etc/passwd")),
    "A33": V("a CRS from an address",
        crs("http://169.254.169.254/x"), read("raster pixel-info", input="ok.tif", position=[1, 1], position_crs="http://192.0.2.1"),
        write("vector reproject", input="zones.gpkg", output="x.gpkg", output_crs="EPSG:4326", input_crs="/etc/passwd"), write("raster edit", dataset="dem.tif", crs="/etc/passwd"),
        write("raster clip", **OUT, bbox=[0, 0, 1, 1], bbox_crs="/etc/passwd"), tool("reproject", **OUT, dst_crs="http://169.254.169.254/x")),
    "A34": V("a CRS from a dictionary file", crs("DICT:/etc/passwd,1"), tool("reproject", **OUT, dst_crs="DICT:/etc/passwd,1")),
    "A35": V("a CRS with a grid elsewhere", crs("+proj=longlat +nadgrids=/etc/passwd"), tool("reproject", **OUT, dst_crs="+proj=longlat +nadgrids=/etc/passwd")),
    "A36": V("a CRS from a PROJ init file", crs("+init=/etc/passwd:root"), tool("reproject", **OUT, dst_crs="+init=/etc/passwd:root")),
    "A37": V("a CRS with a remote geoid",
        crs("+proj=longlat +ellps=WGS84 +geoidgrids=/vsicurl/x"), tool("gdalwarp", src_datasets=["ok.tif"], t_srs="+proj=longlat +ellps=WGS84 +geoidgrids=/vsicurl/x")),
    "A38": V("an operation with a grid elsewhere",
        crs("EPSG:4326", transform_option=["COORDINATE_OPERATION=+proj=hgridshift +grids=/etc/passwd"]), crs("EPSG:4326", transform_option=["RPC_DEM=/etc/passwd"]),
        crs("EPSG:4326", warp_option=["CUTLINE=POLYGON((0 0,1 0,1 1,0 0))", "SRC_ALPHA_MAX=/etc/passwd"]),
        tool("reproject", **OUT, dst_crs="EPSG:4326", transform_options={"COORDINATE_OPERATION": "+proj=hgridshift +grids=/etc/passwd"})),
    "A39": V("the CRS of an extent from a file", tool("reproject", **OUT, dst_crs="EPSG:4326", bbox=[0, 0, 1, 1], bbox_crs="/etc/passwd")),
    "A40": V("colours elsewhere", write("raster color-map", **DEM, color_map="/etc/passwd")),
    "A41": V("a template elsewhere, and tiles elsewhere",
        write("raster tile", input="ok.tif", output="tiles", mapml_template="/etc/passwd"), write("raster tile", input="ok.tif", output="../outside/tiles"),
        write("raster tile", input="ok.tif", output="/tmp/tiles")),
    "A42": A("a statement over the input itself", sql("SELECT name FROM zones WHERE value > 5", "OGRSQL", "a42.geojson")),
    "A43": V("a statement over a file elsewhere", sql("SELECT * FROM '/etc/passwd'.passwd", "OGRSQL")),
    "A44": V("a join with a file elsewhere", sql("SELECT a.*, b.* FROM zones a LEFT JOIN 'CSV:/etc/passwd'.passwd b ON a.name = b.field_1", "OGRSQL")),
    "A45": V("a statement that loads a library", sql("SELECT load_extension('/ws/e.so')", "SQLITE")),
    "A46": V("a statement that opens a file", sql("SELECT ogr_datasource_load_layers('CSV:/etc/passwd')", "SQLITE")),
    "A48": V("a statement that attaches a file", sql("ATTACH DATABASE 'PWNED_ATT.db' AS a", "SQLITE")),
    "A49": V("a statement that reads a pixel of a file", sql("SELECT gdal_get_pixel_value('ok.tif', 1, 'pixel', 1, 1)", "SQLITE")),
    "A50": V("a statement that reads a file", sql("SELECT BlobFromFile('/etc/passwd')", "SQLITE")),
    "A51": V("a statement that makes a virtual table", sql("CREATE VIRTUAL TABLE t USING VirtualOGR('CSV:/etc/passwd')", "SQLITE")),
    "A53": V("a statement that tells where the files are", sql("SELECT * FROM pragma_database_list", "SQLITE", "a53.gpkg")),
    "A54": V("a statement that reads a file by another name", sql("SELECT readfile('/etc/passwd')", "SQLITE")),
    "A55": V("switches that are not for callers",
        write("raster tile", input="ok.tif", output="tiles", forked=True), write("raster tile", input="ok.tif", output="tiles", config_options_in_stdin=True),
        read("raster info", input="ok.tif", stdout=True), read("raster info", input="ok.tif", output_string="x"), read("vector info", input="zones.gpkg", help=True),
        read("vector info", input="zones.gpkg", json_usage=True)),
    "A57": V("a statement that deletes", write("vector sql", input="zones.gpkg", sql=["DELETE FROM zones"], update=True), sql("DELETE FROM zones", "SQLITE")),
    "A58": K("a statement without an end", sql("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "SQLITE")),
    "A59": K("a statement that takes all memory", sql("SELECT zeroblob(900000000)", "SQLITE", "a59.gpkg")),
    "A60": V("standard output as an output", *converted("ok.tif", "/vsistdout/")),
    "A61": V("standard output by another name", write("raster convert", input="ok.tif", output="/vsistdout_redirect/x")),
    "A62": V("the device of standard output", *converted("ok.tif", "/dev/stdout", to="GTiff")),
    "A63": V("the descriptor of standard output", *converted("ok.tif", "/proc/self/fd/1", to="GTiff")),
    "A64": V("a raster database as an output", *converted("ok.tif", "PG:host=127.0.0.1 dbname=x", to="PostGISRaster")),
    "A65": V("a vector database as an output", write("vector convert", input="zones.gpkg", output="PG:host=127.0.0.1", output_format="PostgreSQL")),
    "A66": V("another vector database as an output", write("vector convert", input="zones.gpkg", output="x", output_format="MySQL")),
    "A67": V("a program as an output", write("vector convert", input="zones.gpkg", output="x", output_format="GPSBabel")),
    "A68": V("memory as the output of a raster", write("raster convert", input="ok.tif", output="x", output_format="MEM")),
    "A69": A("a pipeline as an output", write("raster convert", input="ok.tif", output="o.gdalg.json", output_format="GDALG")),
    "A70": A("a description as an output", write("raster convert", input="ok.tif", output="a70.vrt", output_format="VRT")),
    "A71": V("a stream as an output", write("raster convert", input="ok.tif", output="x", output_format="stream")),
    "A73": V("memory as the output of a vector",
        write("vector convert", input="zones.gpkg", output="x", output_format="MEM"), tool("convert", input="ok.tif", output="x", output_format="MEM")),
    "A74": A("an output named like an option", write("raster convert", input="ok.tif", output="-rf.tif")),
    "A75": V("an output in a folder that does not exist", *converted("ok.tif", "a/b/c/x.tif")),
    "A76": V("a list of the root folder", read("vsi list", filename="/"), tool("convert", input="ok.tif", output=".gdal-mcp/x.tif")),
    "A77": V("a list of all processes, and through links",
        read("vsi list", filename="/proc", recursive=True), read("vsi list", filename="symdir", recursive=True), read("vsi list", filename="circle", recursive=True)),
    "A78": V("a copy from elsewhere", write("vsi copy", source="/etc/passwd", destination="p.txt"), tool("gdal_translate", src_dataset="ok.tif", dst_dataset="../outside/x.tif")),
    "A79": V("a copy to elsewhere", write("vsi copy", source="ok.tif", destination="/tmp/p.tif")),
    "A80": V("a copy through a link", write("vsi copy", source="ok.tif", destination="ln_dir/p.tif")),
    "A81": V("a synchronisation to elsewhere", write("vsi sync", source="ok.tif", destination="../outside")),
    "A82": V("a synchronisation from elsewhere", write("vsi sync", source="/etc", destination="x")),
    "A83": V("a move to elsewhere", write("vsi move", source="ok.tif", destination="../outside/PWNED.tif")),
    "A84": V("a deletion elsewhere, of all, of the server's own",
        *deleted("../outside/victim", ".", ".gdal-mcp"), write("vsi delete", filename="ln_dir/secret.txt")),
    "A85": V("an archive of what is elsewhere", write("vsi sozip create", input=["/etc"], output="e.zip"), write("vsi sozip create", input=["symdir"], output="e.zip", recursive=True)),
    "A88": V("a pipeline from a file that runs a program", write("pipeline", pipeline="external.gdalg.json"), steps("external.gdalg.json")),
    "A90": V("an extent like that of a file elsewhere",
        write("raster clip", **OUT, like="/outside/secret.tif"), tool("convert", **OUT, extra_args=["--like=/outside/secret.tif"])),
    "A91": V("a geometry from a file",
        write("raster clip", **OUT, geometry="@/etc/passwd"), write("raster clip", **OUT, geometry="/etc/passwd"),
        write("vector clip", input="zones.gpkg", output="x.gpkg", geometry="<gml:Point xlink:href='file:///etc/passwd'/>"),
        tool("convert", **OUT, extra_args=["@/etc/passwd"])),
    "A92": V("an input within further arguments", tool("convert", **OUT, extra_args=["ok.tif"])),
    "A93": V("an output within further arguments", tool("convert", **OUT, extra_args=["--output=other.tif"])),
    "A94": A("a configuration file in the workspace", info("ok.tif")),
    "A95": A("a database of CRSs in the workspace", info("ok.tif")),
    "A96": V("options within the name of a classic call", tool("gdalinfo", dataset="-oo"), tool("gdalinfo", dataset="ok.tif", extra_args=["-oo", "X=Y"])),
    "A97": V("a cutline elsewhere", tool("gdalwarp", src_datasets=["ok.tif"], t_srs="EPSG:4326", cutline="CSV:/etc/passwd")),
    "A98": V("a cutline in a database", tool("gdalwarp", src_datasets=["ok.tif"], t_srs="EPSG:4326", cutline="PG:host=127.0.0.1")),
    "A99": V("a list of inputs from a file", tool("gdalbuildvrt", src_datasets=["@inputs.txt"]), tool("gdalbuildvrt", src_datasets=["-input_file_list", "inputs.txt"])),
    "A101": V("a burn into an input that is there", tool("gdal_rasterize", src_vector="zones.gpkg", dst_raster="ok.tif", burn_value=9, width=5, height=5)),
    "A102": V("arguments of a classic call from a file", tool("gdal_merge", src_datasets=["--optfile", "inputs.txt"])),
    "A103": V("a document as the input of a classic call", tool("gdal_translate", src_dataset="<VRTDataset/>")),
    "A104": A("points as text", tool("gdal2xyz", dataset="ok.tif", dst_csv="a104.csv")),
    "A105": V("a mask elsewhere", tool("gdal_polygonize", src_dataset="ok.tif", mask="../outside/secret.tif")),
    "A106": V("a general option for the name of a field", tool("gdal_polygonize", src_dataset="ok.tif", field_name="--config")),
    "A107": V("a warp onto its input", write("raster convert", input="ok.tif", output="ok.tif", overwrite=True), tool("gdalwarp", src_datasets=["ok.tif"], dst_dataset="ok.tif", t_srs="EPSG:4326")),
    "A108": V("a copy onto its input",
        write("raster reproject", input="dem.tif", output="./sub/../dem.tif", output_crs="EPSG:4326", overwrite=True), tool("gdal_translate", src_dataset="ok.tif", dst_dataset="ok.tif")),
    "A109": V("a switch for the number of a band", tool("gdal_translate", src_dataset="ok.tif", bands=["-of"])),
    "A110": V("a raster database as an output of a classic call", tool("gdal_translate", src_dataset="ok.tif", output_format="PostGISRaster")),
    "A111": V("a picture without pixels", tool("gdal_rasterize", src_vector="zones.gpkg", burn_value=1, width=0, height=5, extent=[0, 0, 1, 1])),
    "A112": A("a description of a description", write("raster convert", input="ok.vrt", output="a112.vrt", output_format="VRT")),
    "A113": A("an address that is only a text", write("raster index", input=["ok.tif"], output="a113.gpkg", source_crs_field_name="http://127.0.0.1/")),
    "A114": V("an index over a tree of traps",
        write("raster index", input=["symdir"], recursive=True, output="o.gpkg"), write("vector index", input=["."], recursive=True, output="o.gpkg"),
        write("raster index", input=["."], recursive=True, output="a114.gpkg")),
    "A115": V("a pattern of outputs that leads elsewhere",
        write("vector partition", input="zones.gpkg", output="parts", field=["name"], pattern="../../%d"),
        write("vector partition", input="zones.gpkg", output="parts", field=["name"], pattern="/etc/cron.d/%d"),
        write("vector partition", input="zones.gpkg", output="../outside/parts", field=["name"])),
    "A116": V("a second output of a tile index", write("driver gti create", input="ok.tif", output="x.gti.gpkg", xml_filename="../outside/x.gti")),
    "A117": V("a kernel from a file",
        write("raster neighbors", **OUT, kernel=["@/etc/passwd"]), write("raster neighbors", **OUT, kernel=["/etc/passwd"])),
    "A118": V("inputs from a file, by a star, and Python as a function",
        write("raster mosaic", input=["@inputs.txt"], output="x.vrt"), write("raster mosaic", input=["*.tif"], output="x.vrt"),
        write("raster mosaic", input=["ok.tif"], pixel_function="python", pixel_function_arg=["module=/etc/x"], output="x.vrt")),
    "A119": V("a rename, copy or deletion that leads elsewhere",
        write("dataset rename", source="ok.tif", destination="../outside/PWNED.tif"), write("dataset copy", source="ok.tif", destination="/tmp/PWNED.tif"),
        write("dataset delete", filename=["ok.tif", "../outside/secret.tif"]), write("dataset delete", filename=["ok.tif,../outside/secret.tif"])),
    "A120": V("a field named like a path", write("raster index", input="ok.tif", output="o.gpkg", absolute_path=True, source_crs_field_name="../../x\0")),
    # contents that become code, and effects on a second call
    "X02": S("a library as a database driver, under an innocent name", features("so-odbc.geojson")),
    "X03": S("the same by another driver", features("so-mssql.vrt")),
    "X04": S("the same by a third driver", features("so-adbc.vrt")),
    "X07": S("pixels in any file, within a virtual raster, converted",
        write("raster convert", input="mrf-passwd-in.vrt", output="x07-passwd.tif"), write("raster convert", input="mrf-secret-in.vrt", output="x07-secret.tif")),
    "X08": S("references to bytes of any file, converted",
        write("mdim convert", input="kerchunk-passwd.json", array=["/a"], output="x08-passwd.nc"),
        write("mdim convert", input="kerchunk-secret.json", array=["/a"], output="x08-secret.nc")),
    "X10": S("pictures of a web map service that are files, converted",
        write("raster convert", input="wms-picture.xml", output="x10.tif"), write("raster convert", input="wms_file.xml", output="x10b.tif")),
    "X12": V("a deletion through a link", *deleted("ln_dir", "ln_root/etc")),
    "X13": V("a copy of a folder with a link in it",
        write("vsi copy", source="symdir", destination="copied", recursive=True), write("vsi sync", source="symdir/", destination="copied", recursive=True)),
    "X15": V("a general option that switches drivers on again",
        read("raster info", input="ok.tif", config={"GDAL_SKIP": ""}), tool("reproject", **OUT, dst_crs="EPSG:4326", extra_args=["--config", "GDAL_SKIP="])),
    "X16": A("a deletion of a description of other files", write("dataset delete", filename=["x16.vrt"])),
    "X20": A("a copy or another name of a description of other files", write("dataset copy", source="ok.vrt", destination="x20.vrt"), write("dataset rename", source="x20n.vrt", destination="x20r.vrt")),
    "X22": A("an output over a description of other files", write("raster convert", input="dem.tif", output="x22.vrt", overwrite=True)),
    "X24": A("an edit of a description of other files", write("raster edit", dataset="x24.vrt", nodata="1")),
    # resources
    "R01": F("forty thousand million empty pixels", write("raster create", size=[200_000, 200_000], output="big.tif")),
    "R02": F("the same with a value", write("raster create", size=[200_000, 200_000], output="big.tif", burn=[1])),
    "R04": F("a picture made very large",
        write("raster resize", input="dem.tif", output="big.tif", size=["200000", "200000"]), steps("read dem.tif ! resize --size=200000,200000 ! write big.tif")),
    "R05": K("the same, compressed", write("raster resize", input="dem.tif", output="r05.tif", size=["60000", "60000"], creation_option=["COMPRESS=ZSTD"])),
    "R06": F("a very fine resolution", write("raster reproject", input="dem.tif", output="big.tif", output_crs="EPSG:4326", resolution=[1e-07, 1e-07])),
    "R07": S("contours without number", write("raster contour", input="dem.tif", output="r07.gpkg", interval=1e-06)),
    "R08": K("circles of a thousand million corners", write("vector buffer", input="zones.gpkg", output="r08.gpkg", distance=100, quadrant_segments=1_000_000_000)),
    "R09": S("segments without number", write("vector segmentize", input="zones.gpkg", output="r09.gpkg", max_length=1e-12)),
    "R10": F("tiles without number", write("raster tile", input="dem.tif", output="tiles", min_zoom=0, max_zoom=24), steps("read dem.tif ! tile --min-zoom=0 --max-zoom=24 tiles")),
    "R11": F("a burn into a very large picture", write("vector rasterize", input="zones.gpkg", output="big.tif", size=[200_000, 200_000], burn=[1])),
    "R12": V("ten thousand threads", write("raster reproject", input="dem.tif", output="r12.tif", output_crs="EPSG:4326", num_threads="10000")),
    "R13": F("an interpolation into a very large picture", write("vector grid invdist", input="places.geojson", output="big.tif", size=[200_000, 200_000])),
    "R15": V("a flood on standard output", write("raster convert", input="dem.tif", output="/vsistdout/")),
    "R16": K("a flood of text", tool("gdal2xyz", dataset="vrt_huge.vrt", dst_csv="r16.csv")),
    "R17": S("a folder of descriptions", info("chain")),
    "R18": V("a scratch folder filled", write("raster convert", input="ok.tif", output="/tmp/x.tif")),
    "R19": A("a view from a point", write("raster viewshed", input="dem.tif", output="r19.tif", position=[441_000, 3_749_500])),
    "R20": V("a very large kernel", write("raster neighbors", **OUT, kernel=["[" + ",".join(["[" + ",".join(["1"] * 101) + "]"] * 101) + "]"])),
    "R21": S("five hundred brackets", calculated("(" * 500 + "A" + ")" * 500, output="r21.tif")),
    "R23": V("an argument of 130 kB", calculated("1+" * 65_000 + "1")),
    "R24": S("forty steps", steps("read ok.tif ! " + "scale ! " * 40 + "write r24.tif")),
    "R25": V("a mosaic of a made-up extent", tool("gdal_merge", src_datasets=["ok.tif"], ul_lr=[0, 9e9, 9e9, 0], dst_dataset="r25.tif")),
    "R27": A("fifty overview levels", write("raster overview add", input="r27.tif", levels=[2] * 50)),
    "R29": A("twenty thousand features", tool("vector_convert", input="flood.geojson", output="r29.gpkg")),
    "R30": K("nine hundred million pixels in a slow format", write("raster convert", input="large.vrt", output="r30.jp2")),
}  # fmt: skip
