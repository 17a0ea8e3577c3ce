"""Limits on what calls read, counted before each request: per call, per source, and per principal and day (UTC).

Usage is written to disk when a call ends; until then, this server counts it in memory.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gdal_mcp.settings.remote import RemoteSettings

_LOOK_SECONDS: Final = 0.25  # seconds after which a waiting request checks if its call has ended


class ReadFailed(Exception):
    """A read failed; the message names the source and the reason."""


class Missing(ReadFailed):
    """The address does not exist on its server."""


class Quota(Protocol):
    """Storage for the bytes and requests that a principal has used today."""

    def remote_used(self, principal: str) -> tuple[int, int]: ...

    def record_remote_use(self, principal: str, read: int, requests: int) -> None: ...


@dataclass(slots=True)
class HostUsage:
    """Bytes received from one host, and requests sent to it."""

    read: int = 0
    requests: int = 0


@dataclass(slots=True, eq=False)
class CallBudget:
    """The remaining reads of one call. Setting `ended` ends its requests. Thread-safe."""

    principal: str
    deadline: float  # by time.monotonic()
    bytes_left: int
    requests_left: int
    daily: "DailyQuota"
    read: int = 0
    requests: int = 0
    hosts: dict[str, HostUsage] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def request(self, size: int, meter: "Meter", host: str) -> Iterator[list[int]]:
        """Reserves one request of a source for up to `size` bytes. Raises ReadFailed over a limit.

        The caller stores the number of received bytes in the list.
        """
        with self._lock:
            if self.requests_left < 1:
                raise ReadFailed("this call has reached its limit of requests (`requests_a_call`)")
            if self.bytes_left < size:
                raise ReadFailed("this call has reached its limit of bytes (`bytes_a_call`)")
            self.daily.spend(self.principal, size, 1)
            self.requests_left, self.bytes_left = self.requests_left - 1, self.bytes_left - size
        came = [0]
        try:
            yield came
        finally:
            with self._lock:
                self.bytes_left += size - came[0]
                for usage in (self, meter, self.hosts.setdefault(host, HostUsage())):
                    usage.read, usage.requests = usage.read + came[0], usage.requests + 1
                self.daily.spend(self.principal, came[0] - size, 0)

    def by_host(self) -> list[dict[str, Any]]:
        """Bytes and requests by host for the receipt, including hosts that only redirected."""
        return [
            {"host": host, "read_by": "server", "bytes": usage.read, "requests": usage.requests}
            for host, usage in self.hosts.copy().items()
        ]

    def left(self) -> float:
        """Seconds left. Raises ReadFailed if there are none."""
        seconds = self.deadline - time.monotonic()
        if self.ended.is_set() or seconds <= 0:
            raise ReadFailed("the call ended")
        return seconds


@dataclass(slots=True, eq=False)
class Shares:
    """Limits the concurrent requests of the server, and shares them between principals. Thread-safe.

    A principal can use at most half of the requests that the others leave free, so that several slow ones leave some
    for the next.
    """

    most: int
    _running: Counter[str] = field(default_factory=Counter)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def one(self, call: CallBudget) -> Iterator[None]:
        """Waits until the call's principal may send one more request. Raises ReadFailed if the call ends first."""
        principal = call.principal
        with self._changed:
            while not self._has_room(principal):
                self._changed.wait(min(_LOOK_SECONDS, call.left()))
            self._running[principal] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= Counter([principal])  # this subtraction also removes counts of zero
                self._changed.notify_all()

    def _has_room(self, principal: str) -> bool:
        mine, all_of_them = self._running[principal], self._running.total()
        left = self.most - (all_of_them - mine)
        return all_of_them < self.most and mine < max(left // 2, 1)


@dataclass(slots=True, eq=False)
class Meter:
    """The part of its call's budget that one source has used, and where its redirects may lead."""

    call: CallBudget
    # hosts and folders in the approval, as prefixes of addresses; None: any address that the call may read
    within: tuple[str, ...] | None = None
    read: int = 0
    requests: int = 0


@dataclass(slots=True, eq=False)
class DailyQuota:
    """The reads of principals on this day, including those of running calls. Thread-safe."""

    settings: RemoteSettings
    quota: Quota
    _lock: threading.Lock = field(default_factory=threading.Lock)
    # the usage on disk, read when the last call began or ended
    _stored: dict[str, tuple[int, int]] = field(default_factory=dict)
    _read: Counter[str] = field(default_factory=Counter)  # bytes that running calls have read
    _requests: Counter[str] = field(default_factory=Counter)

    def begin(self, principal: str, deadline: float) -> CallBudget:
        """Creates the budget of a new call. Pass it to `end`."""
        settings = self.settings
        with self._lock:  # also held while reading, so that an older value never replaces a newer one
            self._stored[principal] = self.quota.remote_used(principal)
        return CallBudget(principal, deadline, settings.bytes_a_call, settings.requests_a_call, self)

    def spend(self, principal: str, read: int, requests: int) -> None:
        """Adds to a principal's usage.

        Raises ReadFailed over a limit. Negative values, which return a reservation, never fail.
        """
        with self._lock:
            stored_bytes, stored_requests = self._stored[principal]
            bytes_today = stored_bytes + self._read[principal] + read
            requests_today = stored_requests + self._requests[principal] + requests
            over = bytes_today > self.settings.bytes_a_day or requests_today > self.settings.requests_a_day
            if over and requests:
                raise ReadFailed(
                    "you have reached today's limit of remote data (`bytes_a_day`, `requests_a_day`)"
                )
            self._read[principal] += read
            self._requests[principal] += requests

    def end(self, call: CallBudget) -> None:
        """Records the usage of a call. Call it once all requests of the call have ended."""
        principal = call.principal
        with self._lock:
            self.quota.record_remote_use(principal, call.read, call.requests)
            self._stored[principal] = self.quota.remote_used(principal)
            self._read[principal] -= call.read
            self._requests[principal] -= call.requests
