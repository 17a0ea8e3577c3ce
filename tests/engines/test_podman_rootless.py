"""Podman of a user without delegated control groups silently ignores limits, so nothing runs there. It isolates
otherwise.
"""

import contextlib
from collections.abc import Iterator

import docker
import pytest

from gdal_mcp.runtime.image import Image
from sandbox.engines import podman as podman_module
from sandbox.engines.podman import PodmanEngine
from sandbox.errors import IsolationRefused, SandboxError
from tests.engines.bench import LEAVE_A_MARK, Bench
from tests.engines.checks import conforms
from tests.engines.kit import PodmanService, bench_on, podman_service, unanswered
from tests.engines.known import PODMAN_ROOTLESS

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.engine,
    pytest.mark.timeout(1800),  # Podman copies the image for each id map
    pytest.mark.claim("engine.ignored-limits-are-noticed"),
]
USER = 65534


@pytest.fixture(scope="module")
def service(client: docker.DockerClient, image: Image) -> Iterator[PodmanService]:
    with podman_service(USER) as service:
        service.load(client, image.reference)
        yield service


@pytest.fixture
def bench(service: PodmanService, image: Image) -> Iterator[Bench]:
    with (
        contextlib.closing(service.client()) as client,
        bench_on(
            PodmanEngine(client), image.id, lambda: unanswered(PodmanEngine), user=(USER, USER)
        ) as new_bench,
    ):
        new_bench.staging.chmod(0o700)
        yield new_bench


def test_engine_without_limits_creates_nothing_and_says_why(bench: Bench) -> None:
    info = bench.engine.info()
    assert info.rootless
    if not info.limits_missing:
        assert bench.run(LEAVE_A_MARK).code == 0
        return
    with pytest.raises(
        IsolationRefused, match=f"version {info.cgroup_version}" if info.cgroup_version == "1" else "Delegate"
    ):
        bench.run(LEAVE_A_MARK)
    assert list(bench.staging.iterdir()) == []


def test_limits_that_are_ignored_are_read_back_too(bench, monkeypatch):
    """For a Podman that reports that it can set limits and then omits them."""
    if not bench.engine.info().limits_missing:
        return
    monkeypatch.setattr(podman_module, "refuse_unlimited", lambda _: None)
    results, real = [], podman_module.differences
    monkeypatch.setattr(
        podman_module, "differences", lambda *arguments: results.append(real(*arguments)) or results[-1]
    )
    with pytest.raises(SandboxError) as caught:
        bench.run(LEAVE_A_MARK)
    # with control groups of version 2, Podman reports this itself; with version 1 it does not, and everything else is
    # as requested
    silent = bench.engine.info().cgroup_version == "1"
    assert isinstance(caught.value, IsolationRefused if silent else SandboxError)
    assert [[difference.name for difference in differences] for differences in results] == [
        ["memory", "cpu", "pids"]
    ] * silent
    assert not (bench.staging / "started").exists()


def test_engine_conforms_except_for_impossible_limits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    unlimited = bool(bench.engine.info().limits_missing)
    if unlimited:
        monkeypatch.setattr(podman_module, "refuse_unlimited", lambda _: None)
        monkeypatch.setattr(podman_module, "differences", lambda *_: ())
    conforms(bench, subtests, PODMAN_ROOTLESS.exemptions if unlimited else ())
