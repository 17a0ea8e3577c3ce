"""What the SDK's connections to an engine raise, as our own error, and that they are closed when they fail.

The SDK forgets the socket of a connection that nobody accepts. It then stays open for as long as somebody holds the error, which
is long enough for a server that asks a silent engine again and again.
"""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import docker
import docker.errors
import requests.exceptions
import urllib3.exceptions
from docker.transport import unixconn

from sandbox.errors import EngineUnavailable

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


@contextlib.contextmanager
def answering(doing: str) -> Iterator[None]:
    """Turns what the SDK and its HTTP stack raise into our own error."""
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineUnavailable(
            f"the container engine refused when {doing}: {error.explanation or error}"
        ) from error
    except (
        docker.errors.DockerException,
        requests.exceptions.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        raise EngineUnavailable(
            f"the container engine does not answer (when {doing}). Start it, then try again."
        ) from error
