"""The programs that a job may name.

Algorithms of the `gdal` program run through GDAL's algorithm registry with the program's own argument parser. The
classic utilities run as the library functions that the programs call, or as GDAL's own Python scripts. All other
programs are parts of this package.
"""

import importlib
import itertools
import os
import re
import time
from collections import namedtuple

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import decoded, part, print_text, quiet

NAME = re.compile(r"[a-z][a-z-]*")
LARGE = 16 << 20  # bytes; smaller files are read in some milliseconds either way
MEASURING = (["raster", "info"], ["raster", "edit"])
FAST_STATISTICS = "GDAL_STATS_USE_FLOAT32_OPTIM"
# commands whose values are examined whatever their data type
COMPUTING = (["vector", "rasterize"], ["raster", "calc"])
VALIDATING = (["driver", "cog", "validate"], ["driver", "gpkg", "validate"])
NETCDF = (".nc", ".nc4", ".cdf")


# how a program ended; if it has a return code, it gave an answer, and its errors are part of that answer. Not a class
# with annotations, because Python 3.14 would load its parser for them
Ended = namedtuple("Ended", ("done", "return_code"), defaults=(None,))  # noqa: PYI024


def run(job, report):
    started = time.process_time()
    sources = job.get("sources", job["inputs"])
    with quiet():
        drivers = [gdal.IdentifyDriverEx(path, allowed_drivers=["GTiff", "Zarr"]) for path in sources]
    job["settings"] = settings_of(job, {driver.ShortName if driver else "" for driver in drivers})
    for name, value in job["settings"].items():
        gdal.SetConfigOption(name, value)
    ended = RUNNERS[job["program"]](job, report)
    ended = ended if isinstance(ended, Ended) else Ended(bool(ended))
    job["seconds"] = time.process_time() - started
    computes = job["program"] == "gdal" and job["options"][:2] in COMPUTING
    if ended.done and (job.get("statement") or job.get("type_range") or computes):
        look = "statement_checks" if job["statement"] else "value_checks"
        job["checks"] = list(getattr(part("statements"), look)(job))
    return ended


def settings_of(job, drivers):
    """The GDAL settings of this job that differ from those of its container; they are listed in the receipt.

    With more threads, GDAL (3.13.3) hangs on a damaged chunk of a Zarr. Remote data in other formats can refer to a
    Zarr, so only formats without references get several threads. With more than one thread, GDAL's fast code for
    statistics reads only half of the pixels, so it is off (`statistics_in_threads` in faults.toml). With one thread
    it is correct, and four times as fast as the code that replaces it, so calls that do little else use it.
    """
    if "Zarr" in drivers or (job.get("remote") and drivers != {"GTiff"}):
        return {"GDAL_NUM_THREADS": "1"}
    reads_statistics = job["program"] == "gdalinfo" or (job["program"] == "gdal" and measures(job["options"]))
    if reads_statistics and FAST_STATISTICS in os.environ:
        return {"GDAL_NUM_THREADS": "1", FAST_STATISTICS: "YES"}
    return {}


def measures(options):
    """True if an algorithm only describes a raster or edits its metadata."""
    return options[:1] == ["info"] or options[:2] in MEASURING


def title(job):
    """A short title of the running program, for progress messages."""
    if job["program"] != "gdal":
        return job["program"]
    path = list(itertools.takewhile(NAME.fullmatch, job["options"][:3]))
    if "pipeline" in path:  # what follows is its first step
        del path[path.index("pipeline") + 1 :]
    return " ".join(["gdal", *path])


def progress(report):
    def tell(fraction, message, _data):
        report.progress(fraction, message or "")
        return 1

    return tell


def instantiated(words):
    """The algorithm that the words name, its path, and the remaining words."""
    path, words = [words[0]], list(words[1:])
    algorithm = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(path[0])
    while words and words[0] in (algorithm.GetSubAlgorithmNames() or ()):
        path.append(words.pop(0))
        algorithm = algorithm.InstantiateSubAlgorithm(path[-1])
    return algorithm, path, words


def by_kind(options, sources):
    """The command words of `gdal info` and `gdal convert`, with `raster` before them for a netCDF file with grids.

    Otherwise GDAL refuses such a file, because it also reads its 1D variables, such as time, as a layer.
    """
    # judged by its name, because other files, which may be remote, must not be opened an additional time
    if options[0] not in ("info", "convert") or not sources or not sources[0].lower().endswith(NETCDF):
        return options
    with quiet():
        grids = gdal.OpenEx(sources[0], gdal.OF_RASTER, allowed_drivers=["netCDF"])
        tables = gdal.OpenEx(sources[0], gdal.OF_VECTOR, allowed_drivers=["netCDF"])
    layers = [tables.GetLayer(i) for i in range(tables.GetLayerCount())] if tables is not None else []
    plain = all(layer.GetGeomType() == ogr.wkbNone for layer in layers)
    return ["raster", *options] if grids is not None and layers and plain else options


