"""The engine in use, with its own runtime, passes all checks."""

import pytest

from gdal_mcp.runtime.image import Image
from sandbox.engines.docker import DockerEngine
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


def test_docker_conforms(engine: DockerEngine, image: Image, subtests: pytest.Subtests) -> None:
    with bench_on(engine, image.id, unanswered) as bench:
        conforms(bench, subtests, DOCKER.exemptions)
