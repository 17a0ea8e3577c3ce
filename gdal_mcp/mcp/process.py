"""What the process of a server is set to, so that it starts fast and does not grow."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_M_ARENA_MAX = -8  # of glibc's malloc.h
_ARENAS = 2


@contextmanager
def starting() -> Iterator[None]:
    """No collection of garbage in the block: there is none yet, and each round would look at all that was imported."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def stand() -> None:
    """Ends a start, before there are threads. What the server is made of is never garbage and is not looked at again."""
    gc.freeze()
    gc.enable()
    _share_arenas()


def _share_arenas() -> None:
    """Threads have areas of memory of their own with glibc, eight per CPU, which fill with holes as those of calls end.

    Two were enough to keep a server at its size over a thousand calls. Another C library has nothing to set.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
