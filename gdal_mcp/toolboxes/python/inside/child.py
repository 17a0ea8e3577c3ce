"""The process that runs the caller's code.

Whatever the code does, it does in this process, so nothing in it is trusted afterwards.
"""

import ast
import contextlib
import ctypes
import fcntl
import gc
import importlib
import io
import json
import linecache
import math
import os
import select
import signal
import struct
import sys
import traceback
import types

NAME = "code.py"  # the code's file name in tracebacks
PACKAGES = "/opt/gdal-mcp/packages"
FONTS = "/opt/gdal-mcp/matplotlib"  # Matplotlib's list of fonts, as the image's build wrote it
SCRATCH = "/tmp/matplotlib"
HEADER = struct.Struct(">cI")
WARM = b"W"
EARLY = (
    *("numpy", "pandas", "shapely", "pyproj", "pyogrio", "geopandas", "rasterio", "xarray", "networkx"),
    *("matplotlib.pyplot", "scipy", "scipy.ndimage", "scipy.spatial", "sklearn"),
)
MAX_FIGURES, MAX_FIGURE = 4, 1 << 20  # the number of figures, and bytes of one
# inches of the longer side of a figure, and its dots per inch, finest first
INCHES, DOTS = 8.0, (100, 72, 50, 30)
SPARE = 8 << 20  # bytes freed to report that the memory is used up
MAX_DEPTH = 50
MAX_TEXT = 20_000
BITS = 64


def keep_only(order, printed, report):
    """Closes all descriptors except 0 (empty), 1 (printed text), 2 (the container's stderr), 3 (the job) and 4 (the
    report).
    """
    empty = os.open("/dev/null", os.O_RDONLY)
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20) for descriptor in (empty, printed, order, report)]
    for place, descriptor in zip((0, 1, 3, 4), high, strict=True):
        os.dup2(descriptor, place, inheritable=place < 3)
    os.closerange(5, 1 << 20)


def main(helper):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write over the limit then raises an error in the code
    sys.path.insert(0, PACKAGES)
    # this is safe, because the code can do anything anyway; the wheels' GDALs have fewer drivers and would complain
    os.environ.pop("GDAL_SKIP", None)
    os.environ.update(MPLBACKEND="Agg", MPLCONFIGDIR=SCRATCH, JOBLIB_MULTIPROCESSING="0")
    job = await_job()
    gc.enable()
    fonts()
    helper.inputs, helper.outputs, helper.arguments = job["named"], job["written"], job["arguments"]
    helper.progress = lambda fraction, message="": send_json(
        b"P", {"fraction": float(fraction), "message": str(message)[:200]}
    )
    helper.result = lambda value: send(b"R", result_of(value, job["result_bytes"]))
    sys.modules["gdal_mcp_job"] = helper
    os.chdir("/tmp")
    spare = bytearray(SPARE)
    try:
        value = execute(job["code"])
        if value is not None:
            text = repr(value)
            ending = f" [truncated: {MAX_TEXT} of {len(text)} characters]" if len(text) > MAX_TEXT else ""
            send_json(b"V", text[:MAX_TEXT] + ending)
        figures()
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            failed(leaving)
    # the caller's code may raise anything; the exception is part of the call's result
    except BaseException as error:
        del spare
        failed(error)
    finish()


def await_job():
    """Waits for the job. On the command to warm up, imports the modules that most code imports."""
    modules = None
    while True:
        if modules is None or select.select([3], [], [], 0)[0]:
            first = os.read(3, 1)
            if not first:
                os._exit(0)
            if first != WARM:
                break
            modules = iter(EARLY)
        elif (name := next(modules, None)) is not None:
            with contextlib.suppress(Exception):  # code that imports the module gets the same error
                importlib.import_module(name)
        else:
            modules = None
    return json.loads(read(int.from_bytes(first + read(3), "big")))


