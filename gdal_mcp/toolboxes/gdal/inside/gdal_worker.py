"""The handler inside the container: loads GDAL, runs one command, and opens and describes its outputs.

`sandbox/worker.py` receives it as text, followed by the modules of `parts` as further arguments. Messages that GDAL
would print to stderr are printed there in the same form.
"""

import importlib
import itertools
import os
import sys
from importlib.machinery import ModuleSpec

PARTS = "gdal_mcp.toolboxes.gdal.inside.parts"
# fractions of a job's progress: the program has ended; its outputs are described
PROGRAM, DESCRIBED = 0.9, 0.95


class PartsImporter:
    """Imports the modules of a package from the worker's arguments instead of files.

    Each argument is a pair of a name and its code, or a text: a name, a newline and the source.
    """

    def __init__(self, words, package=PARTS):
        named = (word.split("\n", 1) if isinstance(word, str) else word for word in words)
        packages = list(itertools.accumulate(package.split("."), "{}.{}".format))
        self._sources = dict.fromkeys(packages, "") | {f"{package}.{name}": code for name, code in named}

    def find_spec(self, name, _path=None, _target=None):
        if name not in self._sources:
            return None
        return ModuleSpec(name, self, origin=name, is_package=not self._sources[name])

    def create_module(self, _spec):
        return None

    def exec_module(self, module):
        exec(self._sources[module.__name__], module.__dict__)  # noqa: S102 - our own source, like this file


def part(name):
    return importlib.import_module(f"{PARTS}.{name}")


def prepare():
    sys.meta_path.insert(0, PartsImporter(sys.argv[3:]))
    os.makedirs("/tmp/pam", exist_ok=True)  # GDAL_PAM_PROXY_DIR: for statistics of read-only data
    part("libraries").load_each()
    # by default, Python resolves every function of a library when it loads, and no job calls most of them
    sys.setdlopenflags(os.RTLD_LAZY)
    from osgeo import gdal, ogr, osr  # importing them registers the drivers

    for module in (gdal, ogr, osr):
        # gdal.DontUseExceptions() would import NumPy, which adds half of GDAL's load time
        module._DontUseExceptions()


def warm():
    yield from part("warming").steps(run)


def run_program(job, progress, errors, remote):
    """Runs the program. A failed read through the host fails the call even if GDAL ignores the failure.

    Other errors become warnings if the call has `--skip-errors`.
    """
    ended = part("programs").run(job, progress)
    # GDAL ignores some failed reads and treats their pixels as nodata
    if remote is not None and remote.failure:
        errors.fail(remote.failure)
        return part("programs").Ended(False)
    if ended.done and "--skip-errors" in job.get("options", ()):
        job["checks"] = [*job.get("checks", ()), *errors.forgiven()]
    return ended


def explain(job, report, errors, *, described):
    """Adds information that helps to correct a failed call.

    The host may find the cause in the inputs, so local inputs are described now if they were not described before.
    """
    if not (described or job.get("remote") or errors.memory):
        part("describe").describe_inputs(job, report, errors)
    part("sql_names").add_known_names(job, errors)
    part("archives").tell_members(job, errors)


def is_judged(job):
    return job["outputs"] or job.get("judged")


def run(job, report):
    programs, reporting = part("programs"), part("reporting")
    remote = part("vsihost").install(report.ask) if job.get("remote") else None
    progress = reporting.ProgressReporter(report, programs.title(job), PROGRAM if job["outputs"] else 1.0)
    with reporting.Errors() as errors:
        ended, outputs = attempt(job, report, progress, errors, remote)
        if errors.failures:
            explain(job, report, errors, described=is_judged(job))
    return answer_of(job, ended, outputs, errors)


def attempt(job, report, progress, errors, remote):
    """Runs the command. Returns how the program ended, and its described outputs.

    Every exception except MemoryError is a failure of the command.
    """
    ended = part("programs").Ended
    try:
        return perform(job, report, progress, errors, remote)
    except MemoryError:
        raise
    except SystemExit as leaving:  # GDAL's Python scripts end in this way after a usage error
        return ended(leaving.code in (0, None)), []
    except Exception as error:  # an error of the command is a result; its traceback goes to stderr
        if not isinstance(error, RuntimeError):
            import traceback  # imported only here, because it adds a tenth to the load time

            traceback.print_exc()
        errors.fail(str(error))
        return ended(False), []


def perform(job, report, progress, errors, remote):
    part("beside").prepare(job, errors)
    inputs = part("describe").describe_inputs(job, report, errors) if is_judged(job) else []
    with part("temporary").beside_output(job):
        ended = run_program(job, progress, errors, remote)
    if not ended.done or errors.failures:
        return ended, []
    job["checks"] = [*job.get("checks", ()), *part("beside").checks(job)]
    if errors.failures or not job["outputs"]:
        return ended, []
    progress.phase(PROGRAM, "describing the outputs")
    outputs = part("describe").describe_outputs(job, inputs, errors)
    if job["preview_pixels"] and not errors.failures:
        progress.phase(DESCRIBED, "drawing the preview")
        part("preview").attach_preview(job, progress)
    progress.phase(1.0, "done")
    return ended, outputs


def answer_of(job, ended, outputs, errors):
    from osgeo import gdal

    answer = {"outputs": outputs}
    if not ended.done:
        describe = part("describe")
        sources = job.get("sources", job["inputs"])[: describe.MAX_HEADS]
        answer["heads"] = [describe.head_of(path) for path in sources]
    skipped = sorted(part("reporting").SKIPPED) if ended.done else []
    checks = [*job.get("checks", ()), *([{"code": "checks_skipped", "skipped": skipped}] if skipped else [])]
    answered = ended.done and (ended.return_code is not None or not errors.failures)
    return answer | {
        "code": 0 if answered else 1,
        "done": ended.done,
        "return_code": ended.return_code,
        "errors": errors.rows,
        "checks": checks,
        "settings": job.get("settings", {}),
        "failures": errors.failures,
        "memory_exhausted": errors.memory,
        "gdal_version": gdal.VersionInfo("RELEASE_NAME"),
    }
