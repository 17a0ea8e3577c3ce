"""A Pod whose node never creates its container, as the API server reports: its caller can cancel, and nothing is
left.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.errors import LaunchCancelled
from sandbox.labels import labels
from sandbox.slot import launch
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation
from tests.unit.sandbox.engines.k8s_api import ApiHandler, serve

TEMPLATE = SandboxTemplate("sha256:" + "a" * 64, ("true",), (1000, 1000), Limits())


class Api(ApiHandler):
    """Every Pod waits on its node forever. `server.pods` has the existing Pods by name."""

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        pod = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state = {"waiting": {"reason": "ContainerCreating"}}
        pod["spec"]["nodeName"] = "node"
        pod["metadata"]["resourceVersion"] = "1"
        pod["status"] = {"containerStatuses": [{"state": state}]}
        self.server.pods[pod["metadata"]["name"]] = pod
        self.server.made.set()
        self.answer(pod)

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        if "/attach" in self.path:
            self.answer({}, 500)
        else:
            super().do_GET()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    with serve(tmp_path, Api) as api_server:
        api_server.made = threading.Event()
        yield api_server


def test_unstarted_pod_is_removed_when_caller_cancels(server, cancel: Cancellation):
    cluster = Cluster(f"https://127.0.0.1:{server.server_address[1]}", "calls", server.trust)

    def cancel_after_creation() -> None:
        server.made.wait()
        cancel.set()

    cancelling = threading.Thread(target=cancel_after_creation)
    cancelling.start()
    with closing(KubernetesEngine(cluster)) as engine, pytest.raises(LaunchCancelled):
        launch(engine, TEMPLATE, labels("abc", "call", 60), set(), cancel)
    cancelling.join()
    assert server.pods == {}
