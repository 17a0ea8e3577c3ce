"""What every server does besides serving, whichever way its clients come: gets ready, tidies up, and ends for certain."""

import os
import signal

import anyio
import anyio.to_thread
import structlog

from gdal_mcp.app import App
from gdal_mcp.mcp.memory import trim_heap
from sandbox.errors import SandboxError

_log = structlog.get_logger()

REAP_SECONDS = 60.0
END_SECONDS = 10.0  # for the containers of cancelled calls to be gone; it takes a fraction of a second


async def get_ready(app: App) -> None:
    """Attests the host and starts the first containers while the client says hello, so that no call waits for them."""
    try:
        await anyio.to_thread.run_sync(app.hosting.keep_warm, abandon_on_cancel=True)
    except Exception as error:  # noqa: BLE001 - each call says it again, and tries again
        _log.warning("not_ready", reason=str(error))


async def reap(app: App) -> None:
    """Another server of this user may die while this one lives; its containers do not wait for its next start."""
    while True:
        await anyio.sleep(REAP_SECONDS)
        await anyio.to_thread.run_sync(trim_heap)
        try:
            removed = await anyio.to_thread.run_sync(app.hosting.reap, abandon_on_cancel=True)
        except SandboxError as error:
            _log.info("not_reaped", reason=str(error))
        else:
            if removed:
                _log.warning("reaped", containers=len(removed))


async def end_on_signal(serving: anyio.CancelScope, app: App) -> None:
    """Threads cannot be interrupted, such as the one that reads stdin, so the process is ended once every call is."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            serving.cancel()
            with anyio.move_on_after(END_SECONDS):
                await _until_quiet(app)
            await anyio.to_thread.run_sync(app.hosting.close)
            app.owner.close()
            os._exit(128 + number)


async def _until_quiet(app: App) -> None:
    while app.pipeline.active:  # noqa: ASYNC110 - the process ends next; no event is worth keeping for that
        await anyio.sleep(0.02)
