"""How many requests are open at once, in all and of one principal; all are cancelled when the server ends."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Full(Exception):
    """There is no room for this request now."""


class RequestLimit:
    """For one event loop."""

    def __init__(self, requests: int, each: int) -> None:
        self._requests = requests
        self._each = each
        self._open: set[anyio.CancelScope] = set()
        self._of: Counter[str] = Counter()
        self.closed = False

    @property
    def number(self) -> int:
        """Requests that are open."""
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
        if self._of[principal] >= self._each:
            raise Full
        self._of[principal] += 1
        try:
            yield
        finally:
            self._of[principal] -= 1
            if not self._of[principal]:
                del self._of[principal]

    def close(self) -> None:
        """From now on no request begins, and those that are open are cancelled."""
        self.closed = True
        for scope in tuple(self._open):
            scope.cancel()
