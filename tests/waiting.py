"""Waiting for a condition that other threads or processes fulfil, with a time limit."""

import threading
import time
from collections.abc import Callable


def until(happened: Callable[[], object], seconds: float = 120.0) -> None:
    """Returns as soon as the condition holds; fails the test after a limit far above any real duration."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        pause.wait(0.02)
