"""Settings of a server's process, so that it starts fast and does not grow."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# of glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS = 2
_LARGE = 256 << 10  # bytes; results and pictures, which come and go


@contextmanager
def no_gc() -> Iterator[None]:
    """For a start: there is no garbage yet, and each collection would look at everything that was imported."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def freeze_gc() -> None:
    """Ends a start, before there are threads: what was imported is never garbage and is not looked at again.

    glibc gives threads heaps of their own, eight for each processor, which fill with holes as those of calls end. Two were
    enough to keep a server at its size over a thousand calls. What is large is mapped and unmapped, however often: by
    default glibc keeps ever larger pieces in those heaps. Another C library has nothing to set.
    """
    gc.freeze()
    gc.enable()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)


def trim_heap() -> None:
    """Returns free memory to the kernel. Takes a millisecond or two."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
