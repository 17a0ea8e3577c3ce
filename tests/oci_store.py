"""An engine without a daemon for tests: one store for all tests, filled once from the Docker that has the image."""

import fcntl
import os
from pathlib import Path

import docker

from gdal_mcp.runtime.image import Image
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.fetching import from_docker
from tests.engines.kit import not_tried

FOLDER = Path("/var/tmp/gdal-mcp-tests/oci")


def docker_address() -> str | None:
    """The address of the Docker that tests need whatever engine they run on; None if it is to be discovered."""
    named = os.environ.get("GDAL_MCP_ENGINE", "")
    return None if named.startswith(("oci:", "k8s:")) else named or None


def oci_engine(client: docker.DockerClient, image: Image, folder: Path = FOLDER) -> OciEngine:
    if os.geteuid() != 0:
        not_tried("the engine without a daemon", "only root can make containers with it")
    engine = OciEngine(folder).prepared()
    with (folder / "filling").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if engine.images.find(image.id) is None:
            from_docker(engine.images, client, image.reference)
    return engine
