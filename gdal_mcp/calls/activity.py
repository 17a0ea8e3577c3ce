"""The calls that are running in this process: what they do, how a person cancels one, and who hears what its end changed.

For one event loop; a call's progress alone may be set from other threads. Listeners hear of changes in the order in which calls
ended; changes by other processes are not seen.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(eq=False, slots=True)
class Running:
    """One call under way. `stage` is in plain words, `fraction` from 0 to 1."""

    call_id: str
    tool: str
    principal: str
    client: str
    begun: float  # seconds since the epoch
    stage: str = "preparing"
    fraction: float = 0.0
    message: str = ""
    outputs: tuple[str, ...] = ()  # paths, as soon as they are known
    ended_by: str = ""  # who cancelled it here
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    _running: dict[str, Running] = field(default_factory=dict)

    @contextmanager
    def of(self, call_id: str, tool: str, principal: str, client: str) -> Iterator[Running]:
        made = Running(call_id, tool, principal, client, time.time())
        self._running[call_id] = made
        try:
            yield made
        finally:
            del self._running[call_id]

    def all(self) -> tuple[Running, ...]:
        """Oldest first."""
        return tuple(self._running.values())

    def cancel(self, call_id: str, by: str) -> bool:
        """Cancels a call as its client could: its container is stopped and removed. False if it is not running."""
        found = self._running.get(call_id)
        if found is None:
            return False
        found.ended_by = found.ended_by or by
        found.scope.cancel()
        return True


@dataclass(frozen=True, slots=True)
class Changed:
    """A principal's call whose record changed, and the URIs of changed outputs; with any, the list of outputs too."""

    principal: str
    call_id: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Announces what the end of a call, or an undo, changed."""

    listeners: list[Callable[[Changed], None]] = field(default_factory=list)

    def tell(self, changed: Changed) -> None:
        for listener in self.listeners:
            listener(changed)
