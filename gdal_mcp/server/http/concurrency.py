"""Bounds the number of open requests, in total and for each principal; cancels them when the server ends."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio


class LimitExceeded(Exception):
    """The limit of open requests is reached."""


@dataclass(slots=True, eq=False)
class RequestLimit:
    requests: int
    each: int  # the limit for one principal
    closed: bool = False
    _open: set[anyio.CancelScope] = field(default_factory=set)
    _shares: Counter[str] = field(default_factory=Counter)  # open requests by principal

    @contextmanager
    def request(self) -> Iterator[anyio.CancelScope]:
        """Counts one open request, which `close` cancels. Raises LimitExceeded."""
        if self.closed or len(self._open) >= self.requests:
            raise LimitExceeded
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                yield scope
            finally:
                self._open.discard(scope)

    @contextmanager
    def per_principal(self, principal: str) -> Iterator[None]:
        """Counts one open request of this principal. Raises LimitExceeded."""
        if self._shares[principal] >= self.each:
            raise LimitExceeded
        self._shares[principal] += 1
        try:
            yield
        finally:
            self._shares -= Counter([principal])  # subtraction drops zero counts

    def close(self) -> None:
        """Cancels the open requests and admits no new ones."""
        self.closed = True
        for scope in tuple(self._open):
            scope.cancel()
