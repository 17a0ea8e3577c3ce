"""Describes datasets: inputs before the work, outputs after it, and files that a call only describes."""

import contextlib
import itertools
import os
import queue
import re
import threading
import time

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts import checks, outputs
from gdal_mcp.toolboxes.gdal.inside.parts.datasets import (
    facts_and_names,
    has_other_georeferencing,
    has_pixels,
    kinds_of,
    opened,
    write_only_driver,
)
from gdal_mcp.toolboxes.gdal.inside.parts.extents import box_in, in_degrees, reference
from gdal_mcp.toolboxes.gdal.inside.parts.pixels import value_ranges
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import WARNING, decoded, part, print_json, quiet
from gdal_mcp.toolboxes.gdal.inside.parts.survey import Clock
from gdal_mcp.toolboxes.gdal.inside.parts.tables import columns
from gdal_mcp.toolboxes.gdal.inside.parts.vector_checks import OWN_LAYERS, OutputOrigin

MAX_NAMED = 1000  # files of one request
# seconds for describing inputs before the work, with and without examining pixels; the first inputs have no limit
MAX_SECONDS, MAX_SECONDS_BRIEF = 5.0, 15.0
FIRST_INPUTS = 10
MAX_HEADS = 10  # inputs of a failed command whose first bytes are reported
MAX_LAYERS = 100  # layers of one input
HEAD = 16  # bytes
WIDE = ("Int64", "UInt64")  # types whose large numbers most algorithms round
FIRST_FEATURES = 100
MAX_AGAIN = 1.0  # CPU seconds of a command that is run again, in memory
MAX_REPLACED = 256 << 20  # bytes of a replaced file that is read only for its numbers
# GDAL emits such a warning once per process: if the description causes it, the job does not get it
ONCE = re.compile(r"will be suppressed|not be emitted|only be emitted once", re.IGNORECASE)
FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, MemoryError)
FAILED = {}  # the description of a dataset that opens, but could not be described
BRIEF = (
    *("driver", "bytes", "size", "band_count", "block_size", "overviews", "compression", "crs", "extent"),
    *("rotated", "gcps", "layer_count"),
)  # fmt: skip
BRIEF_LAYER = ("geometry", "features", "field_count", "crs", "extent")


