"""Podman as root passes all checks except its exemptions, and the server's calls run on it."""

import contextlib
import json
from collections.abc import Iterator

import docker
import pytest

from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.gdal.catalogue.capture import capture_image
from sandbox.engines.opening import open_engine
from sandbox.engines.podman import PodmanEngine
from sandbox.engines.trial import try_engine
from tests.e2e.cli.conftest import Desk
from tests.engines.bench import Bench
from tests.engines.checks import conforms
from tests.engines.kit import PodmanService, bench_on, podman_service, unanswered
from tests.engines.known import PODMAN

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.engine,
    pytest.mark.claim("engine.podman-does-what-an-engine-must"),
]


@pytest.fixture(scope="module")
def service(client: docker.DockerClient, image: Image) -> Iterator[PodmanService]:
    with podman_service() as service:
        service.load(client, image.reference)
        yield service


@pytest.fixture(scope="module")
def bench(service: PodmanService, image: Image) -> Iterator[Bench]:
    own = service.client()
    with bench_on(PodmanEngine(own), image.id, lambda: unanswered(PodmanEngine)) as new_bench:
        yield new_bench
    own.close()


def test_podman_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    conforms(bench, subtests, PODMAN.exemptions)


def test_a_trial_passes_and_leaves_nothing(service: PodmanService) -> None:
    with contextlib.closing(open_engine(f"podman:{service.address}")) as own:
        before = own.images._api.images()
        assert try_engine(own) == ""
        assert own.images._api.images() == before
        assert own.leftovers() == ()


def test_the_image_tells_there_what_its_gdal_can(service: PodmanService, image: Image) -> None:
    """The doctor asks for this even though Podman would set limits that a host does not permit."""
    with contextlib.closing(open_engine(f"podman:{service.address}")) as own:
        catalogue = json.loads(capture_image(own, image.id))
    assert catalogue["gdal"].startswith(image.version)
    assert catalogue["algorithms"]


def test_server_call_runs_and_leaves_no_container(service, image, tmp_path):
    for name in ("ws", "state"):
        (tmp_path / name).mkdir()
    desk = Desk(tmp_path / "ws", tmp_path / "state")
    (desk.workspace / "points.csv").write_text("x,y,name\n1,2,a\n")
    chosen = ("--engine", service.address, "--image", image.reference)
    done = desk.call("convert", {"input": "points.csv", "output": "out.gpkg"}, "--yes", *chosen)
    assert done.code == 0, done.stdout + done.stderr
    assert done.json["receipt"]["engine"].startswith("Podman")
    assert (desk.workspace / "out.gpkg").read_bytes().startswith(b"SQLite")
    own = service.client()
    assert own.containers.list(all=True) == []
    own.close()
