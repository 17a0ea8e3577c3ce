"""A server's pool when its engine disappears and returns, and when the server ends."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from sandbox.engines import docker as docker_module
from sandbox.errors import SandboxError
from sandbox.labels import OWNER
from sandbox.outcome import Exited, SandboxResult
from sandbox.pool.lease import SlotKey
from sandbox.runner import Job
from sandbox.waiting import Cancellation
from tests.integration.engine_proxy import EngineProxy
from tests.waiting import until

pytestmark = pytest.mark.engine

VERSION = {"program": "version", "inputs": [], "outputs": [], "preview_pixels": 0}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[EngineProxy]:
    engine = os.environ.get("DOCKER_HOST", "/var/run/docker.sock").removeprefix("unix://")
    new_proxy = EngineProxy(tmp_path / "engine.sock", engine)
    yield new_proxy
    new_proxy.close()


@pytest.fixture
def app(workspace: Path, tmp_path: Path, proxy: EngineProxy) -> Iterator[App]:
    places = {"workspaces": (workspace,), "state_dir": tmp_path / "state"}
    with running(load_settings(**places, engine=proxy.address, pool_max=2)) as new_app:
        yield new_app


def of(client: docker.DockerClient, app: App) -> list[dict[str, object]]:
    """All containers of a server, running or not."""
    return client.api.containers(all=True, filters={"label": f"{OWNER}={app.owner.id}"})


def call(app: App) -> SandboxResult:
    """A call as the server makes it: after a failed call the server reconnects."""
    cancel = Cancellation()
    host = app.hosting.ready()
    kind: SlotKey = app.hosting.kind(host, None)
    try:
        with host.pool.claim(kind, "call-0001", cancel) as lease:
            return lease.run(Job("call-0001", lease.template, VERSION, result_only=True), cancel)
    except SandboxError:
        app.hosting.failed(host)
        raise
    finally:
        cancel.close()


@pytest.mark.claim("faults.engine-fails")
def test_returning_engine_gets_a_new_pool(app, proxy, client, monkeypatch):
    monkeypatch.setattr(docker_module.DockerEngine, "removal_seconds", 0.1)
    app.hosting.keep_warm()
    first = app.hosting.ready().pool
    until(lambda: first.figures().waiting == 2)
    proxy.meet("hang up")
    proxy.cut()  # including the streams of waiting containers
    with pytest.raises(SandboxError):
        call(app)
    until(lambda: not any(thread.name == "lost" for thread in threading.enumerate()))
    until(lambda: not [row for row in of(client, app) if row["State"] == "running"])
    proxy.restore()
    second = app.hosting.ready().pool
    assert second is not first
    until(lambda: second.figures().waiting == 2)
    result = call(app)
    assert (result.outcome, result.usage.pool) == (Exited(0), "warm")
    assert first.figures().waiting == 0
    app.hosting.close()
    # containers that the engine did not remove while it was away have ended, and the reaper removes them
    for row in of(client, app):
        assert row["State"] == "exited"
        client.api.remove_container(row["Id"])


def test_nothing_starts_for_an_ended_server(app: App, client: docker.DockerClient):
    """The thread that prepares the engine may finish late."""
    app.hosting.ready()
    app.hosting.close()
    with pytest.raises(SandboxError):
        app.hosting.keep_warm()
    assert not [thread for thread in threading.enumerate() if thread.name == "pool"]
    assert of(client, app) == []
