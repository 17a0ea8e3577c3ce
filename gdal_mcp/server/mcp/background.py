"""Background work of every server, whatever its transport: warm up, tidy up, and shut down reliably."""

import ctypes
import gc
import os
import signal
import sys

import anyio
import anyio.to_thread
import structlog

from gdal_mcp.server.app import App
from sandbox.errors import SandboxError

_log = structlog.get_logger()

# parameters in glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS = 2
_LARGE = 256 << 10  # bytes; results and previews, which are freed soon, are larger
# seconds that a Python thread may run before another one takes over. While calls are prepared in threads, the event
# loop waits for that long each time it wakes; Python's default is 5 ms. With a tenth of that, beside three calls, the
# p95 of `ping` fell from 7.8 to 5.9 ms in one measurement under load.
_SWITCH_SECONDS = 0.0005
REAP_SECONDS = 60.0
# seconds for removing the containers of cancelled calls, which takes a fraction of a second
END_SECONDS = 10.0
UNREAD_SECONDS = 60.0  # seconds for a client that has left to read the last answers


def tune_runtime() -> None:
    """Tunes the garbage collector, the switching of threads and the memory allocator. Call it at the end of startup.

    Imported objects are not scanned again, and threads switch more often. glibc gives threads up to eight heaps per
    processor, which become fragmented as calls end. With two heaps, the memory of a server did not grow over a
    thousand calls. Large blocks are always mapped and unmapped: by default, glibc stores larger and larger ones in
    those heaps. Other C libraries have no such parameters. Call it before there are threads.
    """
    gc.freeze()
    gc.enable()
    sys.setswitchinterval(_SWITCH_SECONDS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)


async def get_ready(app: App) -> None:
    """Attests the host and starts the first containers during the client's handshake, so that no call waits for them."""
    try:
        await anyio.to_thread.run_sync(app.hosting.keep_warm, abandon_on_cancel=True)
    except Exception as error:  # noqa: BLE001 - the outermost handler of this task: each call tries again, and reports the error
        _log.warning("not_ready", reason=str(error), exc_info=not isinstance(error, SandboxError))


async def reap(app: App) -> None:
    """Removes the containers of this user's dead servers, and returns free memory to the kernel, once in a minute."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await anyio.sleep(REAP_SECONDS)
        if trim is not None:  # only glibc has this function
            await anyio.to_thread.run_sync(trim, 0)
        try:
            removed = await anyio.to_thread.run_sync(app.hosting.reap, abandon_on_cancel=True)
        except SandboxError as error:
            _log.info("not_reaped", reason=str(error))
        except Exception as error:  # noqa: BLE001 - the outermost handler of this task: without it the server would end
            _log.warning("not_reaped", reason=str(error), exc_info=True)
        else:
            if removed:
                _log.warning("reaped", containers=len(removed))


async def end_on_signal(serving: anyio.CancelScope, app: App) -> None:
    """Ends the process after a signal, when every call has ended.

    The process must be ended because threads, such as one that reads a terminal, cannot be interrupted.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            serving.cancel()
            await _end(app, 128 + number)


async def end_if_unread(app: App) -> None:
    """Ends the process a minute after its client has left, unless this task is cancelled because it ends by itself."""
    await anyio.sleep(UNREAD_SECONDS)
    _log.warning("output_unread")
    await _end(app, 1)


async def _end(app: App, code: int) -> None:
    app.pipeline.activity.end()
    with anyio.CancelScope(shield=True):  # the server cancels its other tasks when it ends
        with anyio.move_on_after(END_SECONDS):
            while app.pipeline.active:  # noqa: ASYNC110 - the process ends next; an event is not worth keeping
                await anyio.sleep(0.02)
        await anyio.to_thread.run_sync(app.hosting.close)
    app.owner.close()
    os._exit(code)
