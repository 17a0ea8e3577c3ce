"""The engine in use, with its own runtime, does all that an engine must."""

from collections.abc import Iterator

import pytest

from gdal_mcp.host.image import Image
from sandbox.engines.docker import DockerEngine
from tests.engines.bench import Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on, unanswered
from tests.engines.known import DOCKER

pytestmark = [
    pytest.mark.engine,
    pytest.mark.claim(
        "engine.docker-does-what-an-engine-must",
        "files.mounts-only",
        "network.no-interface",
        "resources.limits-hard",
        "sandbox.environment",
        "sandbox.image-by-content",
        "sandbox.not-root",
        "sandbox.nothing-of-the-host-shown",
        "sandbox.scratch",
    ),
]


@pytest.fixture(scope="module")
def bench(engine: DockerEngine, image: Image) -> Iterator[Bench]:
    with bench_on(engine, image.id, unanswered) as made:
        yield made


def test_docker_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    conforms(bench, subtests, DOCKER.exemptions)
