"""Docker of an ordinary user to whom systemd delegated control groups of version 2: calls run with all limits in force."""

import shutil
from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests.engines.delegated import UserEngine, all_limits_are_in_force, run
from tests.engines.user_disk import DOCKER_SOCKET, DOCKERD_OPTIONS, PLACE

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
# in a network of its own, which slirp4netns connects
STARTER = shutil.which("dockerd-rootless.sh") or "/usr/share/docker.io/contrib/dockerd-rootless.sh"
USERS_DOCKER = UserEngine(
    kind="docker",
    address=DOCKER_SOCKET,
    socket=DOCKER_SOCKET.removeprefix("unix://"),
    start=f"exec {STARTER} {DOCKERD_OPTIONS} --exec-opt=native.cgroupdriver=$1",
    containers=f"{PLACE}/data/docker/containers",
)


@pytest.mark.timeout(3600)
@pytest.mark.claim("engine.docker-does-what-an-engine-must", "engine.ignored-limits-are-noticed")
def test_delegated_user_has_every_limit_or_nothing_runs(
    client: docker.DockerClient, image: Image, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    outcome = run(USERS_DOCKER, client, image, tmp_path)
    with subtests.test("Docker leaves every limit out without systemd"):
        refusal = outcome.refusal("alone")
        assert "cannot limit memory, cpu, pids" in refusal
        assert "native.cgroupdriver=systemd" in refusal
    with subtests.test("Docker reports a limit of processor time that its user does not have"):
        refusal = outcome.refusal("two")
        assert refusal.startswith("IsolationRefused")
        assert "Delegate=cpu memory pids" in refusal
    all_limits_are_in_force(outcome, "Docker", subtests)
    assert outcome.text("left") == ""
