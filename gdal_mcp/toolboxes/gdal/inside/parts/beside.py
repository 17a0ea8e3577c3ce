"""Checks sidecar files and stored facts that can disagree with the data.

Examples are SQLite journals, stored counts and extents, a second position, and old overviews. For each format, this
module defines if such a file is read, and which source an answer is based on if two disagree.
"""

import contextlib
import ctypes
import itertools
import mmap
import os
import re

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import in_degrees
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, quiet, skip

SQLITE = b"SQLite format 3\0"
WRITE_VERSION = 18  # offset of the header byte that is 2 in WAL mode
IN_WAL = 2
WAL_HEADER = 32  # bytes; a -wal file that is not longer than this has no changes
JOURNAL = bytes.fromhex("d9d505f920a163d7")  # the first bytes of an unfinished rollback journal
IMMUTABLE = (
    "Retrying with IMMUTABLE=YES open option"  # end of GDAL's warning about a database without its -wal file
)
RESET = "Type and subtype of field definition are not compatible. Resetting to OFSTNone"
HEIGHTS = "lacks a Z component. You may need to set the 'zfield' argument"
# commands of grids that use only the positions of points
WITHOUT_HEIGHTS = [("grid", name) for name in ("count", "average-distance", "average-distance-points")]
MAX_BYTES = 64 << 20  # bytes of a database whose rows are counted, or of a file whose features are read
MAX_FEATURES = 20_000
# drivers of formats that store facts which can be stale
RASTERS = ("GTiff", "COG", "HFA", "JP2OpenJPEG", "PNG", "JPEG", "AAIGrid", "EHdr", "USGSDEM")
VECTORS = ("GPKG", "ESRI Shapefile", "FlatGeobuf", "SQLite", "GeoJSON", "CSV", "MapInfo File")
WORLD_FILES = ("tfw", "tifw", "tiffw", "wld", "TFW")
# options and commands that measure pixels: their statistics, or their outline
MEASURED = frozenset(
    {"--stats", "--approx-stats", "--min-max", "--hist", "-stats", "zonal-stats", "footprint"}
)
PIXEL = 0.01  # pixels; allowed difference between two positions of one raster
HALF = 180.0  # degrees
NEAR = 1e-6  # fraction of the largest coordinate of an extent

SPANNING = frozenset(
    {"convex-hull", "concave-hull", "grid"}
)  # commands whose result covers what is between features
BY_EXTENT = (
    "rasterize",
    "grid",
    "index",
    "sql",
    "info",
)  # vector commands that may use the extent of a layer


# --- SQLite


def prepare(job, errors):
    """Prepares shapefiles without an index, and SQLite databases with a `-wal` file, so that GDAL can read them.

    The rows of a `-wal` file become readable if there is no `-shm` file and none can be created. SQLite then holds
    the index of the journal in memory, which it does only in exclusive mode and without locks. If there is no `-shm`
    file, no other program has the database open.

    Raises RuntimeError for an unfinished change of a database.
    """
    files = [*filter(os.path.isfile, dict.fromkeys([*job["inputs"], *job.get("sources", ())]))]
    if any(path.lower().endswith(".shp") for path in files):
        job["restored"] = part("restored").restore(job, files)
    for path in files:
        if part("text_files").is_utf16(path):
            raise RuntimeError(
                f"{os.path.basename(path)} is in UTF-16, which GDAL does not read: save it as UTF-8"
            )
    databases = [path for path in files if is_database(path)]
    for path in databases:
        if head(f"{path}-journal", len(JOURNAL)) == JOURNAL:
            raise RuntimeError(
                f"{os.path.basename(path)} has a change beside it that was not finished ({os.path.basename(path)}-journal): open it "
                "once with a program that may write, such as QGIS, which takes the change back, and call again"
            )
    if any(pending(path) and not os.path.exists(f"{path}-shm") for path in databases):
        read_alone()
    errors.ignored = tuple(ignored_endings(job, databases))


