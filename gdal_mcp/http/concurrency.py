"""Bounds the open requests, in all and of one principal; cancels them when the server ends."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Full(Exception):
    """As many requests are open as may be."""


class RequestLimit:
    def __init__(self, requests: int, each: int) -> None:
        self._requests = requests
        self._each = each
        self._open: set[anyio.CancelScope] = set()
        self._shares: Counter[str] = Counter()  # open requests by principal
        self.closed = False

    @property
    def number(self) -> int:
        return len(self._open)

    @contextmanager
    def request(self) -> Iterator[anyio.CancelScope]:
        """One open request, cancelled by `close`. Raises Full."""
        if self.closed or len(self._open) >= self._requests:
            raise Full
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                yield scope
            finally:
                self._open.discard(scope)

    @contextmanager
    def share(self, principal: str) -> Iterator[None]:
        """One open request of this principal. Raises Full."""
        if self._shares[principal] >= self._each:
            raise Full
        self._shares[principal] += 1
        try:
            yield
        finally:
            self._shares -= Counter([principal])  # which drops what is zero

    def close(self) -> None:
        """Cancels the open requests and admits no new ones."""
        self.closed = True
        for scope in tuple(self._open):
            scope.cancel()
