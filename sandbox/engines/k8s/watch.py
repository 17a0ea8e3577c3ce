"""One watch over all Pods of a server, so that threads that wait for a Pod need not poll the API."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog
import urllib3

from sandbox.engines.k8s.api import MAX_VALUES, Api, Object
from sandbox.errors import SandboxError
from sandbox.parsing import parse_json
from sandbox.waiting import Cancellation, readable

_PAUSE: Final = 0.5  # seconds after a failure
_MAX_REMOVED: Final = 100  # entries; each is looked up soon after its removal

_log = structlog.get_logger()


class PodWatch:
    """The Pods that match a selector, as the API last reported them.

    Its thread starts with the first wait, and ends when it is no longer needed. Its information may be late, so the
    API itself is queried for the way a container ended. Only the last state of a removed Pod is known nowhere else.
    """

    def __init__(
        self, api: Api, selector: str, on_change: Callable[[Object], None], needed: Callable[[], bool]
    ) -> None:
        """`on_change` is called with each changed Pod, in the watch's thread, so it must be quick.

        `needed` returns True if the watch must continue although no thread has waited for minutes.
        """
        self._api, self._selector, self._on_change, self._needed = api, selector, on_change, needed
        self._changed = threading.Condition()
        self._pods: dict[str, Object] = {}
        self._removed: deque[tuple[str, Object]] = deque(maxlen=_MAX_REMOVED)
        self._thread: threading.Thread | None = None
        self._was_requested = False  # True if a thread has waited since the last full list
        self._response: urllib3.BaseHTTPResponse | None = None  # response of the latest watch
        self._stop = Cancellation()

    def wait_for(self, name: str, holds: Callable[[Object | None], bool], seconds: float) -> None:
        """Waits until `holds` is True for a Pod, or until `seconds` have passed.

        `holds` gets None for an unknown Pod.
        """
        with self._changed:
            self._was_requested = True
            if self._thread is None and not self._stop.is_set:
                self._thread = threading.Thread(target=self._follow_while_needed, name="pods", daemon=True)
                self._thread.start()
            self._changed.wait_for(lambda: holds(self._pods.get(name)), max(0.0, seconds))

    def known(self, name: str) -> Object | None:
        with self._changed:
            return self._pods.get(name)

    def last_before_removal(self, name: str, seconds: float) -> Object | None:
        """The last state of a Pod that was removed; None if its removal is not reported within `seconds`."""
        self.wait_for(name, lambda known: known is None, seconds)
        with self._changed:
            return dict(self._removed).get(name)

    def close(self) -> None:
        self._stop.set()
        while (thread := self._thread) is not None and thread.is_alive():
            if self._response is not None:
                with contextlib.suppress(OSError, ValueError, RuntimeError):  # the response has already ended
                    self._response.shutdown()
            thread.join(_PAUSE)
        self._stop.close()

    def _follow_while_needed(self) -> None:
        while True:
            with self._changed:
                if self._stop.is_set or not (self._was_requested or self._needed()):
                    self._thread, self._pods = None, {}
                    return
                self._was_requested = False
            try:
                self._follow()
            except (SandboxError, urllib3.exceptions.HTTPError, OSError, ValueError, KeyError) as error:
                _log.info("watch_ended", reason=str(error)[:300])
                readable([self._stop], _PAUSE)

    def _follow(self) -> None:
        """Reads a new list, then follows changes until the watch ends.

        A watch ends after some minutes, or with an error such as 410.
        """
        listing, _ = self._api.pods(self._selector)
        with self._changed:
            self._pods = {pod["metadata"]["name"]: pod for pod in listing["items"]}
            self._changed.notify_all()
        with self._api.watch(self._selector, listing["metadata"]["resourceVersion"]) as response:
            self._response = response
            for line in response:
                if self._stop.is_set:
                    return
                event: dict[str, Any] = parse_json(line, MAX_VALUES)
                if event["type"] == "ERROR":
                    return
                pod, name = event["object"], event["object"]["metadata"]["name"]
                with self._changed:
                    if event["type"] == "DELETED":
                        self._pods.pop(name, None)
                        self._removed.append((name, pod))
                    else:
                        self._pods[name] = pod
                    self._changed.notify_all()
                self._on_change(pod)
