"""Connections that only go to checked addresses, and end with their request's deadline or their call."""

import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import httpcore2

from gdal_mcp.remote.budgets import CallBudget

_SLICE: Final = 0.25  # seconds after which a silent read checks if its call has ended


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of the current thread's request, by time.monotonic()."""

    call: CallBudget
    until: float


DEADLINE: ContextVar[Deadline] = ContextVar("deadline")


class CheckedNetwork(httpcore2.NetworkBackend):
    """A network backend that connects only to the addresses that `checked` returns for a host and port."""

    def __init__(self, checked: Callable[[str, int], Sequence[str]]) -> None:
        self._checked = checked
        self._plain = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        *others, last = self._checked(host, port)
        DEADLINE.get().call.left()  # the lookup may be slow, so the call may have ended meanwhile
        for address in others:
            try:
                return DeadlineStream(
                    self._plain.connect_tcp(address, port, timeout, local_address, socket_options)
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                DEADLINE.get().call.left()
        return DeadlineStream(self._plain.connect_tcp(last, port, timeout, local_address, socket_options))


class DeadlineStream(httpcore2.NetworkStream):
    """A connection whose reads end at the deadline, even if bytes keep arriving, and when their call ends."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        deadline = DEADLINE.get()
        silent = time.monotonic() + (timeout or _SLICE)
        while True:
            left = min(deadline.until, silent) - time.monotonic()
            if left <= 0 or deadline.call.ended.is_set():
                raise httpcore2.ReadTimeout
            try:
                return self._inner.read(max_bytes, min(left, _SLICE))
            except httpcore2.ReadTimeout:
                continue

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
