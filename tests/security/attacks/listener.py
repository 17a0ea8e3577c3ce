"""A listener on every address of this host that counts requests by the name that each trap has in its address."""

import fcntl
import re
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_GET_ADDRESS = 0x8915  # SIOCGIFADDR of linux/sockios.h
_NAMED = re.compile(rb"/trap/([a-z0-9-]+)")


@dataclass
class Listener:
    """Accepts every TCP connection and every datagram on one port, whatever its contents."""

    port: int
    arrivals: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.arrivals.total()

    def url(self, host: str, name: str) -> str:
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/trap/{name}"

    def take(self, data: bytes) -> None:
        """Counts one arrival, even if it names no trap."""
        match = _NAMED.search(data)
        self.arrivals[match[1].decode() if match else "unnamed"] += 1


def addresses() -> list[str]:
    """Loopback of both families, and the address of each interface."""
    all_addresses = {"127.0.0.1", "::1"}
    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            all_addresses |= _address(probe, name)
    return sorted(all_addresses)


def _address(probe: socket.socket, name: str) -> set[str]:
    try:
        row = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
    except OSError:  # an interface without an address
        return set()
    return {socket.inet_ntoa(row[20:24])}


def _sockets() -> tuple[socket.socket, socket.socket]:
    """TCP and UDP of both families on one port."""
    tcp = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=200)
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    udp.bind(("::", tcp.getsockname()[1]))
    return tcp, udp


def _answer(tcp: socket.socket, listener: Listener) -> None:
    taken, _ = tcp.accept()
    with taken:
        taken.settimeout(5)
        try:
            listener.take(taken.recv(4096))
            taken.sendall(b"HTTP/1.1 404 None\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        except OSError:
            listener.take(b"")


def _serve(tcp: socket.socket, udp: socket.socket, listener: Listener, ended: threading.Event) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(tcp, selectors.EVENT_READ)
        selector.register(udp, selectors.EVENT_READ)
        while not ended.is_set():
            for key, _ in selector.select(0.1):
                if key.fileobj is tcp:
                    _answer(tcp, listener)
                else:
                    listener.take(udp.recv(4096))


@contextmanager
def listening() -> Iterator[Listener]:
    """The listener, until the block ends."""
    tcp, udp = _sockets()
    listener, ended = Listener(tcp.getsockname()[1]), threading.Event()
    thread = threading.Thread(target=_serve, args=(tcp, udp, listener, ended))
    thread.start()
    try:
        yield listener
    finally:
        ended.set()
        thread.join(30)
        tcp.close()
        udp.close()
