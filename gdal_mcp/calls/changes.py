"""Announces to listeners in this process what the end of a call, or an undo, changed.

On the event loop, in the order in which calls ended. Changes by other processes are not seen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gdal_mcp.calls.context import Done


@dataclass(frozen=True, slots=True)
class Changed:
    """A principal's call whose record changed, and the URIs of changed outputs; with any, the list of outputs too."""

    principal: str
    call_id: str
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    listeners: list[Callable[[Changed], None]] = field(default_factory=list)

    def tell(self, changed: Changed) -> None:
        for listener in self.listeners:
            listener(changed)


def changed_by(principal: str, call_id: str, done: Done | None) -> Changed:
    """What a call changed, however it ended."""
    published = done.published if done else None
    if published is None:
        return Changed(principal, call_id)
    moved = [located for one in published.moved for located in (one.source, one.target)]
    places = [*(file.located for file in published.files), *published.replaced, *published.removed, *moved]
    return Changed(principal, call_id, tuple(dict.fromkeys(located.uri for located in places)))
