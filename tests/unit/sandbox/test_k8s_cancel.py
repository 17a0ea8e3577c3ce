"""A Pod whose node never makes its container, on an API server that says so: its caller can cancel, and nothing is left."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandbox.engines.k8s.cluster import Cluster
from sandbox.engines.k8s.engine import KubernetesEngine
from sandbox.errors import LaunchCancelled
from sandbox.labels import labels
from sandbox.slot import launch
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation
from tests.certificates import self_signed

TEMPLATE = SandboxTemplate("sha256:" + "a" * 64, ("true",), (1000, 1000), Limits())


class Api(BaseHTTPRequestHandler):
    """Every Pod waits on its node for good. `server.pods` are those that there are, by name."""

    protocol_version = "HTTP/1.1"

    def answer(self, value: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        pod = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state = {"waiting": {"reason": "ContainerCreating"}}
        pod["spec"]["nodeName"] = "node"
        pod["metadata"]["resourceVersion"] = "1"
        pod["status"] = {"containerStatuses": [{"state": state}]}
        self.server.pods[pod["metadata"]["name"]] = pod
        self.server.made.set()
        self.answer(pod)

    def do_GET(self) -> None:
        name = self.path.partition("/pods/")[2].partition("/")[0]
        if self.path == "/version":
            self.answer({"major": "1", "minor": "30", "gitVersion": "v1.30.0"})
        elif "watch=1" in self.path:
            self.answer({"type": "ERROR"})
        elif not name:
            items = [*self.server.pods.values()]
            self.answer({"metadata": {"resourceVersion": "1"}, "items": items})
        elif "/attach" in self.path:
            self.answer({}, 500)
        else:
            self.answer(self.server.pods.get(name, {}), 200 if name in self.server.pods else 404)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.pods.pop(self.path.rpartition("/")[2], None)
        self.answer({})

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    _, both = self_signed(tmp_path, "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(both)
    made = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    made.daemon_threads = True
    made.socket = tls.wrap_socket(made.socket, server_side=True)
    made.pods, made.made = {}, threading.Event()
    made.trust = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    serving = threading.Thread(target=made.serve_forever)
    serving.start()
    yield made
    made.shutdown()
    made.server_close()
    serving.join()


def test_a_pod_that_does_not_begin_is_given_up_when_its_caller_cancels(server, cancel: Cancellation):
    cluster = Cluster(f"https://127.0.0.1:{server.server_address[1]}", "calls", server.trust)

    def cancel_once_made() -> None:
        server.made.wait()
        cancel.set()

    cancelling = threading.Thread(target=cancel_once_made)
    cancelling.start()
    with closing(KubernetesEngine(cluster)) as engine, pytest.raises(LaunchCancelled):
        launch(engine, TEMPLATE, labels("abc", "call", 60), set(), cancel)
    cancelling.join()
    assert server.pods == {}