def ignored_endings(job, databases):
    """Yields the endings of GDAL's warnings that do not concern this job."""
    if databases:
        yield IMMUTABLE  # the -wal file is read
    if job["program"] == "query":
        yield RESET  # `query` sets types of columns itself
    if any(pair in WITHOUT_HEIGHTS for pair in itertools.pairwise(job.get("options", ()))):
        yield HEIGHTS


def head(path, length=WRITE_VERSION + 1):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(length)
    return b""


def is_database(path):
    return head(path).startswith(SQLITE)


def in_wal_mode(path):
    return is_database(path) and head(path)[WRITE_VERSION:] == bytes([IN_WAL])


def pending(path):
    """True if a database has a `-wal` file with changes."""
    beside = f"{path}-wal"
    return in_wal_mode(path) and os.path.isfile(beside) and os.path.getsize(beside) > WAL_HEADER


def read_alone():
    library = ctypes.CDLL("libsqlite3.so.0")
    library.sqlite3_vfs_find.restype = ctypes.c_void_p
    vfs = library.sqlite3_vfs_find(b"unix-none")
    if not vfs or library.sqlite3_vfs_register(ctypes.c_void_p(vfs), 1):
        raise RuntimeError("SQLite here cannot read a -wal file that has no -shm file beside it")
    gdal.SetConfigOption("OGR_SQLITE_PRAGMA", "locking_mode=EXCLUSIVE")


# --- stored facts about features

# hides the stored counts from GDAL, so that it counts the rows
HIDE_STORED_COUNTS = "CREATE TEMP TABLE gpkg_ogr_contents (table_name TEXT, feature_count INTEGER)"


def stale_counts(path):
    """(layer number, stored count, number of rows) of each layer of a small GeoPackage with a wrong stored count."""
    if not is_database(path):
        return []
    if os.path.getsize(path) > MAX_BYTES:
        skip("stored_count_stale")
        return []
    with quiet():
        dataset = gdal.OpenEx(path, gdal.OF_VECTOR, allowed_drivers=["GPKG"])
        layers = part("tables").layers_of(dataset) if dataset else []
        counts = [
            (number, layer.GetFeatureCount(), rows_of(dataset, layer)) for number, layer in enumerate(layers)
        ]
    if any(None in row for row in counts):
        skip("stored_count_stale")
    return [row for row in counts if None not in row and row[1] != row[2]]


def rows_of(dataset, layer):
    """The number of rows of a layer, counted by SQLite itself; None if that fails.

    GDAL would answer a plain count(*) with the stored number.
    """
    name = layer.GetName().replace('"', '""')
    counted = dataset.ExecuteSQL(f'SELECT count(*) FROM (SELECT 1 FROM "{name}")')  # noqa: S608 - the name of a layer, quoted
    if counted is None:
        return None
    feature = counted.GetNextFeature()
    count = feature.GetFieldAsInteger64(0) if feature is not None else None
    dataset.ReleaseResultSet(counted)
    return count


def stale_extent(layer, *, copies):
    """True if a layer's stored extent differs from that of its features. Skipped if there are too many features.

    A call that copies features needs an extent that contains all of them. It may be larger, as after features were
    deleted.
    """
    if not layer.GetLayerDefn().GetGeomFieldCount() or not layer.TestCapability(ogr.OLCFastGetExtent):
        return False
    stored = layer.GetExtent(can_return_null=True)
    if stored is None:
        return False
    if layer.GetFeatureCount() > MAX_FEATURES:
        skip(*([] if copies else ["stored_extent_stale"]))
        return False
    shapes = (feature.GetGeometryRef() for feature in layer)
    boxes = [shape.GetEnvelope() for shape in shapes if shape is not None and not shape.IsEmpty()]
    layer.ResetReading()
    if not boxes:
        return False
    extent = [pick(edge) for pick, edge in zip((min, max, min, max), zip(*boxes, strict=True), strict=True)]
    slack = NEAR * max(1.0, *(abs(coordinate) for coordinate in extent))
    beyond = [(a - b) * outwards for a, b, outwards in zip(stored, extent, (1, -1, 1, -1), strict=True)]
    return any(distance > slack or (distance < -slack and not copies) for distance in beyond)


