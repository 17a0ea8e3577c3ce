"""Waiting for something that happens elsewhere, with a bound."""

import threading
import time
from collections.abc import Callable


def until(happened: Callable[[], object], seconds: float = 120.0) -> None:
    """Returns as soon as it happened; fails the test when it has not within a bound that nothing comes near."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        pause.wait(0.02)
