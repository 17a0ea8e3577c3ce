"""Podman as root does all that an engine must, but for what its exemptions say."""

from collections.abc import Iterator

import docker
import pytest

from gdal_mcp.host.image import Image
from sandbox.conformance.bench import Bench
from sandbox.conformance.known import PODMAN
from sandbox.conformance.suite import Check
from sandbox.engines.opening import unanswered
from sandbox.engines.podman import PodmanEngine
from tests.engines.kit import bench_on, every_check, holds, podman_service

pytestmark = [pytest.mark.engine, pytest.mark.claim("engine.podman-does-what-an-engine-must")]


@pytest.fixture(scope="module")
def bench(client: docker.DockerClient, image: Image) -> Iterator[Bench]:
    with podman_service() as service:
        service.load(client, image.reference)
        own = service.client()
        with bench_on(PodmanEngine(own), image.id, lambda: unanswered(PodmanEngine)) as made:
            yield made
        own.close()


@every_check
def test_podman_conforms(bench: Bench, check: Check) -> None:
    holds(bench, check, PODMAN.exemptions)
