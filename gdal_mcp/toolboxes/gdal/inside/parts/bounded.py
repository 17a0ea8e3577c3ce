"""Runs work after an answer is ready, within a time limit.

Python cannot interrupt GDAL or SQLite while a statement runs, so the work runs in a fork of this process, which is
killed.
"""

import json
import os
import select
import signal
import time


def in_time(work, seconds):
    """The JSON result of `work()`; None if it takes too long or fails. Its changes in memory are lost."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as answer:
                json.dump(work(), answer)
        finally:
            os._exit(0)  # does not close or flush anything of the parent
    os.close(writing)
    try:
        return json.loads(read_until(reading, time.monotonic() + seconds) or "null")
    except ValueError:  # the work failed midway
        return None
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def read_until(reading, end):
    """The text read from a pipe; "" if the pipe was not closed in time."""
    parts = []
    while select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts).decode()
        parts.append(part)
    return ""
