"""Reports the progress of a call, from the thread that runs it to the client that waits for it.

Invariants:
* progress only grows, and every report has a message;
* at most ten reports a second are sent, including the last one;
* the reporter never waits: for a slow client, older reports are dropped.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

import anyio
from mcp.server.context import ServerRequestContext

from gdal_mcp.toolboxes.untrusted import shown_text

Tell = Callable[[float, str], None]  # a fraction and a message; may be called from any thread
Send = Callable[[float, float | None, str | None], Awaitable[None]]

GAP: Final = 0.125  # seconds between two reports, so that with the last one at most nine are sent in a second
RUNNING: Final = "running"
_MAX_WORDS: Final = 100  # characters of a message

_Result = TypeVar("_Result")


def sanitize(tell: Tell, *, locked: bool) -> Tell:
    """Sanitizes the progress messages of a container: one visible line, and in lockdown only the fraction."""
    return lambda fraction, message: tell(
        fraction, RUNNING if locked or not message.strip() else shown_text(message, _MAX_WORDS)
    )


async def with_progress(ctx: ServerRequestContext, work: Callable[[Tell], Awaitable[_Result]]) -> _Result:
    """Runs the work, and sends its progress if the client requested it."""
    if ctx.meta is None or "progress_token" not in ctx.meta:
        return await work(lambda _fraction, _message: None)
    relay = Relay(ctx.session.report_progress)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(relay.run)
        try:
            result = await work(relay.tell)
        except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
            failure = error
        relay.stopped.set()
    if failure is not None:
        raise failure
    return result


@dataclass(slots=True, eq=False)
class Relay:
    send: Send
    _newest: tuple[float, str] = (-1.0, "")
    _sent: float = -1.0
    # when it is set, the newest report is sent as the last one
    stopped: anyio.Event = field(default_factory=anyio.Event)

    def tell(self, fraction: float, message: str) -> None:
        if fraction >= self._newest[0]:
            self._newest = (fraction, message)

    async def run(self) -> None:
        """Sends reports until the relay is stopped, or the client is gone."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            ended = False
            while not ended:
                with anyio.move_on_after(GAP):
                    await self.stopped.wait()
                ended = self.stopped.is_set()
                fraction, message = self._newest
                if fraction > self._sent:
                    await self.send(fraction, 1.0, message or RUNNING)
                    self._sent = fraction
