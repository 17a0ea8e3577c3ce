"""A listening socket that bounds the number of connections without a request, in total and for each peer.

Invariants:
* a silent connection of one peer never takes the place of another peer's: the peer with the most silent connections
  loses its oldest;
* a connection is not closed while a request on it is being answered;
* a connection counts from the moment it is accepted, and so before its TLS handshake.

This module handles only sockets, and does not depend on the server that reads them.
"""

import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

_NETWORK: Final = 64  # bits of an IPv6 network that belongs to one subscriber

Client = tuple[str, int]  # address and port


@dataclass(slots=True, eq=False)
class SilentConnections:
    """The open connections of one server on which no request is being answered. For one thread.

    `most` bounds their number in total, `each` their number for one peer.
    """

    most: int
    each: int
    _open: dict[Client, socket.socket] = field(default_factory=dict)
    _since: dict[Client, float] = field(
        default_factory=dict
    )  # when each silent connection became silent, by time.monotonic(); oldest first
    _fresh: set[Client] = field(default_factory=set)  # silent connections that never sent a request
    _peers: Counter[str] = field(default_factory=Counter)  # number of silent connections by peer

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
        """Marks a connection as busy while a request on it is being answered."""
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
        """Closes connections that have sent no request within so many seconds after they were accepted."""
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
        """Shuts a connection down; the server then reads its end and closes it."""
        self._remove(client)
        with suppress(OSError):  # the peer has closed it already
            self._open[client].shutdown(socket.SHUT_RDWR)

    def _remove(self, client: Client) -> None:
        if self._since.pop(client, None) is not None:
            self._peers -= Counter([peer_of(client)])  # subtraction drops zero counts


class ListeningSocket(socket.socket):
    """A listening socket that adds each accepted connection to `silent`, if it is set."""

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
    """The peer of a connection: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return client[0]
    return str(ipaddress.ip_network((address, _NETWORK), strict=False))
