"""The SDK's connections to an engine's socket, but closed when they fail.

The SDK forgets the socket of a connection that nobody accepts. It then stays open for as long as somebody holds the error, which
is long enough for a server that asks a silent engine again and again.
"""

import socket
from typing import Any, Final

import docker
from docker.transport import unixconn

_SCHEME: Final = "http+docker://"  # what the SDK puts in front of each request to a socket


class _Connection(unixconn.UnixHTTPConnection):
    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self.unix_socket)
        except BaseException:
            made.close()
            raise
        self.sock = made


class _Pool(unixconn.UnixHTTPConnectionPool):
    def _new_conn(self) -> Any:
        timeout: Any = self.timeout  # seconds by the time it connects, whatever the types say
        return _Connection(self.base_url, self.socket_path, timeout)


class _Adapter(unixconn.UnixHTTPAdapter):
    def get_connection(self, url: Any, proxies: Any = None) -> Any:  # noqa: ARG002 - the SDK's own signature
        with self.pools.lock:
            pool = self.pools.get(url)
            if pool is None:
                pool = self.pools[url] = _Pool(url, self.socket_path, self.timeout, self.max_pool_size)
        return pool


def close_what_fails(client: docker.DockerClient) -> None:
    """From now on. Does nothing for an engine that is reached over a network."""
    known = client.api.adapters.get(_SCHEME)
    if isinstance(known, unixconn.UnixHTTPAdapter) and not isinstance(known, _Adapter):
        known.close()
        path, most = known.socket_path, known.max_pool_size
        client.api.mount(_SCHEME, _Adapter(f"http+unix://{path}", known.timeout, max_pool_size=most))
