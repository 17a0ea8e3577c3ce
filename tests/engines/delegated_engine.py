"""What runs as an ordinary user on a kernel of the tests' own; `test_podman_delegated.py` starts it."""

import os
from collections.abc import Iterator

import docker
import pytest

from sandbox.engines.podman import PodmanEngine
from sandbox.engines.trial import IMAGE
from tests.engines import bench as bench_module
from tests.engines.bench import Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on, unanswered
from tests.engines.known import PODMAN_DELEGATED
from tests.engines.rootless import SMALL

ADDRESS = os.environ.get("PODMAN_ADDRESS", "")
bench_module.PATIENCE = 300.0


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    client = docker.DockerClient(base_url=ADDRESS, timeout=300)
    (image,) = (one for one in client.images.list() if not str(one.tags).startswith(IMAGE))
    with bench_on(PodmanEngine(client), image.id, lambda: unanswered(PodmanEngine), limits=SMALL) as made:
        yield made
    client.close()


def test_it_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    assert os.geteuid() != 0
    assert bench.engine.info().rootless
    conforms(bench, subtests, PODMAN_DELEGATED.exemptions)
