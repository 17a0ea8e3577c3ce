"""Runs work after an answer is ready, within a time limit.

Neither GDAL nor SQLite can be interrupted from Python while a statement runs, so the work is done in a copy of this process, which is ended.
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
            os._exit(0)  # nothing of the parent's is closed or flushed
    os.close(writing)
    try:
        return json.loads(read_until(reading, time.monotonic() + seconds) or "null")
    except ValueError:  # it failed midway
        return None
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def read_until(reading, end):
    """Everything read from a pipe, "" if it was not closed in time."""
    parts = []
    while select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts).decode()
        parts.append(part)
    return ""