def read(count):
    data = b""
    while len(data) < count:
        piece = os.read(3, count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def fonts():
    os.makedirs(SCRATCH, exist_ok=True)
    for name in os.listdir(FONTS) if os.path.isdir(FONTS) else ():
        with open(f"{FONTS}/{name}", "rb") as source, open(f"{SCRATCH}/{name}", "wb") as copy:
            copy.write(source.read())


def execute(code):
    """Runs the code as a notebook runs a cell. Returns the value of the last expression, else None."""
    linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)
    body = ast.parse(code, NAME)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    module = types.ModuleType("__main__")
    sys.modules["__main__"], sys.argv = module, [NAME]
    if "osgeo" in code:
        from osgeo import gdal, ogr, osr

        for library in (gdal, ogr, osr):
            library.UseExceptions()
    exec(compile(body, NAME, "exec"), module.__dict__)
    return eval(compile(ast.Expression(last.value), NAME, "eval"), module.__dict__) if last else None


def result_of(value, most):
    text = json.dumps(plain(value, "result", set()), allow_nan=False, ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    if len(data) > most:
        raise ValueError(
            f"result() was given {len(data)} bytes of JSON, and {most} fit: write them to an output"
        )
    return data


def plain(value, where, above):
    """Converts a value to JSON: NaN and infinities become null, integers of more than 64 bits become text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() < BITS else str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if id(value) in above or len(above) >= MAX_DEPTH:
        raise ValueError(f"{where[:200]} holds itself, or is deeper than {MAX_DEPTH} levels")
    above = above | {id(value)}
    if isinstance(value, dict):
        return {str(key): plain(inner, f"{where}[{key!r}]", above) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner, f"{where}[{number}]", above) for number, inner in enumerate(value)]
    return plain(nearer(value), where, above)


def nearer(value):
    """Converts an object of a library to something closer to JSON."""
    pandas = sys.modules.get("pandas")
    if pandas and (value is pandas.NaT or value is pandas.NA):
        return None
    if hasattr(value, "to_authority"):  # a CRS, whose dictionary has less information
        return value.to_string()
    # pandas would keep only one of the rows with the same index
    if hasattr(value, "iloc") and not value.index.is_unique:
        value = value.reset_index()
    for way in ("__geo_interface__", "to_dict", "tolist", "isoformat"):
        if hasattr(value, way) and not isinstance(value, type):
            converter = getattr(value, way)
            return converter() if callable(converter) else converter
    # a generator, a range, the keys of a dictionary
    return list(value) if hasattr(value, "__iter__") and not isinstance(value, bytes | type) else str(value)


def figures():
    """Yields the open figures as PNG, each in the finest resolution that fits the limit."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums()[:MAX_FIGURES] if pyplot else ():
        figure = pyplot.figure(number)
        share = min(1.0, INCHES / max(*figure.get_size_inches(), 0.1))
        for dots in DOTS:
            place = io.BytesIO()
            figure.savefig(place, format="png", dpi=dots * share)
            if place.tell() <= MAX_FIGURE:
                send(b"F", place.getvalue())
                break


def failed(error):
    """Reports the error with the lines of the code itself, not of the libraries it called. The place comes first,
    because the rest may be cut.
    """
    summary = current = traceback.TracebackException.from_exception(error)
    while current is not None:
        current.stack[:] = [frame for frame in current.stack if frame.filename == NAME]
        before = current.__cause__ or current.__context__
        if before is not None and all(frame.filename != NAME for frame in before.stack):
            # the error occurred only inside a library
            current.__cause__ = current.__context__ = before = None
        current = before
    trace = "".join(summary.format())
    last_lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    # a SyntaxError has its own line number
    lines = [frame.lineno for frame in summary.stack] or [getattr(error, "lineno", None)]
    at = f"{NAME}, line {lines[-1]}: " if lines[-1] else ""
    send_json(
        b"E", {"message": f"{at}{last_lines[-1]}", "trace": trace, "memory": isinstance(error, MemoryError)}
    )


def finish():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the code may have closed the stream
            stream.flush()
    ctypes.CDLL(None).fflush(None)
    send(b"D", b"")
    os._exit(0)


def send(kind, payload):
    data = memoryview(HEADER.pack(kind, len(payload)) + payload)
    while data:
        data = data[os.write(4, data) :]


def send_json(kind, value):
    send(kind, json.dumps(value, ensure_ascii=True).encode())
