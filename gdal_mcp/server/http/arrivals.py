"""A listening socket that bounds the connections without a request: in all, and of each peer.

Invariants:
* a silent connection of one peer never takes the place of another peer's: the peer with the most of them loses its oldest;
* a connection is not closed while a request on it is being answered;
* a connection counts from the moment it is accepted, so before its TLS handshake.

It handles only sockets, and does not depend on the server that reads them.
"""

import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

_NETWORK: Final = 64  # bits of an IPv6 address that one subscriber has

Client = tuple[str, int]  # address and port


@dataclass(slots=True, eq=False)
class SilentConnections:
    """The open connections of one server on which no request is being answered. For one thread.

    `most` is the number of them in all, and `each` that of one peer.
    """

    most: int
    each: int
    _open: dict[Client, socket.socket] = field(default_factory=dict)
    _since: dict[Client, float] = field(
        default_factory=dict
    )  # of the silent ones, by time.monotonic(); the oldest first
    _fresh: set[Client] = field(default_factory=set)  # of those, the ones that never sent a request
    _peers: Counter[str] = field(default_factory=Counter)  # silent ones by peer

    def opened(self, client: Client, connection: socket.socket) -> None:
        self._open[client] = connection
        self._fresh.add(client)
        self._add(client)

    def closed(self, client: Client, connection: socket.socket) -> None:
        if self._open.get(client) is connection:
            del self._open[client]
            self._fresh.discard(client)
            self._remove(client)

    @contextmanager
    def answering(self, client: Client | None) -> Iterator[None]:
        """A request on this connection is being answered."""
        if client is None or client not in self._open:
            yield
            return
        connection = self._open[client]
        self._fresh.discard(client)
        self._remove(client)
        try:
            yield
        finally:
            if self._open.get(client) is connection:
                self._add(client)

    def end_unasked(self, seconds: float) -> None:
        """Closes connections that have sent no request in so many seconds since they were accepted."""
        until = time.monotonic() - seconds
        for client in [client for client in self._fresh if self._since.get(client, until + 1) <= until]:
            self._end(client)

    def _add(self, client: Client) -> None:
        peer = peer_of(client)
        self._since[client] = time.monotonic()
        self._peers[peer] += 1
        if self._peers[peer] > self.each:
            self._end(self._oldest(peer))
        elif len(self._since) > self.most:
            [(largest, _)] = self._peers.most_common(1)
            self._end(self._oldest(largest))

    def _oldest(self, peer: str) -> Client:
        return next(client for client in self._since if peer_of(client) == peer)

    def _end(self, client: Client) -> None:
        """The server reads the end of the connection, and closes it."""
        self._remove(client)
        with suppress(OSError):  # the peer was faster
            self._open[client].shutdown(socket.SHUT_RDWR)

    def _remove(self, client: Client) -> None:
        if self._since.pop(client, None) is not None:
            self._peers -= Counter([peer_of(client)])  # which drops what is zero


class ListeningSocket(socket.socket):
    """Its connections are in `silent` from the moment they are accepted, if that is set."""

    silent: SilentConnections | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        accepted, address = super().accept()
        if self.silent is None:
            return accepted, address
        counted = _Connection(accepted.family, accepted.type, accepted.proto, accepted.detach())
        counted.client, counted.silent = address[:2], self.silent
        self.silent.opened(counted.client, counted)
        return counted, address


class _Connection(socket.socket):
    client: Client
    silent: SilentConnections | None = None

    def close(self) -> None:
        if self.silent is not None:
            self.silent.closed(self.client, self)
        super().close()


def peer_of(client: Client) -> str:
    """What counts as one peer: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return client[0]
    return str(ipaddress.ip_network((address, _NETWORK), strict=False))
