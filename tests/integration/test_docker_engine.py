"""Behaviour of Docker's engine beyond the engine suite: refusals, and no hangs or leaks after failures."""

import os
from dataclasses import replace
from functools import partial

import docker.errors
import pytest
import requests.exceptions

from sandbox.engines import docker as docker_module
from sandbox.engines.discovery import DOCKER_SOCKET, connect
from sandbox.engines.docker import DockerEngine
from sandbox.errors import EngineUnavailable, IsolationRefused, SandboxError
from sandbox.labels import OWNER, labels
from sandbox.outcome import Exited
from sandbox.runner import Job, Runner
from tests.conftest import ENVIRONMENT, USER, handler
from tests.integration.engine_proxy import EngineProxy

pytestmark = pytest.mark.engine

PATIENCE = 8  # seconds


@pytest.fixture
def marks(owner):
    return labels(owner.id, "call-0001", 60.0)


@pytest.fixture
def ours(client, owner):
    """`ours()` lists the containers of this test run that the engine knows, started or not."""
    of_ours = {"label": f"{OWNER}={owner.id}"}
    return lambda: [row["Id"] for row in client.api.containers(all=True, filters=of_ours)]


@pytest.fixture(autouse=True)
def _nothing_is_left(engine, ours):
    yield
    left = ours()
    for name in left:
        engine.container(name).remove()
    assert left == []


@pytest.fixture
def quiet(make_template):
    """A container that prints on both streams and ends with exit code 7."""
    program = "import os; os.write(1, b'out'); os.write(2, b'err'); os._exit(7)"
    return replace(make_template(handler("pass")), command=("python3", "-I", "-c", program))


@pytest.fixture
def waiting(make_template):
    """A container that waits until its stdin closes."""
    command = ("python3", "-I", "-c", "import os; os.read(0, 1)")
    return replace(make_template(handler("pass")), command=command)


@pytest.mark.claim("sandbox.read-back")
@pytest.mark.parametrize(
    "answer", [{}, {"Config": None, "HostConfig": None}, requests.exceptions.ReadTimeout()]
)
def test_container_that_cannot_be_read_back_is_removed(engine, quiet, marks, monkeypatch, answer):
    def inspect(_container):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(engine._api, "inspect_container", inspect)
    with pytest.raises(SandboxError):
        engine.create(quiet, marks)


FAILURES = [
    docker.errors.APIError("500 Server Error: device or resource busy"),
    docker.errors.APIError("409 Conflict: removal of container is already in progress"),
    requests.exceptions.ConnectionError("connection reset"),
    requests.exceptions.ReadTimeout("read timed out"),
    None,  # the engine answers with success before the removal is done, so its answer is not trusted
]


@pytest.mark.claim("sandbox.removed")
@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_container_is_removed_after_failed_attempts(engine, waiting, marks, monkeypatch, failure):
    container = engine.create(waiting, marks)
    wire = container.start()
    failures, real = [failure] * 3, engine._api.remove_container

    def remove(*arguments, **options):
        if not failures:
            return real(*arguments, **options)
        if failures.pop():
            raise failure
        return None

    monkeypatch.setattr(engine._api, "remove_container", remove)
    container.remove()
    wire.close()
    assert failures == []
    assert container.state() is None


@pytest.mark.claim("sandbox.removed")
def test_a_removal_that_never_succeeds_is_told(engine, waiting, marks, monkeypatch):
    monkeypatch.setattr(docker_module.DockerEngine, "removal_seconds", 0.05)
    container = engine.create(waiting, marks)
    with monkeypatch.context() as stuck:

        def fail(*_, **__):
            raise docker.errors.APIError("500 Server Error: driver failed")

        stuck.setattr(engine._api, "remove_container", fail)
        with pytest.raises(EngineUnavailable):
            container.remove()
    container.remove()