class SideThread:
    """Runs work that must leave no trace on the job in a separate thread, one step at a time.

    The thread starts with the first step, and again in a forked process. PROJ has a cache for each thread, and writes
    a CRS differently after it has met the CRS's datum in another way. So the warm-up and the description of the
    inputs run in this thread, which then has a warm cache, and only the job uses PROJ in the main thread.
    """

    def __init__(self):
        self._thread = self._process = None

    def do(self, step):
        """Runs a step, and returns when it is done. A step must not raise, and may run another step."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._steps, self._done = queue.SimpleQueue(), queue.SimpleQueue()
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        if threading.current_thread() is self._thread:
            step()
            return
        self._steps.put(step)
        self._done.get()

    def _work(self):
        while True:
            self._steps.get()()
            self._done.put(None)


SIDE_THREAD = SideThread()


def describe_inputs(job, report, errors):
    """Describes each input and each updated output, and sends the descriptions to the host before the work.

    Does not wait for an answer. A row is None if the file does not open. Inputs for which there was no time have no
    row.
    """
    changed = [output["path"] for output in job["outputs"] if output.get("updates")]
    sources = [*job.get("sources", job["inputs"]), *changed][:MAX_NAMED]
    rows, messages = [], []
    if sources:
        SIDE_THREAD.do(lambda: rows.extend(described_in_time(sources, job, messages)))
        report.interim({"inputs": [brief(row, path) for row, path in zip(rows, sources, strict=False)]})
    for level, number, message in messages:
        if level == WARNING and ONCE.search(message):
            errors(level, number, message)
    return rows


def described_in_time(paths, job, messages):
    began = time.monotonic()
    for number, path in enumerate(paths):
        took = time.monotonic() - began if number >= FIRST_INPUTS else 0.0
        if took > MAX_SECONDS_BRIEF:
            return
        yield described_input(path, {**job, "looks": ()} if took > MAX_SECONDS else job, messages)


def run_describe(job, _report):
    """Prints the descriptions of the inputs as a list, in their order. Reads no pixels and no features."""
    print_json([brief(described_input(path, job, []), path) for path in job["inputs"][:MAX_NAMED]])
    return True


def described_input(path, job, messages):
    """The facts that a format stores, the extent in each CRS of `crs`, and PROJ's operations for `changes`.

    None if the file does not open; FAILED if it opens and something else fails.
    """
    dataset = None
    try:
        with quiet() as here:
            dataset = opened(path, here)
            if dataset is None:
                return None
            facts, _ = facts_and_names(path, dataset, is_complete=False)
            if path in job.get("ranges", ()):
                ranged(dataset, facts)
            if has_other_georeferencing(dataset) and facts.get("crs") is None:
                facts.pop("crs", None)  # GDAL finds the position in other ways, so it is not missing
            layers = enumerate(facts.get("layers", ()))
            boxes = [(layer["extent"], dataset.GetLayer(i).GetSpatialRef()) for i, layer in layers]
            if has_pixels(dataset):
                boxes = [(facts["extent"], dataset.GetSpatialRef())]
            changes = job.get("changes", ()) if boxes else ()
            looks = {}
            for name in job.get("looks", ()):
                # after a failure, the host reports what was not examined
                with contextlib.suppress(*FAILURES):
                    looks[name] = look(dataset, name)
            if facts.get("bands") and facts["bands"][0]["type"] in WIDE:
                looks["wide"] = part("values").look(dataset, "wide")
            row = {
                "facts": facts,
                "elsewhere": {name: in_crs(boxes, name) for name in job.get("crs", ())},
                "changes": {"\n".join(change): changed(dataset, boxes, change) for change in changes},
                "looks": looks,
                "boxes": boxes,
                "columns": columns(dataset) if "layers" in facts else None,
            }
            dataset.Close()
        messages += here.messages
    except FAILURES:
        return None if dataset is None else FAILED
    return decoded(row)


def look(dataset, name):
    """The result of a probe. The probe of lengths does not load NumPy, which takes time."""
    return (
        part("lengths").lines_with_heights(dataset)
        if name == "lengths"
        else part("values").look(dataset, name)
    )


def changed(dataset, boxes, change):
    """The operations that PROJ would use for a change of CRS, for the first layer of the dataset."""
    box, crs = boxes[0]
    if box is None and not has_pixels(dataset):  # the format would read the whole file for the extent
        drawn = (
            feature.GetGeometryRef() for feature in itertools.islice(dataset.GetLayer(0), FIRST_FEATURES)
        )
        extents = [geometry.GetEnvelope() for geometry in drawn if geometry and not geometry.IsEmpty()]
        if extents:
            west, east, south, north = zip(*extents, strict=True)
            box = [min(west), min(south), max(east), max(north)]
    return part("transformations").transformation(box, crs, dataset.RasterCount, change)


def in_crs(boxes, name):
    """A flag for degrees, and the box of the data in a CRS; None if PROJ does not know the CRS.

    If the name begins with `?`, the box is not computed, because that takes PROJ milliseconds.
    """
    target = reference(name.removeprefix("?"))
    if target is None:
        return None
    extent = box_in(*boxes[0], target) if len(boxes) == 1 and not name.startswith("?") else None
    return {"degrees": in_degrees(target), "extent": extent}


def brief(row, path):
    """The part of a description that the host uses, limited in size; the first bytes of a file that does not open."""
    if row is None:
        return {"head": head_of(path)}
    if row is FAILED:
        return {"failed": True}
    facts = row["facts"]
    short = {key: facts[key] for key in BRIEF if key in facts}
    if "bands" in facts:
        short["bands"] = facts["bands"][:1]
    if "layers" in facts:
        short["layers"] = [{key: layer[key] for key in BRIEF_LAYER} for layer in facts["layers"][:MAX_LAYERS]]
    return {"facts": short, **{key: row[key] for key in ("elsewhere", "changes", "looks", "columns")}}


def head_of(path):
    """The first bytes of a file in hexadecimal, "" if it is not a file.

    They identify a format that this build lacks.
    """
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            return file.read(HEAD).hex()
    except OSError:
        return ""


def run_identify(job, _report):
    """Prints an object: for every input, the short name of the driver that identifies it, or null."""
    with quiet():
        drivers = {}
        for path in job["inputs"][:MAX_NAMED]:
            driver = gdal.IdentifyDriverEx(path, kinds_of(path) | gdal.OF_MULTIDIM_RASTER)
            drivers[path] = driver and driver.ShortName
        print_json(drivers)
    return True


def describe_outputs(job, inputs, errors):
    """The facts, names and checks of the job's outputs, in their order. `inputs` comes from `describe_inputs`.

    An output that is missing or does not open is an error of the command.
    """
    sources = list(zip(job.get("sources", job["inputs"]), inputs, strict=False))
    origin = OutputOrigin(sources, job.get("expected", ()), Clock(), job.get("compared", range(len(sources))))
    origin = origin._replace(options=tuple(map(str, job.get("options", ()))))
    if job["program"] == "gdal" and len(job["outputs"]) == 1 and job["seconds"] < MAX_AGAIN:
        origin = origin._replace(again=lambda: part("statements").remade(job.get("options", ()), "MEM"))
    if shape := option_value(job.get("options", ()), "--geometry="):
        origin = origin._replace(
            cutting_shape=(shape, option_value(job.get("options", ()), "--geometry-crs="))
        )
    descriptions = []
    for output in job["outputs"]:
        its_origin = origin._replace(updates=output.get("updates", False))
        facts, names, findings = described_output(output["path"], output["kind"], its_origin, errors)
        before = replaced(output.get("replaces"))
        descriptions.append(decoded({"facts": facts, "names": names, "checks": findings, "before": before}))
    return descriptions


def option_value(words, option):
    """The value of an option of the `gdal` program, "" without it."""
    return next((word.removeprefix(option) for word in words if word.startswith(option)), "")


def replaced(path):
    """The facts of the file that an output replaces; None if the file is not visible here, too large or unreadable."""
    if path is None or not os.path.isfile(path) or os.path.getsize(path) > MAX_REPLACED:
        return None
    with quiet() as aside:
        dataset = opened(path, aside, kinds_of(path))
        if dataset is None:
            return None
        facts, _ = facts_and_names(path, dataset)
        ranged(dataset, facts)
        dataset.Close()
    return facts


def ranged(dataset, facts):
    """Adds the lowest and highest value to the facts of each band; returns the rows of `value_ranges`."""
    rows = value_ranges(dataset) if has_pixels(dataset) else []
    for band, row in zip(facts.get("bands", ()), rows, strict=False):
        if row and "min" in row:
            band.update(min=row["min"], max=row["max"], exact=row["exact"])
    return rows


def described_output(path, kind, origin, errors):
    if not os.path.lexists(path):
        errors.fail(f"{os.path.basename(path)} was not created")
        return {}, {}, ()
    if kind in outputs.KINDS:
        return *outputs.KINDS[kind](path), ()
    with quiet() as messages:
        dataset = opened(path, messages, kinds_of(path))
    if dataset is None and (driver := write_only_driver(path)):
        return {"driver": driver, "bytes": outputs.bytes_of(path)}, {}, ()
    if dataset is None:
        errors.take(messages)
        return {}, {}, ()
    with quiet():  # a failure of the description is not a failure of the command
        facts, names = facts_and_names(path, dataset)
        rows = ranged(dataset, facts)
        missing, of = checks.unwritten(dataset, origin)
        if facts["driver"] in OWN_LAYERS:
            for layer in [*facts["layers"], *names["layers"]]:
                layer["fields"] = []  # the format defines the fields
        findings = list(checks.output_checks(path, dataset, facts, rows, origin))
        if part("cog").claims_layout(dataset, origin.options):
            facts["valid_cog"] = valid = part("cog").is_valid(dataset, facts["bytes"])
            findings += [] if valid else [{"code": "cog_unchecked" if valid is None else "cog_invalid"}]
        dataset.Close()
    if missing:
        errors.fail(f"{missing} of {of} blocks were not written, since their compression failed")
    return facts, names, findings
