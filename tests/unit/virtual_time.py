"""An event loop in which nothing takes time: where all wait for a clock, the clock is put forward."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

_STEPS = 30  # a cancellation or a wake-up passes through a handful of them


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
    """As `anyio.run`, without waiting. Fails the test where all would wait for ever."""
    return anyio.run(function, *arguments, backend_options={"loop_factory": _Loop})


async def settle() -> None:
    """Returns when every task has gone as far as it can, at the same time of the clock."""
    for _ in range(_STEPS):
        await anyio.lowlevel.checkpoint()