@pytest.fixture
def declaring(client, image):
    """`declaring(*lines)` is an image with these declarations, which is removed afterwards."""
    images = []

    def commit_image(*lines):
        base = client.api.create_container(image.id, "true")["Id"]
        try:
            images.append(client.api.commit(base, changes=list(lines))["Id"])
        finally:
            client.api.remove_container(base)
        return images[-1]

    yield commit_image
    for name in images:
        client.api.remove_image(name, force=True)


DECLARED = (
    "ENV LD_PRELOAD=/usr/lib/libmimalloc.so.2", "ENV GDAL_DRIVER_PATH=/evil", 'ENTRYPOINT ["/bin/echo", "entry"]', 'CMD ["command"]',
    "USER root", "WORKDIR /etc", "EXPOSE 80", "LABEL purpose=image other=image", "HEALTHCHECK --interval=7s CMD true",
)  # fmt: skip


@pytest.mark.claim("sandbox.image-declares-nothing")
def test_what_an_image_declares_has_no_effect(runner, make_template, declaring, cancel):
    tell = "return {'code': 0, 'environment': dict(os.environ), 'user': os.getuid(), 'folder': os.getcwd()}"
    template = replace(make_template(handler(tell)), image=declaring(*DECLARED))
    final = runner.run(Job("call-0001", template, {}), cancel).final
    assert (final["environment"], final["user"], final["folder"]) == (ENVIRONMENT, USER[0], "/tmp")


@pytest.mark.claim("sandbox.image-declares-nothing")
def test_an_image_that_brings_a_volume_is_refused(engine, quiet, marks, declaring):
    with pytest.raises(IsolationRefused):
        engine.create(replace(quiet, image=declaring("VOLUME /data")), marks)


# an engine that stops answering or hangs up


@pytest.fixture
def proxy(tmp_path_factory):
    path = tmp_path_factory.mktemp("engine") / "engine.sock"
    new_proxy = EngineProxy(path, os.environ.get("DOCKER_HOST", DOCKER_SOCKET).removeprefix("unix://"))
    yield new_proxy
    new_proxy.close()


@pytest.fixture
def behind(proxy, image, monkeypatch):
    """An engine behind the proxy, with shorter timeouts than usual that are long enough for a busy machine."""
    monkeypatch.setattr(docker_module.DockerEngine, "removal_seconds", 0.1)
    client = connect(proxy.address, timeout=PATIENCE)
    through = DockerEngine(client)
    monkeypatch.setitem(vars(through), "_info", replace(through.info(), end_seconds=PATIENCE))
    yield through
    client.close()


@pytest.fixture
def swept(engine, ours):
    """Removes leftovers: the work of the reaper, which has its own tests."""
    yield
    for left in ours():
        engine.container(left).remove()


STEPS = {
    "create": b"POST /v1.41/containers/create", "read back": b"/json HTTP", "attach": b"/attach?",
    "start": b"/start HTTP", "wait": b"/wait HTTP", "remove": b"DELETE /", "everything": b"",
}  # fmt: skip


@pytest.mark.claim("faults.engine-fails", "faults.engine-fails-typed")
@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("step", STEPS)
def test_engine_hanging_up_ends_only_that_call(
    proxy, behind, owner, make_template, cancel, monkeypatch, step
):
    """No failure causes endless waiting. An engine that stops answering is in tests/security/faults/test_silence.py."""
    runner, template = Runner(behind, owner.id), make_template(handler("return {'code': 5}"))

    def answers():
        return runner.run(Job("call-0001", template, {}), cancel).outcome

    # as if this host could not see the container's process, which would report its end sooner
    if step == "wait":
        monkeypatch.setattr("sandbox.slot.ending_of", lambda *_: None)
    proxy.meet("hang up", STEPS[step].replace(b"v1.41", f"v{behind._api.api_version}".encode()))
    if step == "wait":
        assert answers() == Exited(5)  # the state is requested in any case
    else:
        with pytest.raises(EngineUnavailable):
            answers()
    assert proxy.met.is_set()
    proxy.restore()
    # a busy machine must not count as a silent engine
    behind._api.request = partial(behind._api.request, timeout=60)
    assert answers() == Exited(5)
