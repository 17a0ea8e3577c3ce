"""An event loop in which nothing takes time: when all tasks wait for the clock, the clock advances."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

_STEPS = 30  # a cancellation or a wake-up needs a few passes of the loop


class _Instant(selectors.SelectSelector):
    def __init__(self, loop: "_Loop") -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "all wait, and nothing is left that could wake anybody"
        self._loop.now += max(timeout, 0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    now = 0.0

    def __init__(self) -> None:
        super().__init__(_Instant(self))

    def time(self) -> float:
        return self.now


def run(function: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
    """Like `anyio.run`, without waiting. Fails the test if all tasks would wait forever."""
    return anyio.run(function, *arguments, backend_options={"loop_factory": _Loop})


async def settle() -> None:
    """Returns when no task can continue without the clock advancing."""
    for _ in range(_STEPS):
        await anyio.lowlevel.checkpoint()
