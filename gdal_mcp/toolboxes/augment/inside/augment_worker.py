"""The handler of a container of the toolbox `augment`: GDAL's worker, with additional programs."""

import importlib
import json
import os
import sys
import types

PACKAGE = "gdal_mcp.toolboxes.augment.inside"
PACKAGES = "/opt/gdal-mcp/packages"
PROGRAMS = {"augment": "single", "chips": "chips"}  # program -> its module


def prepare():
    global gdal
    sys.path.insert(0, PACKAGES)
    words = dict(word.split("\n", 1) if isinstance(word, str) else word for word in sys.argv[3:])
    gdal = types.ModuleType("gdal_worker")
    exec(words["gdal_worker"], gdal.__dict__)
    gdal.prepare()
    sys.meta_path.insert(0, gdal.PartsImporter(sys.argv[3:], PACKAGE))
    for program in PROGRAMS:
        gdal.part("programs").RUNNERS[program] = run_program


def warm():
    for name in ("numpy", "cv2", "albumentations"):
        importlib.import_module(name)
        yield


def run(job, report):
    from importlib.metadata import version

    job["report"], job["refused"] = report, None
    answer = gdal.run(job, report)
    return answer | {"refused": job["refused"], "tool_version": version("albumentations")}


def run_program(job, _progress):
    """Prints a JSON report. `refused` has the reason if the image, or every step, cannot be used."""
    import cv2

    cv2.setNumThreads(1)  # the result is then the same on any number of processors
    os.environ["OGR_CURRENT_DATE"] = "1970-01-01T00:00:00Z"  # a recreated file then has the same bytes
    program = importlib.import_module(f"{PACKAGE}.{PROGRAMS[job['program']]}")
    rasters = importlib.import_module(f"{PACKAGE}.rasters")
    try:
        answer = program.run(job, job["report"])
    except rasters.Unreadable as error:
        job["refused"] = {"code": "INVALID_IMAGE"}
        raise RuntimeError(str(error)) from error
    # a constructor raises these if its arguments do not fit together
    except (ValueError, TypeError) as error:
        job["refused"] = {"code": "TRANSFORM_FAILED"}
        raise RuntimeError(str(error)[:500]) from error
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    return True
