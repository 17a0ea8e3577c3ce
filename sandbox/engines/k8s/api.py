"""Requests to a cluster's API that calls need, and the errors to which its refusals are translated."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3

from sandbox.engines.k8s.cluster import Cluster
from sandbox.errors import CapacityExhausted, EngineUnavailable, IsolationRefused, SandboxError
from sandbox.parsing import parse_json

_SECONDS: Final = 20.0  # seconds for each request
_WATCH_SECONDS: Final = 300
_MAX_BYTES: Final = 32 << 20  # bytes of one answer; a Pod has about ten thousand
MAX_VALUES: Final = 1_000_000  # members and elements of one answer; a Pod has about five hundred
_GONE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)

Object = Mapping[str, Any]  # an object of the API as JSON


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    status: int
    headers: Mapping[str, str]
    data: bytes


class Api:
    """Requests about the Pods of one namespace. Thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._pool = urllib3.PoolManager(ssl_context=cluster.tls, retries=False, maxsize=16)

    def version(self) -> Object:
        return _checked(self._request("GET", "/version"))

    def create(self, pod: Object) -> Object:
        """Creates a Pod and returns it as the API stored it.

        Raises CapacityExhausted, IsolationRefused, EngineUnavailable.
        """
        return self.post(self._pods(), pod)

    def post(self, path: str, body: Object) -> Object:
        """Posts an object of any kind and returns the API's answer. Raises the same errors as `create`."""
        return _checked(self._request("POST", path, body))

    def pod(self, name: str) -> Object | None:
        """Reads one Pod; None if it does not exist."""
        response = self._request("GET", self._pods(name))
        return None if response.status in _GONE else _checked(response)

    def pods(self, selector: str) -> tuple[Object, float | None]:
        """The list of Pods that match the selector, and the API's time in seconds since the epoch.

        The time is None if the response has no valid Date header, for example because a proxy removed it.
        """
        response = self._request("GET", f"{self._pods()}?{urlencode({'labelSelector': selector})}")
        now = None
        with contextlib.suppress(KeyError, TypeError, ValueError):
            now = parsedate_to_datetime(response.headers["Date"]).timestamp()
        return _checked(response), now

    def delete(self, name: str, grace: int, version: str = "") -> bool:
        """Deletes a Pod. `grace` is in seconds; 0 deletes the entry at once, whatever still runs.

        True also if the Pod does not exist. False on a conflict: another client is changing it, or its resource
        version is not `version`. The caller must then read the Pod again.
        """
        as_seen = {"preconditions": {"resourceVersion": version}} if version else {}
        response = self._request("DELETE", self._pods(name), {"gracePeriodSeconds": grace, **as_seen})
        if response.status not in (HTTPStatus.OK, *_GONE, HTTPStatus.CONFLICT):
            _checked(response)
        return response.status != HTTPStatus.CONFLICT

    def watch(self, selector: str, version: str) -> urllib3.BaseHTTPResponse:
        """A stream of events, one for each line. The API ends it after five minutes. The caller must close it."""
        query = {"watch": "1", "labelSelector": selector, "resourceVersion": version}
        path = f"{self._pods()}?{urlencode({**query, 'timeoutSeconds': _WATCH_SECONDS})}"
        with self._reaching():
            response = self._send("GET", path, lasting=_WATCH_SECONDS)
            if response.status != HTTPStatus.OK:
                _checked(_read(response))
        return response

    def close(self) -> None:
        self._pool.clear()

    def _pods(self, name: str = "") -> str:
        suffix = f"/{quote(name, safe='')}" if name else ""
        return f"/api/v1/namespaces/{self.cluster.namespace}/pods{suffix}"

    def _request(self, method: str, path: str, body: Object | None = None) -> ApiAnswer:
        with self._reaching():
            return _read(self._send(method, path, body))

    def _send(
        self, method: str, path: str, body: Object | None = None, lasting: float = 0.0
    ) -> urllib3.BaseHTTPResponse:
        """Sends a request and returns its response as a stream, open for `lasting` more seconds."""
        bearer = {"Authorization": f"Bearer {token}"} if (token := self.cluster.token()) else {}
        return self._pool.request(
            method,
            self.cluster.server + path,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **bearer},
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=_SECONDS, read=_SECONDS + lasting),
        )

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        """Raises EngineUnavailable if the API does not answer."""
        try:
            yield
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise EngineUnavailable(
                f"the cluster's API at {self.cluster.server} does not answer: {error}. Check that this server reaches it."
            ) from error


def _read(response: urllib3.BaseHTTPResponse) -> ApiAnswer:
    """The whole response, up to a bound, after which its connection can be used again."""
    data = response.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        response.close()
        raise OSError(f"its answer is longer than {_MAX_BYTES >> 20} MiB")
    return ApiAnswer(response.status, response.headers, data)


def _checked(answer: ApiAnswer) -> Object:
    """The object in an answer. Raises the error of `refusal` unless the answer is a success."""
    try:
        parsed = parse_json(answer.data, MAX_VALUES)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise refusal(answer.status, answer.data[:600].decode("utf-8", "replace"))
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return parsed
    raise refusal(answer.status, str(parsed.get("message", ""))[:600])


def refusal(status: int, message: str) -> SandboxError:
    """The error for a response that is not a success. A 403 never means that an object does not exist."""
    if status == HTTPStatus.FORBIDDEN and "exceeded quota" in message:
        return CapacityExhausted(
            f"the namespace's quota is used up: {message}. Try again later, or raise the quota."
        )
    if status == HTTPStatus.UNAUTHORIZED:
        return EngineUnavailable(
            f"the cluster does not know this server's account: {message}. Renew its token."
        )
    if status == HTTPStatus.FORBIDDEN and "cannot " in message and " resource " in message:
        return EngineUnavailable(
            f"this server's account may not do that: {message}. Give it the role of docs/kubernetes.md."
        )
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY):
        return IsolationRefused(
            f"the cluster does not accept the Pod of a call, so nothing was run: {message}. Correct the namespace's "
            "admission, or the setting that it names."
        )
    return EngineUnavailable(f"the cluster's API answered {status}: {message}")
