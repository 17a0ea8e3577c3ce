"""Garbage collection and heap of a server's process, so that it starts fast and does not grow."""

import ctypes
import gc

# of glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS = 2
_LARGE = 256 << 10  # bytes; results and previews, which come and go


def freeze_gc() -> None:
    """Call it at the end of startup, before there are threads: imported objects are not scanned again.

    glibc gives threads up to eight heaps per processor, which fragment as calls end. With two, a server kept its size over
    a thousand calls. Large blocks are always mapped and unmapped: by default glibc keeps ever larger ones in those heaps.
    Other C libraries have nothing to set.
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
