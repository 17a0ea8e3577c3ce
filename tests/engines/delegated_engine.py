"""Tests that run as an ordinary user on a separate kernel; `delegated.py` starts them."""

import os
from collections.abc import Iterator
from dataclasses import replace

import docker
import pytest

from sandbox.engines.docker import DockerEngine
from sandbox.engines.podman import PodmanEngine
from sandbox.engines.trial import IMAGE
from tests.engines import bench as bench_module
from tests.engines.bench import LIMITS, Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on, unanswered
from tests.engines.known import DOCKER_DELEGATED, PODMAN_DELEGATED
from tests.engines.rootless import SMALL

SOCKET = os.environ.get("ENGINE_SOCKET", "")
# runc, a program in Go, starts a container under that container's RLIMIT_DATA, and that of 96 MiB is too little for it
KINDS = {
    "podman": (PodmanEngine, PODMAN_DELEGATED, SMALL),
    "docker": (DockerEngine, DOCKER_DELEGATED, replace(SMALL, memory_bytes=LIMITS.memory_bytes)),
}
KIND, KNOWN, THEIR_LIMITS = KINDS[os.environ.get("ENGINE_KIND", "docker")]
bench_module.PATIENCE = 300.0


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    client = docker.DockerClient(base_url=SOCKET, timeout=300)
    (image,) = (image for image in client.images.list() if not str(image.tags).startswith(IMAGE))
    with bench_on(KIND(client), image.id, lambda: unanswered(KIND), limits=THEIR_LIMITS) as new_bench:
        yield new_bench
    client.close()


def test_it_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    assert os.geteuid() != 0
    assert bench.engine.info().rootless
    conforms(bench, subtests, KNOWN.exemptions)
