"""The programs that a job may name.

Algorithms of the `gdal` program run through GDAL's own registry with the same argument parser as the program; the classic
utilities run as the library functions that the programs call, or as GDAL's own Python scripts; the rest is ours.
"""

import importlib
import itertools
import os
import re
from typing import NamedTuple

from osgeo import gdal

from gdal_mcp.gdal.inside.parts.reporting import decoded, print_text, quiet

NAME = re.compile(r"[a-z][a-z-]*")
WORTH_A_LOOK = 16 << 20  # bytes; what is smaller is read in some milliseconds either way


class Ended(NamedTuple):
    """How a program ended. With a return code it has answered, and errors that it met are part of its answer."""

    done: bool
    return_code: int | None = None


def run(job, report):
    ended = RUNNERS[job["program"]](job, report)
    return ended if isinstance(ended, Ended) else Ended(bool(ended))


def title(job):
    """What is running, in few words."""
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


def run_algorithm(job, report):
    """`gdal <path> --name=value ...`"""
    words = list(job["options"])
    path = [words.pop(0)]
    algorithm = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg(path[0])
    while (
        words
        and not words[0].startswith("-")
        and algorithm.HasSubAlgorithms()
        and words[0] in algorithm.GetSubAlgorithmNames()
    ):
        path.append(words.pop(0))
        algorithm = algorithm.InstantiateSubAlgorithm(path[-1])
    if not algorithm.ParseCommandLineArguments([*read_with(algorithm, job), *words]):
        return Ended(False)
    done = algorithm.Run(progress(report))
    text = printed(algorithm.GetActualAlgorithm())
    code = return_code(algorithm.GetActualAlgorithm(), path, done, text)
    done = algorithm.Finalize() and (done or code is not None)
    if done:
        print_text(text)
    return Ended(bool(done), code if done else None)


def read_with(algorithm, job):
    """Words that make no difference but to the time: large inputs without compression are read by one thread."""
    names, sources = algorithm.GetArgNames(), job.get("sources", ())
    takes_it = "open-option" in names or job["options"][0] == "convert"  # which hands on what it is given
    own = any(word.startswith(("--open-option", "--input-open-option", "--oo")) for word in job["options"])
    if own or not takes_it or "pipeline" in names or not sources or not all(map(in_plain_blocks, sources)):
        return []
    return ["--open-option=NUM_THREADS=1"]


def in_plain_blocks(path):
    """A large GeoTIFF with nothing to decode: GDAL_NUM_THREADS makes GDAL hand each of its strips to a thread, which
    takes longer than copying it.
    """
    if not os.path.isfile(path) or os.path.getsize(path) < WORTH_A_LOOK:
        return False
    with quiet():
        found = gdal.OpenEx(path, gdal.OF_RASTER, allowed_drivers=["GTiff"])
    return found is not None and found.GetMetadataItem("COMPRESSION", "IMAGE_STRUCTURE") is None


def printed(algorithm):
    if "output-string" not in algorithm.GetArgNames():
        return ""
    return decoded(algorithm.GetArg("output-string").GetAsString()) or ""


def return_code(algorithm, path, done, text):
    """What the program would end with, of the algorithms whose answer that is; None of the others."""
    if path in VALIDATING:
        # one that finds faults says False, as one that could not look does; only the first has a report
        return 0 if done else 1 if text else None
    if done and "return-code" in algorithm.GetArgNames():
        return algorithm.GetArg("return-code").GetAsInteger()
    return None


VALIDATING = (["driver", "cog", "validate"], ["driver", "gpkg", "validate"])


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


class OnTerminal:
    """Hears of the progress that GDAL's Python scripts print, which is printed all the same."""

    printed = staticmethod(gdal.TermProgress_nocb)
    report = None

    @classmethod
    def progress(cls, fraction, message=None, data=None):
        if cls.report is not None:
            cls.report.progress(fraction)
        return cls.printed(fraction, message, data)


# before a script is loaded, as some keep it under a name of their own
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
    with open(job["output"], "wb") as file:  # by name numpy would add .npy to a name that ends otherwise
        numpy.save(file, rows.astype("float64"))
    return True


def run_version(_job, _report):
    return True  # the version is part of every answer


def ours(module, name):
    """A program of a part that is compiled only when it is asked for."""

    def run_one(job, report):
        part = importlib.import_module("gdal_mcp.gdal.inside.parts." + module)
        return getattr(part, name)(job, report)

    return run_one


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
    "preview": ours("preview", "run_preview"),
    "find_crs": ours("crs_search", "run_find_crs"),
    "identify": ours("describe", "run_identify"),
    "describe": ours("describe", "run_describe"),
}