def run_algorithm(job, report):
    """Runs `gdal <path> --name=value ...`."""
    sources = job.get("sources", job["inputs"])
    algorithm, path, words = instantiated(by_kind(job["options"], sources))
    if path == ["vsi", "list"]:
        words = list(map(part("archives").as_folder, words))
        if names := part("archives").only_member(words):
            print_text(names)
            return Ended(True)
    if not algorithm.ParseCommandLineArguments([*read_options(algorithm, job), *words]):
        return False
    done = algorithm.Run(progress(report))
    actual, text, code = algorithm.GetActualAlgorithm(), "", None
    if "output-string" in actual.GetArgNames():
        text = decoded(actual.GetArg("output-string").GetAsString()) or ""
        if path[-1] == "info" and done:
            text = part("precision").with_full_numbers(text, job)
            text = part("arrow").with_arrow_types(text, job) if '"layers"' in text else text
    if path in VALIDATING:
        # a validation returns False both if it finds faults and if it fails; it has a report only if it finds faults
        code = 0 if done else 1 if text else None
    elif done and "return-code" in actual.GetArgNames():
        code = actual.GetArg("return-code").GetAsInteger()
    if not (algorithm.Finalize() and (done or code is not None)):
        return False
    print_text(text)
    return Ended(True, code)


def read_options(algorithm, job):
    """Options that change only the speed: large uncompressed inputs are read by one thread.

    GDAL_NUM_THREADS makes GDAL assign each strip of a GeoTIFF to a thread, which takes longer than copying it.
    """

    def uncompressed(path):
        if not os.path.isfile(path) or os.path.getsize(path) < LARGE:
            return False
        with quiet():
            dataset = gdal.OpenEx(path, gdal.OF_RASTER, allowed_drivers=["GTiff"])
        return dataset is not None and dataset.GetMetadataItem("COMPRESSION", "IMAGE_STRUCTURE") is None

    names, sources = algorithm.GetArgNames(), job.get("sources", ())
    takes_it = "open-option" in names or job["options"][0] == "convert"  # `convert` passes open options on
    own = any(word.startswith(("--open-option", "--input-open-option", "--oo")) for word in job["options"])
    if own or not takes_it or "pipeline" in names or not sources or not all(map(uncompressed, sources)):
        return []
    return ["--open-option=NUM_THREADS=1"]


def opened(path, kind):
    """Opens an input and reports GDAL's errors, because the library functions open a name without reporting them."""
    return gdal.OpenEx(path, kind | gdal.OF_VERBOSE_ERROR)


def run_info(job, _report):
    source = opened(job["inputs"][0], gdal.OF_RASTER)
    if source is None:
        return False
    how = gdal.InfoOptions(options=job["options"], deserialize=False)
    print_text(decoded(gdal.Info(source, options=how)))
    return True


def run_on_one(utility, kind):
    """Runs a utility with one input and one output."""

    def run_one(job, report):
        source = opened(job["inputs"][0], kind)
        if source is None:
            return False
        return closed(utility(job["output"], source, options=job["options"], callback=progress(report)))

    return run_one


def run_warp(job, report):
    """Warps into an existing output if there is one, as the program does. That output is a copy in staging."""
    sources = [opened(path, gdal.OF_RASTER) for path in job["inputs"]]
    target = job["output"]
    updates = os.path.exists(target)
    if updates and None not in sources:
        target = opened(target, gdal.OF_RASTER | gdal.OF_UPDATE)
    if None in sources or target is None:
        return False
    done = gdal.Warp(target, sources, options=job["options"], callback=progress(report))
    if updates:
        target.Close()
        return bool(done)
    return closed(done)


def closed(dataset):
    """Closes a dataset; True if there was no error.

    Closing writes the last blocks, so an error then is an error of the command.
    """
    return dataset is not None and dataset.Close() == gdal.CE_None


class OnTerminal:
    """Reports the progress of GDAL's Python scripts, and still prints it."""

    printed = staticmethod(gdal.TermProgress_nocb)
    report = None

    @classmethod
    def progress(cls, fraction, message=None, data=None):
        if cls.report is not None:
            cls.report.progress(fraction)
        return cls.printed(fraction, message, data)


# set before a script is loaded, because some scripts store the function under their own name
gdal.TermProgress_nocb = OnTerminal.progress


def run_script(name):
    def run_one(job, report):
        OnTerminal.report = report
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

    OnTerminal.report = report
    x, y, data, _nodata = gdal2xyz(job["inputs"][0], None, return_np_arrays=True, **job["as_array"])
    gdal.DontUseExceptions()
    rows = numpy.column_stack([x, y, numpy.atleast_2d(data).reshape(-1, len(x)).T])
    # opened here, because NumPy appends .npy to a path with another ending
    with open(job["output"], "wb") as file:
        numpy.save(file, rows.astype("float64"))
    return True


def ours(module, name):
    """A runner for a program in a part that is compiled only when it is used."""

    def run_one(job, report):
        return getattr(part(module), name)(job, report)

    return run_one


RUNNERS = {
    "version": lambda _job, _report: True,  # the version is part of every answer
    "gdal": run_algorithm,
    "gdalinfo": run_info,
    "gdal_translate": run_on_one(gdal.Translate, gdal.OF_RASTER),
    "gdalwarp": run_warp,
    "gdalbuildvrt": lambda job, report: closed(
        gdal.BuildVRT(
            job["output"], job["inputs"], options=job["options"], callback=progress(report), strict=True
        )
    ),
    "gdal_rasterize": run_on_one(gdal.Rasterize, gdal.OF_VECTOR),
    "gdal2xyz": run_xyz,
    "gdal_merge": run_script("gdal_merge"),
    "gdal_polygonize": run_script("gdal_polygonize"),
    "preview": ours("preview", "run_preview"),
    "query": ours("query", "run_query"),
    "find_crs": ours("crs_search", "run_find_crs"),
    "identify": ours("describe", "run_identify"),
    "describe": ours("describe", "run_describe"),
}
