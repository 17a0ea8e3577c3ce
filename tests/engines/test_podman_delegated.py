"""Podman of an ordinary user to whom systemd delegated control groups of version 2: calls run with all limits in force."""

from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests.engines.delegated import UserEngine, all_limits_are_in_force, run
from tests.engines.user_disk import PLACE, PODMAN

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
SOCKET = f"{PLACE}/run/podman.sock"
USERS_PODMAN = UserEngine(
    kind="podman",
    address=f"podman:unix://{SOCKET}",
    socket=SOCKET,
    start=f"exec {PODMAN} --cgroup-manager=$1 system service --time=0 unix://{SOCKET}",
    containers=f"{PLACE}/data/root/overlay-containers",
)


@pytest.mark.timeout(3600)
@pytest.mark.claim("engine.podman-does-what-an-engine-must", "engine.ignored-limits-are-noticed")
def test_delegated_user_has_every_limit_or_nothing_runs(
    client: docker.DockerClient, image: Image, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    outcome = run(USERS_PODMAN, client, image, tmp_path)
    for name, remedy in (("alone", "containers.conf"), ("two", "Delegate=cpu memory pids")):
        with subtests.test(delegated=name):
            assert remedy in outcome.refusal(name)
    all_limits_are_in_force(outcome, "Podman", subtests)
    assert set(outcome.text("left").split()) <= {"containers.json", "containers.lock"}