def position_checks(number, path, *, chosen):
    """Reports a GeoTIFF with a different position in a sidecar file.

    GDAL prefers the position in an .aux.xml file to that in the GeoTIFF, and that in the GeoTIFF to a world file.
    """
    stem = os.path.splitext(path)[0]
    beside = [f"{path}.aux.xml", *(f"{stem}.{ending}" for ending in WORLD_FILES)]
    if chosen or not path.lower().endswith((".tif", ".tiff")) or not any(map(os.path.isfile, beside)):
        return
    with quiet():
        positions = {name: position_of(path, name) for name in ("PAM", "INTERNAL", "WORLDFILE")}
    own = positions.pop("INTERNAL")
    used, other = (positions["PAM"], own) if positions["PAM"] else (own, positions["WORLDFILE"])
    if not used or not other:
        return
    (transform, crs), (second, its_crs) = used, other
    pixel = max(abs(size) for size in (*transform[1:3], *transform[4:6])) or 1.0
    gap = max(abs(a - b) for a, b in zip(transform, second, strict=True))
    crs_differs = crs is not None and its_crs is not None and not crs.IsSame(its_crs)
    if gap > PIXEL * pixel or crs_differs:
        code = "position_of_sidecar" if positions["PAM"] else "position_of_world_file"
        yield {"code": code, "input": number, "units": gap}


def position_of(path, source):
    dataset = gdal.OpenEx(path, gdal.OF_RASTER, open_options=[f"GEOREF_SOURCES={source}"])
    transform = dataset.GetGeoTransform(can_return_null=True) if dataset is not None else None
    return (transform, dataset.GetSpatialRef()) if transform else None


def antimeridian_parts(layer):
    """West and east, in degrees, of features that lie only around the antimeridian; None for other layers."""
    crs = layer.GetSpatialRef()
    extent = layer.GetExtent(can_return_null=True) if crs is not None else None
    if extent is None or extent[1] - extent[0] <= HALF or not in_degrees(crs):
        return None
    if not layer.TestCapability(ogr.OLCFastFeatureCount) or layer.GetFeatureCount() > MAX_FEATURES:
        skip("antimeridian_parts")
        return None
    survey = part("survey")
    return survey.antimeridian_bbox(survey.Survey(layer, survey.Clock(), kinds=()).part_spans)


def checks(job):
    """Checks each input file for wrong facts that are stored in it or in its sidecar files."""
    yield from ({"code": "index_restored", "input": number} for number in job.get("restored", ()))
    named = "ENCODING=" in " ".join(job.get("options", ()))  # the call chooses the encoding
    for number, path in enumerate(job.get("sources", job["inputs"])):
        if not os.path.isfile(path):
            continue
        for layer, stored, counted in stale_counts(path):
            yield {
                "code": "stored_count_stale",
                "input": number,
                "layer": layer,
                "count": counted,
                "of": stored,
            }
        yield from position_checks(number, path, chosen="GEOREF_SOURCES=" in " ".join(job.get("options", ())))
        yield from (
            finding
            for finding in extent_checks(
                number,
                path,
                reads=not job["outputs"],
                copies=copies_features(job),
                spans_all=not SPANNING.isdisjoint(job.get("options", ())),
            )
            if not (named and finding["code"] == "encoding_misread")
        )
        yield from ({**finding, "input": number} for finding in raster_checks(path, job))
        yield from sheet_checks(number, path, job)
        yield from ({**finding, "input": number} for finding in part("text_files").checks(path))
        yield from ({**finding, "input": number} for finding in part("input_values").checks(path, job))
        yield from kml_checks(number, path)


def kml_checks(number, path):
    """Reports values that the driver KML does not read. GDAL uses this driver if LIBKML is missing."""
    if not path.lower().endswith(".kml"):
        return
    with quiet():
        driver = gdal.IdentifyDriverEx(path, gdal.OF_VECTOR)
    if driver is not None and driver.ShortName == "KML":
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            count = sum(1 for _ in re.finditer(b"<(?:Simple)?Data ", text))
        if count:
            yield {"code": "extended_data_unread", "input": number, "count": count}


