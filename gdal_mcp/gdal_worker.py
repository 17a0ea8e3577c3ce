"""The handler inside the container: loads GDAL, runs one command, re-opens and describes what it wrote.

Given to `sandbox/worker.py` as text. Algorithms of the `gdal` program run through GDAL's own registry with the same argument
parser as the program; the classic utilities run as the library functions that the programs call, or as GDAL's own
Python scripts. What GDAL would print on stderr is printed there in the same form.
"""

import ctypes
import math
import os
import sys
import traceback

MAX_ERRORS = 100
WARNING, FAILURE = 2, 3
OUT_OF_MEMORY = 2  # CPLE_OutOfMemory
MEMORY_WORDS = ("out of memory", "cannot allocate", "bad_alloc")  # of libraries that know no such number
LABELS = {WARNING: "Warning", FAILURE: "ERROR", 4: "FATAL ERROR"}
NAME_LIMIT = 1000  # of bands, layers and fields in a description

gdal = ogr = library = None


def prepare():
    global gdal, ogr, library
    os.makedirs("/tmp/pam", exist_ok=True)  # GDAL_PAM_PROXY_DIR: statistics of read-only data go there
    from osgeo import gdal as loaded_gdal
    from osgeo import ogr as loaded_ogr
    from osgeo import osr

    gdal, ogr = loaded_gdal, loaded_ogr  # importing them registers the drivers
    library = ctypes.CDLL(gdal._gdal.__file__)  # finds what the extension is linked with
    for module in (
        gdal,
        ogr,
        osr,
    ):  # gdal.DontUseExceptions() would import NumPy, which costs half as much as GDAL
        module._DontUseExceptions()


