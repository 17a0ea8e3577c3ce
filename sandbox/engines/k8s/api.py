"""The few requests that calls need of a cluster's API, and what its refusals mean."""

import contextlib
import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3

from sandbox.engines.k8s.cluster import Cluster
from sandbox.errors import CapacityExhausted, EngineUnavailable, IsolationRefused, SandboxError

_SECONDS: Final = 20.0  # for each request
_WATCH_SECONDS: Final = 300
_GONE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)

Object = Mapping[str, Any]  # of the API, as JSON has it


class Api:
    """Requests about the Pods of one namespace. Safe to use from several threads."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._pool = urllib3.PoolManager(ssl_context=cluster.tls, retries=False, maxsize=16)

    def version(self) -> Object:
        return _checked(self._request("GET", "/version"))

    def create(self, pod: Object) -> Object:
        """As the API made it. Raises CapacityExhausted, IsolationRefused, EngineUnavailable."""
        return self.post(self._pods(), pod)

    def post(self, path: str, body: Object) -> Object:
        """What the API answers to any other object. Raises as `create`."""
        return _checked(self._request("POST", path, body))

    def pod(self, name: str) -> Object | None:
        """None for one that there is not."""
        response = self._request("GET", self._pods(name))
        return None if response.status in _GONE else _checked(response)

    def pods(self, selector: str) -> tuple[Object, float | None]:
        """The list of those with these labels, and when that was by the API's clock, in seconds since the epoch.

        The time is None if the reply does not name it, as one that a proxy rewrote.
        """
        response = self._request("GET", f"{self._pods()}?{urlencode({'labelSelector': selector})}")
        now = None
        with contextlib.suppress(KeyError, TypeError, ValueError):
            now = parsedate_to_datetime(response.headers["Date"]).timestamp()
        return _checked(response), now

    def delete(self, name: str, grace: int, version: str = "") -> bool:
        """`grace` is in seconds; with 0 the entry goes at once, whatever still runs. One that is not there is no failure.

        False when somebody else changes it just now, or it is no longer the `version` that is named, so that this is to be asked
        again.
        """
        as_seen = {"preconditions": {"resourceVersion": version}} if version else {}
        response = self._request("DELETE", self._pods(name), {"gracePeriodSeconds": grace, **as_seen})
        if response.status not in (HTTPStatus.OK, *_GONE, HTTPStatus.CONFLICT):
            _checked(response)
        return response.status != HTTPStatus.CONFLICT

    def watch(self, selector: str, version: str) -> urllib3.BaseHTTPResponse:
        """An event in each line, as it comes; the API ends it after some minutes. The caller closes it."""
        asked = {"watch": "1", "labelSelector": selector, "resourceVersion": version}
        path = f"{self._pods()}?{urlencode({**asked, 'timeoutSeconds': _WATCH_SECONDS})}"
        response = self._request("GET", path, lasting=_WATCH_SECONDS)
        if response.status != HTTPStatus.OK:
            _checked(response)
        return response

    def close(self) -> None:
        self._pool.clear()

    def _pods(self, name: str = "") -> str:
        one = f"/{quote(name, safe='')}" if name else ""
        return f"/api/v1/namespaces/{self.cluster.namespace}/pods{one}"

    def _request(
        self, method: str, path: str, body: Object | None = None, lasting: float = 0.0
    ) -> urllib3.BaseHTTPResponse:
        """With what it answers, unless that is `lasting` for so many seconds: then it is read as it comes."""
        try:
            bearer = {"Authorization": f"Bearer {token}"} if (token := self.cluster.token()) else {}
            return self._pool.request(
                method,
                self.cluster.server + path,
                body=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": "application/json", **bearer},
                redirect=False,
                preload_content=not lasting,
                timeout=urllib3.Timeout(connect=_SECONDS, read=_SECONDS + lasting),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise EngineUnavailable(
                f"the cluster's API at {self.cluster.server} does not answer: {error}. Check that this server reaches it."
            ) from error


def _checked(response: urllib3.BaseHTTPResponse) -> Object:
    """The object that was answered. Raises what `refusal` makes of anything but a success."""
    try:
        found = json.loads(response.data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        found = {"message": response.data.decode("utf-8", "replace")}
    if HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
        return found
    raise refusal(response.status, str(found.get("message", ""))[:600])


def refusal(status: int, said: str) -> SandboxError:
    """What an answer that is no success means for a call. 403 is never read as: it is gone."""
    if status == HTTPStatus.FORBIDDEN and "exceeded quota" in said:
        return CapacityExhausted(
            f"the namespace's quota is used up: {said}. Try again later, or raise the quota."
        )
    if status == HTTPStatus.UNAUTHORIZED:
        return EngineUnavailable(f"the cluster does not know this server's account: {said}. Renew its token.")
    if status == HTTPStatus.FORBIDDEN and "cannot " in said and " resource " in said:
        return EngineUnavailable(
            f"this server's account may not do that: {said}. Give it the role of docs/kubernetes.md."
        )
    if status in (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY):
        return IsolationRefused(
            f"the cluster does not accept the Pod of a call, so nothing was run: {said}. Correct the namespace's "
            "admission, or the setting that it names."
        )
    return EngineUnavailable(f"the cluster's API answered {status}: {said}")