def sheet_checks(number, path, job):
    """Reports the parts of a spreadsheet that GDAL does not read as its author sees them."""
    if not path.lower().endswith((".xlsx", ".xlsm", ".ods")):
        return
    if os.path.getsize(path) > MAX_BYTES:
        skip("times_cut", "header_as_row", *part("spreadsheets").OF_CELLS)
        return
    words = [*map(str, job.get("options", ())), *([f"--sql={job['sql']}"] if job.get("sql") else [])]
    with quiet():
        count, untitled = part("sheets").time_count(path), part("sheets").untitled_sheets(path)
        findings = list(part("spreadsheets").checks(path, " ".join(words)))
    if count:
        yield {"code": "times_cut", "input": number, "count": count}
    if "HEADERS=" not in " ".join(words):
        yield from ({"code": "header_as_row", "input": number, "layer": sheet} for sheet in untitled)
    yield from ({**finding, "input": number} for finding in findings)


def reads_less(job, dataset):
    """True if a call reads a raster at a reduced size, for which GDAL uses overviews."""
    options = [str(word) for word in job.get("options", ())]
    is_brief = job["program"] == "preview" or "--approx-stats" in options
    tiled = options[:2] == ["raster", "tile"] or "tile" in options[2:]
    return is_brief or (tiled and part("overviews").tiles_are_coarse(dataset, options))


def is_of(drivers, path, kind):
    """True if GDAL identifies the file as a format of one of the drivers, whatever its name. Hides GDAL's errors."""
    with quiet():
        return gdal.IdentifyDriverEx(path, kind, allowed_drivers=drivers) is not None


def raster_checks(path, job):
    options = [str(word) for word in job.get("options", ())]
    stores, measured = is_of(RASTERS, path, gdal.OF_RASTER), measures(options)
    looks_up = "pixel-info" in options[:2]
    with quiet():
        dataset = gdal.OpenEx(path, gdal.OF_RASTER) if stores or measured or looks_up else None
        findings = []
        if dataset is not None and stores:
            reduced = reads_less(job, dataset)
            findings += part("stored").raster_checks(dataset, reads=not job["outputs"], reduced=reduced)
        if dataset is not None and measured:
            findings += part("collars").zeros_around(dataset)
            if not job["outputs"]:
                checks = part("raster_checks")
                findings += checks.fill_checks(dataset, checks.value_ranges(dataset))
        if dataset is not None and looks_up:
            findings += part("masks").position_checks(dataset, options)
    return findings


def measures(options):
    """True if a call measures all pixels that are data, and does not say itself which are not."""
    return bool(MEASURED.intersection(options)) and not any(
        word.startswith("--input-nodata=") for word in options
    )


def copies_features(job):
    """True if a call makes layers from layers, so that no result is computed from an extent."""
    words = job.get("options", ())[:2]
    return bool(job["outputs"]) and (
        words[:1] == ["convert"] or (words[:1] == ["vector"] and words[-1] not in BY_EXTENT)
    )


def extent_checks(number, path, *, reads, copies, spans_all):
    if not is_of(VECTORS, path, gdal.OF_VECTOR):
        return
    if os.path.getsize(path) > MAX_BYTES:
        skip("spatial_index_stale", "encoding_misread", *(["stored_extent_stale"] if not copies else []))
        return
    with quiet():
        dataset = gdal.OpenEx(path, gdal.OF_VECTOR)
        layers = part("tables").layers_of(dataset, 20) if dataset else []
        stale = [index for index, layer in enumerate(layers) if stale_extent(layer, copies=copies)]
        parts = [
            (index, edges)
            for index, layer in enumerate(layers)
            if (reads or spans_all) and (edges := antimeridian_parts(layer))
        ]
        own = [
            {**finding, "input": number, "layer": index}
            for index, layer in enumerate(layers)
            for finding in part("stored").layer_checks(layer, reads=reads)
        ]
    yield from own
    for index, (west, east) in parts:
        yield {
            "code": "antimeridian_parts",
            "input": number,
            "layer": index,
            "minimum": west,
            "maximum": east,
        }
    yield from ({"code": "stored_extent_stale", "input": number, "layer": index} for index in stale)