def decoded(value):
    """Text, alone or within what JSON holds: GDAL's binding gives bytes for what is not UTF-8."""
    if isinstance(value, dict):
        return {key: decoded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [decoded(inner) for inner in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Errors:
    """Collects what GDAL reports, and prints it as the programs do.

    Listens below GDAL's Python binding, which cannot pass on a message that is not UTF-8 and fails whatever runs.
    """

    _Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int, ctypes.c_char_p)

    def __init__(self):
        self._handler = self._Handler(lambda level, number, message: self(level, number, decoded(message)))
        self.rows = []
        self.failures = 0
        self.memory = False

    def __enter__(self):
        library.CPLPushErrorHandler(self._handler)
        return self

    def __exit__(self, *_):
        library.CPLPopErrorHandler()

    def __call__(self, level, number, message):
        if level not in LABELS:
            return
        if level >= FAILURE:
            self.failures += 1
            self.memory = (
                self.memory
                or number == OUT_OF_MEMORY
                or any(word in message.lower() for word in MEMORY_WORDS)
            )
        if len(self.rows) == MAX_ERRORS:
            return
        self.rows.append(
            {"level": LABELS[level].split()[-1].lower(), "number": number, "message": message[:2000]}
        )
        sys.stderr.write(f"{LABELS[level]} {number}: {message}\n")
        sys.stderr.flush()

    def fail(self, message):
        self(FAILURE, 1, message)


def run(job, report):
    outputs = []
    with Errors() as errors:
        try:
            done = RUNNERS[job["program"]](job, report)
            if done and not errors.failures:
                outputs = [decoded(describe(output, errors)) for output in job["outputs"]]
                if job["preview_pixels"] and not errors.failures:
                    attach_preview(job, report)
        except MemoryError:
            raise
        except SystemExit as leaving:  # GDAL's Python scripts end so on a usage error
            done = leaving.code in (0, None)
        except Exception as error:  # a fault of the command is an answer, with its trace on stderr
            done = False
            if not isinstance(error, RuntimeError):
                traceback.print_exc()
            errors.fail(str(error))
    return {
        "code": 0 if done and not errors.failures else 1,
        "done": bool(done),
        "errors": errors.rows,
        "failures": errors.failures,
        "memory_exhausted": errors.memory,
        "outputs": outputs,
        "gdal_version": gdal.VersionInfo("RELEASE_NAME"),
    }


def progress(report):
    def tell(fraction, message, _data):
        report.progress(fraction, message or "")
        return 1

    return tell


def run_algorithm(job, report):
    """`gdal <path> --name=value ...`"""
    words = list(job["options"])
    algorithm = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(words.pop(0))
    while (
        words
        and not words[0].startswith("-")
        and algorithm.HasSubAlgorithms()
        and words[0] in algorithm.GetSubAlgorithmNames()
    ):
        algorithm = algorithm.InstantiateSubAlgorithm(words.pop(0))
    done = (
        algorithm.ParseCommandLineArguments(words)
        and algorithm.Run(progress(report))
        and algorithm.Finalize()
    )
    actual = algorithm.GetActualAlgorithm()
    if done and "output-string" in actual.GetArgNames():
        print_text(decoded(actual.GetArg("output-string").GetAsString()))
    return done


def print_text(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def open_raster(path):
    return gdal.OpenEx(path, gdal.OF_RASTER | gdal.OF_VERBOSE_ERROR)


def run_info(job, _report):
    source = open_raster(job["inputs"][0])
    if source is None:
        return False
    report = gdal.Info(source, options=gdal.InfoOptions(options=job["options"], deserialize=False))
    print_text(decoded(report))
    return True


def run_translate(job, report):
    source = open_raster(job["inputs"][0])
    if source is None:
        return False
    return closed(gdal.Translate(job["output"], source, options=job["options"], callback=progress(report)))


def run_warp(job, report):
    """Into an existing output when there is one, as the program does; it is a copy in staging."""
    sources = [open_raster(path) for path in job["inputs"]]  # by name the library opens them without a word
    if None in sources:
        return False
    target = job["output"]
    if os.path.exists(target):
        target = gdal.OpenEx(target, gdal.OF_RASTER | gdal.OF_UPDATE | gdal.OF_VERBOSE_ERROR)
        if target is None:
            return False
    done = gdal.Warp(target, sources, options=job["options"], callback=progress(report))
    if not isinstance(target, str):
        target.Close()
        return bool(done)
    return closed(done)


def run_build_vrt(job, report):
    return closed(
        gdal.BuildVRT(
            job["output"], job["inputs"], options=job["options"], callback=progress(report), strict=True
        )
    )


def run_rasterize(job, report):
    source = gdal.OpenEx(job["inputs"][0], gdal.OF_VECTOR | gdal.OF_VERBOSE_ERROR)
    if source is None:
        return False
    return closed(gdal.Rasterize(job["output"], source, options=job["options"], callback=progress(report)))


def closed(dataset):
    """Closing writes the last blocks; an error in that is an error of the command."""
    return dataset is not None and dataset.Close() == gdal.CE_None


def run_script(name):
    def run_one(job, report):
        import importlib

        report.progress(0.0, name)
        module = importlib.import_module("osgeo_utils." + name)
        code = module.main([name + ".py", *job["argv"][1:]])
        gdal.DontUseExceptions()
        return not code

    return run_one


def run_xyz(job, report):
    if not job.get("as_array"):
        return run_script("gdal2xyz")(job, report)
    import numpy
    from osgeo_utils.gdal2xyz import gdal2xyz

    x, y, data, _nodata = gdal2xyz(job["inputs"][0], None, return_np_arrays=True, **job["as_array"])
    gdal.DontUseExceptions()
    rows = numpy.column_stack([x, y, numpy.atleast_2d(data).reshape(-1, len(x)).T])
    with open(job["output"], "wb") as file:  # by name numpy would add .npy to a name that ends otherwise
        numpy.save(file, rows.astype("float64"))
    return True


def run_version(_job, _report):
    return True  # the version is part of every answer


RUNNERS = {
    "version": run_version,
    "gdal": run_algorithm,
    "gdalinfo": run_info,
    "gdal_translate": run_translate,
    "gdalwarp": run_warp,
    "gdalbuildvrt": run_build_vrt,
    "gdal_rasterize": run_rasterize,
    "gdal2xyz": run_xyz,
    "gdal_merge": run_script("gdal_merge"),
    "gdal_polygonize": run_script("gdal_polygonize"),
}


def describe(output, errors):
    path, kind = output["path"], output["kind"]
    if not os.path.lexists(path):
        errors.fail(f"{os.path.basename(path)} was not created")
        return {}
    if kind in ("table", "array"):
        return DESCRIBERS[kind](path)
    dataset = gdal.OpenEx(path, gdal.OF_RASTER | gdal.OF_VECTOR | gdal.OF_VERBOSE_ERROR)
    if dataset is None:
        return {}
    described = {"driver": dataset.GetDriver().ShortName}
    if dataset.RasterCount:
        described |= describe_raster(dataset)
    if dataset.GetLayerCount():
        described["layers"] = [
            describe_layer(dataset.GetLayer(i)) for i in range(min(dataset.GetLayerCount(), NAME_LIMIT))
        ]
    dataset.Close()
    return described


def describe_raster(dataset):
    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, NAME_LIMIT))]
    first = bands[0]
    return {
        "size": [dataset.RasterXSize, dataset.RasterYSize],
        "band_count": dataset.RasterCount,
        "bands": [
            {
                "type": gdal.GetDataTypeName(band.DataType),
                "nodata": plain(band.GetNoDataValue()),
                "color": gdal.GetColorInterpretationName(band.GetColorInterpretation()),
            }
            for band in bands
        ],
        "block_size": first.GetBlockSize(),
        "overviews": first.GetOverviewCount(),
        "compression": dataset.GetMetadataItem("COMPRESSION", "IMAGE_STRUCTURE"),
        "crs": describe_crs(dataset.GetSpatialRef()),
        "extent": raster_extent(dataset),
    }


