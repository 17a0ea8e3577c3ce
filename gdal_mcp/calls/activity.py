"""The calls that are running in this process: their stages, their cancellation, and announcements of what changed.

Invariants:
* a cancelled request ends its call, unless its client only stopped waiting or another request has joined the call;
  the last of them ends it;
* no request joins a call that is being cancelled;
* a call that a person cancels ends, even if requests wait for it; so do all calls when the server ends.

For one event loop; only a call's progress may be set from other threads. Listeners are notified in the order in which
calls ended. Changes by other processes are not seen.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from gdal_mcp.calls.invocation import Reply

# seconds between a client's cancellation and its reason, which arrive separately; a closed connection sends no reason
REASON_SECONDS: Final = 0.1
# seconds until an identical call can join one that only reads: the shortest time limit of a known client. A younger
# call is cheap to make again, and its input may have changed since the first one read it.
JOIN_READS_AFTER: Final = 5.0


@dataclass(eq=False, slots=True)
class RunningCall:
    """One running call. `stage` is a phrase for people, `fraction` is from 0 to 1."""

    call_id: str
    tool: str
    principal: str
    client: str
    begun: float  # seconds since the epoch
    stage: str = "preparing"
    fraction: float = 0.0
    message: str = ""
    outputs: tuple[str, ...] = ()  # paths, once they are known
    ended_by: str = ""  # the user who cancelled it on this server
    sender: object = None  # the connection and id of its request, as the transport names them
    plan: str = ""  # digest of its plan, once it is made, if an identical call may join this one
    started: bool = False  # True if it no longer waits for approval or for a free slot
    arguments: Mapping[str, Any] = field(default_factory=dict)
    writes: bool = False
    timed_out: bool = False  # True if its client stopped waiting without asking for the call to end
    waiting: int = 1  # number of requests that wait for its reply
    over: bool = False  # set after its last step
    reply: "Reply | None" = None
    ended: anyio.Event = field(default_factory=anyio.Event)
    # set when the reason for the cancellation is known
    reason: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=lambda: anyio.CancelScope(shield=True))

    async def end_with_request(self) -> None:
        """Waits until the request is cancelled, then ends the call if no other request waits for it."""
        try:
            await anyio.sleep_forever()
        finally:
            if not self.over:
                with anyio.move_on_after(REASON_SECONDS, shield=True):
                    await self.reason.wait()
                self._leave()

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Counts an identical request that waits for the reply of this call."""
        self.waiting += 1
        self.timed_out = False  # a client waits again, so it can also cancel
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        """Ends the call if no request waits for it, unless its client only stopped waiting."""
        self.waiting -= 1
        if self.waiting == 0 and not self.timed_out:
            self.scope.cancel()


@dataclass(slots=True, eq=False)
class Activity:
    join_reads_after: float = JOIN_READS_AFTER
    _running: dict[str, RunningCall] = field(default_factory=dict)

    @contextmanager
    def of(
        self, call_id: str, tool: str, principal: str, client: str, sender: object
    ) -> Iterator[RunningCall]:
        call = RunningCall(call_id, tool, principal, client, time.time(), sender=sender)
        self._running[call_id] = call
        try:
            yield call
        finally:
            del self._running[call_id]
            call.ended.set()

    def same(self, principal: str, plan: str, arguments: Mapping[str, Any]) -> RunningCall | None:
        """A call of this principal with this plan, which an identical call can join: one that has started, or one that
        its client sends again because it has stopped waiting for it.

        Calls that only read must have the same arguments too: some arguments only choose what is answered, such as the
        call that `validate_call` checks after its container described the inputs.
        """
        oldest = time.time() - self.join_reads_after
        calls = (
            call
            for call in self.all()
            if (call.principal, call.plan) == (principal, plan)
            and not call.scope.cancel_called
            and (call.started or (call.timed_out and call.waiting == 0))
        )
        return next(
            (call for call in calls if call.writes or (call.begun <= oldest and call.arguments == arguments)),
            None,
        )

    def cancelled(self, sender: object, *, timed_out: bool) -> None:
        """Records why a client cancelled a request. A call whose client only stopped waiting goes on."""
        for call in self.all():
            if sender is not None and call.sender == sender:
                call.timed_out = call.timed_out or timed_out
                call.reason.set()

    def end(self) -> None:
        """Ends every call when the server ends."""
        for call in self.all():
            call.reason.set()
            call.scope.cancel()

    def all(self) -> tuple[RunningCall, ...]:
        """The running calls, oldest first."""
        return tuple(self._running.values())

    def cancel(self, call_id: str, by: str) -> bool:
        """Cancels a call for a user of this server: its container is stopped and removed. False if it is not running."""
        call = self._running.get(call_id)
        if call is None:
            return False
        call.ended_by = call.ended_by or by
        call.scope.cancel()
        return True


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call whose record changed, with the URIs of its outputs that changed.

    If there are such outputs, the principal's list of outputs changed too.
    """

    principal: str
    call_id: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Announces the changes made by the end of a call, or by an undo."""

    listeners: list[Callable[[ChangedCall], None]] = field(default_factory=list)

    def announce(self, changed: ChangedCall) -> None:
        for listener in self.listeners:
            listener(changed)
