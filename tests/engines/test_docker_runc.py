"""The engine in use, with its own runtime, does all that an engine must."""

from collections.abc import Iterator

import pytest

from gdal_mcp.host.image import Image
from sandbox.conformance.bench import Bench
from sandbox.conformance.known import DOCKER
from sandbox.conformance.suite import Check
from sandbox.engines.docker import DockerEngine
from sandbox.engines.opening import unanswered
from tests.engines.kit import bench_on, every_check, holds

pytestmark = [pytest.mark.engine, pytest.mark.claim("engine.docker-does-what-an-engine-must")]


@pytest.fixture(scope="module")
def bench(engine: DockerEngine, image: Image) -> Iterator[Bench]:
    with bench_on(engine, image.id, unanswered) as made:
        yield made


@every_check
def test_docker_conforms(bench: Bench, check: Check) -> None:
    holds(bench, check, DOCKER.exemptions)