def plain(number):
    """A number that JSON can hold, or its name as text."""
    if number is None or math.isfinite(number):
        return number
    return str(number)


def raster_extent(dataset):
    """[west, south, east, north] in the CRS of the raster, or None without a geotransform."""
    transform = dataset.GetGeoTransform(can_return_null=True)
    if transform is None:
        return None
    width, height = dataset.RasterXSize, dataset.RasterYSize
    corners = [gdal.ApplyGeoTransform(transform, x, y) for x in (0, width) for y in (0, height)]
    xs, ys = zip(*corners, strict=True)
    return [plain(value) for value in (min(xs), min(ys), max(xs), max(ys))]


def describe_layer(layer):
    definition = layer.GetLayerDefn()
    fields = [definition.GetFieldDefn(i) for i in range(min(definition.GetFieldCount(), NAME_LIMIT))]
    box = layer.GetExtent(can_return_null=True) if definition.GetGeomFieldCount() else None
    return {
        "name": layer.GetName(),
        "geometry": ogr.GeometryTypeToName(layer.GetGeomType()),
        "features": layer.GetFeatureCount(),
        "fields": [{"name": field.GetName(), "type": field.GetTypeName()} for field in fields],
        "crs": describe_crs(layer.GetSpatialRef()),
        "extent": [plain(box[i]) for i in (0, 2, 1, 3)] if box else None,
    }


def describe_crs(crs):
    if crs is None:
        return None
    authority, code = crs.GetAuthorityName(None), crs.GetAuthorityCode(None)
    return {"name": crs.GetName(), "code": f"{authority}:{code}" if authority and code else None}


def describe_table(path):
    rows = 0
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            rows += chunk.count(b"\n")
    return {"driver": "text", "rows": rows}


def describe_array(path):
    import numpy

    array = numpy.load(path, mmap_mode="r", allow_pickle=False)
    return {"driver": "numpy", "shape": list(array.shape), "type": str(array.dtype)}


DESCRIBERS = {"table": describe_table, "array": describe_array}


def attach_preview(job, report):
    """A PNG of a raster output, small on both sides. Best effort: a preview that fails is left out."""
    output = next((one for one in job["outputs"] if one["kind"] == "dataset"), None)
    if output is None:
        return
    with_errors_ignored = gdal.PushErrorHandler("CPLQuietErrorHandler")
    try:
        data = preview(output["path"], job["preview_pixels"])
        if data:
            report.attach("preview.png", data)
    except (RuntimeError, ValueError, TypeError):
        pass
    finally:
        if with_errors_ignored == gdal.CE_None:
            gdal.PopErrorHandler()


def preview(path, pixels):
    source = gdal.OpenEx(path, gdal.OF_RASTER)
    if source is None or not source.RasterCount:
        return None
    shrink = min(1.0, pixels / max(source.RasterXSize, source.RasterYSize))
    size = {
        "width": max(1, round(source.RasterXSize * shrink)),
        "height": max(1, round(source.RasterYSize * shrink)),
    }
    first = source.GetRasterBand(1)
    if first.GetColorTable() is not None:
        return png(source, size, {"rgbExpand": "rgba"})
    colors = (
        [1, 2, 3] if source.RasterCount >= 3 and first.GetColorInterpretation() == gdal.GCI_RedBand else [1]
    )
    small = gdal.Translate("", source, format="MEM", bandList=[*colors, "mask"], **size)
    stretch = [
        limits(small.GetRasterBand(i + 1), source.GetRasterBand(colors[i])) for i in range(len(colors))
    ]
    scale = [[low, high, 0, 255] for low, high in stretch] + [[0, 255, 0, 255]]
    alpha = small.GetRasterBand(len(colors) + 1)
    alpha.SetColorInterpretation(gdal.GCI_AlphaBand)
    return png(small, {}, {"scaleParams": scale, "outputType": gdal.GDT_Byte, "noData": "none"})


def limits(small, band):
    """Two standard deviations around the mean; bytes that already fill their range stay as they are."""
    if band.DataType == gdal.GDT_Byte:
        return 0, 255
    low, high, mean, deviation = small.ComputeStatistics(False)
    return max(low, mean - 2 * deviation), max(min(high, mean + 2 * deviation), low + 1e-9)


def png(dataset, size, options):
    name = "/vsimem/preview.png"
    written = gdal.Translate(name, dataset, format="PNG", **size, **options)
    if written is None:
        return None
    written.Close()
    file = gdal.VSIFOpenL(name, "rb")
    try:
        return bytes(gdal.VSIFReadL(1, gdal.VSIStatL(name).size, file))
    finally:
        gdal.VSIFCloseL(file)
        gdal.Unlink(name)
