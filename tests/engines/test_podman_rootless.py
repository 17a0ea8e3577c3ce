"""A real engine that ignores limits in silence: Podman of a user to whom no control groups are delegated.

It isolates otherwise, and still nothing runs there.
"""

import contextlib
import io
import tarfile
from collections.abc import Iterator

import pytest

from sandbox.engines import podman as podman_module
from sandbox.engines.podman import PodmanEngine
from sandbox.errors import IsolationRefused, SandboxError
from tests.engines.bench import LEAVE_A_MARK, Bench
from tests.engines.kit import podman_service

pytestmark = [pytest.mark.nightly, pytest.mark.engine, pytest.mark.claim("engine.ignored-limits-are-noticed")]
USER = 65534


def image_of_one_program() -> bytes:
    """Nothing of it is ever run: its container is refused before its start."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo("usr/bin/python3")
        entry.mode = 0o755
        archive.addfile(entry)
    return data.getvalue()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with podman_service(USER) as service, contextlib.closing(service.client()) as client:
        assert client.api.import_image_from_data(image_of_one_program(), repository="localhost/one")
        content = str(client.images.list()[0].id).removeprefix("sha256:")
        folder = service.folder / "bench"
        folder.mkdir(mode=0o755)
        yield Bench(PodmanEngine(client), f"sha256:{content}", folder, user=(USER, USER))


def test_limits_that_are_ignored_are_noticed_and_nothing_runs(bench, monkeypatch):
    assert bench.engine.info().rootless
    seen, real = [], podman_module.differences
    monkeypatch.setattr(podman_module, "differences", lambda *given: seen.append(real(*given)) or seen[-1])
    with pytest.raises(SandboxError) as caught:
        bench.run(LEAVE_A_MARK)
    # with control groups of version 2 it says so itself; with version 1 it does not, and everything else is as asked
    silent = bench.engine.info().cgroup_version == "1"
    assert isinstance(caught.value, IsolationRefused if silent else SandboxError)
    assert [[one.name for one in found] for found in seen] == [["memory", "cpu", "pids"]] * silent
    assert not (bench.staging / "started").exists()
    assert bench.ours() == {}
