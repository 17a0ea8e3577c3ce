"""Background work of every server, whatever its transport: warm up, tidy up, and shut down reliably."""

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
END_SECONDS = 10.0  # for removing the containers of cancelled calls, which takes a fraction of a second


async def get_ready(app: App) -> None:
    """Attests the host and starts the first containers during the client's handshake, so that no call waits for them."""
    try:
        await anyio.to_thread.run_sync(app.hosting.keep_warm, abandon_on_cancel=True)
    except Exception as error:  # noqa: BLE001 - each call tries again, and reports it
        _log.warning("not_ready", reason=str(error))


async def reap(app: App) -> None:
    """Removes the containers of this user's servers that died, without waiting for their next start."""
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
    """Ends the process once every call has ended: threads, such as the one that reads stdin, cannot be interrupted."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            serving.cancel()
            with anyio.move_on_after(END_SECONDS):
                while app.pipeline.active:  # noqa: ASYNC110 - the process ends next; an event is not worth keeping
                    await anyio.sleep(0.02)
            await anyio.to_thread.run_sync(app.hosting.close)
            app.owner.close()
            os._exit(128 + number)
