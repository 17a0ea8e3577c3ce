"""What the process of a server is set to, so that it starts fast and does not grow."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# of glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS = 2
_LARGE = 256 << 10  # bytes; results and pictures, which come and go


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
    _hold_memory_level()


def _hold_memory_level() -> None:
    """Threads have areas of memory of their own with glibc, eight per CPU, which fill with holes as those of calls end.

    Two were enough to keep a server at its size over a thousand calls. What is large is asked of the kernel and given
    back to it, however often: by default glibc keeps ever larger pieces in those areas. Another C library has nothing to set.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)


def give_back() -> None:
    """Returns to the kernel what is free between what is in use. Takes a millisecond or two."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
