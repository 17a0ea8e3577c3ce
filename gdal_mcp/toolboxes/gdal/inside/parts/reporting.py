"""Collects GDAL's messages, reports progress, and prints the output of programs."""

import ctypes
import importlib
import json
import math
import re
import sys
import time

from osgeo import gdal

MAX_ERRORS = 100
WARNING, FAILURE = 2, 3
OUT_OF_MEMORY = 2  # CPLE_OutOfMemory
# messages of libraries that report no such error number
MEMORY_WORDS = ("out of memory", "cannot allocate", "bad_alloc")
# the statement that SQLite repeats after its message, with an arrow below
ECHO = re.compile(r"(?<=[^\n])\n {2}(?:SELECT|WITH)\b.*", re.DOTALL | re.IGNORECASE)
# GDAL knows these names of CRSs in GML, but also tries to fetch them for each geometry
GML_NAME = re.compile(r"Cannot import http://www\.opengis\.net/gml/srs/epsg\.xml#\d+ due to .*")
SHOWN = {}  # paths of copies that a job reads, and of the workspace files that they replace
LABELS = {WARNING: "Warning", FAILURE: "ERROR", 4: "FATAL ERROR"}

# also has the symbols of the libraries that the extension is linked with
library = ctypes.CDLL(gdal._gdal.__file__)
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int, ctypes.c_char_p)
library.CPLSetErrorHandler.argtypes, library.CPLSetErrorHandler.restype = [HANDLER], HANDLER


def part(name):
    """A module next to this one that is compiled only when it is needed."""
    return importlib.import_module(f"gdal_mcp.toolboxes.gdal.inside.parts.{name}")


SKIPPED = set()  # codes of checks that this job's data was too large for


def skip(*codes):
    """Records checks that were not made because the data is too large or cannot be read; the answer names them."""
    SKIPPED.update(codes)


def decoded(value):
    """A value with all bytes decoded to text, also in lists and dicts.

    GDAL's binding returns bytes for text that is not UTF-8.
    """
    if isinstance(value, dict):
        return {decoded(key): decoded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [decoded(inner) for inner in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Errors:
    """Collects GDAL's messages, each once with its count, and prints them as the programs do unless `quiet`.

    Works below GDAL's Python binding, in which a message that is not UTF-8 makes the running call fail.
    """

    def __init__(self, *, quiet=False):
        self._handler = HANDLER(self._on_message)
        self._quiet = quiet
        self.messages = {}  # count by level, number and message
        self.failures = 0
        self.memory = False
        self.ignored = ()  # endings of messages that this job ignores

    def __enter__(self):
        library.CPLPushErrorHandler(self._handler)
        self._before = library.CPLSetErrorHandler(self._handler)  # handles messages of GDAL's own threads
        return self

    def __exit__(self, *_):
        library.CPLSetErrorHandler(self._before)
        library.CPLPopErrorHandler()

    def _on_message(self, level, number, message):
        try:
            self(level, number, decoded(message))
        except MemoryError:  # the text of the message is lost, but the failure is counted
            self.failures += level >= FAILURE
            self.memory = True

    def __call__(self, level, number, message):
        # GDAL first tries to open a schema in JSON as a file; the names of files here are absolute paths
        if level not in LABELS or message.startswith("Cannot open file '{"):
            return
        if (self.ignored and message.endswith(self.ignored)) or GML_NAME.fullmatch(message):
            return
        message = ECHO.sub("", as_shown(message))
        if level >= FAILURE:
            self.failures += 1
            words = message.lower()
            self.memory |= number == OUT_OF_MEMORY or any(word in words for word in MEMORY_WORDS)
        entry = (level, number, message)
        if entry not in self.messages and len(self.messages) == MAX_ERRORS:
            return
        self.messages[entry] = self.messages.get(entry, 0) + 1
        if not self._quiet and self.messages[entry] == 1:
            sys.stderr.write(f"{LABELS[level]} {number}: {message}\n")
            sys.stderr.flush()

    def forgiven(self):
        """Turns the errors of a command that skips errors on request, and succeeded, into warnings.

        Returns a list with a check if there were any.
        """
        failures, self.failures = self.failures, 0
        self.messages = {(WARNING, *entry[1:]): count for entry, count in self.messages.items()}
        return [{"code": "features_skipped", "count": failures}] if failures else []

    @property
    def rows(self):
        keys, names = ("level", "number", "message", "count"), {2: "warning", 3: "error", 4: "error"}
        return [
            dict(zip(keys, (names[level], number, message[:2000], count), strict=True))
            for (level, number, message), count in self.messages.items()
        ]

    def fail(self, message):
        self(FAILURE, 1, message)

    def fail_first(self, message):
        """Puts a message before those of GDAL, so that it remains when a long error is truncated."""
        self.messages = {(FAILURE, 1, message): 1, **self.messages}

    def take(self, other):
        """Adds the messages of another collector."""
        for level, number, message in other.messages:
            self(level, number, message)
        self.memory |= other.memory


def quiet():
    """A collector for work that may fail without failing the command. Prints nothing."""
    return Errors(quiet=True)


class ProgressReporter:
    """Reports the progress of a GDAL job, named `title` if GDAL has no message. A quick job reports none.

    The program's part of the scale ends at `share`; the rest is for describing and drawing the outputs.
    """

    QUICK = 0.1  # seconds; the result of a quick job would reach the client earlier

    def __init__(self, report, title, share):
        self._report, self._title, self._share = report, title, share
        self._from = time.monotonic() + self.QUICK
        self.attach = report.attach

    def progress(self, fraction, message=""):
        """Reports the progress of the program, from 0 to 1."""
        if time.monotonic() >= self._from:
            self._report.progress(min(max(fraction, 0.0), 1.0) * self._share, message or self._title)

    def phase(self, fraction, message):
        """Reports the progress of the whole job, after its program has ended."""
        if time.monotonic() >= self._from:
            self._report.progress(fraction, message, at_once=True)


def as_shown(text):
    for copy, path in SHOWN.items():
        text = text.replace(copy, path)
    return text


def print_text(text):
    sys.stdout.write(as_shown(text))
    sys.stdout.flush()


def print_json(value):
    print_text(json.dumps(decoded(value), allow_nan=False))


def plain(number):
    """A number, or its name as text if JSON cannot represent it."""
    return number if number is None or math.isfinite(number) else str(number)
