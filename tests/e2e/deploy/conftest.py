"""Fixtures that the tests of a deployment share."""

import re
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from testcontainers.core.config import testcontainers_config

from tests.e2e.deploy.proxy_kit import Proxy, proxying
from tests.e2e.deploy.server_image import server_image

# otherwise testcontainers pulls a container of its own to remove ours; the `with` blocks of the tests do that
testcontainers_config.ryuk_disabled = True


@pytest.fixture(scope="module")
def built(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    return server_image(client, tmp_path_factory.mktemp("context"))


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with everything that may be mounted."""
    folder = tmp_path_factory.mktemp("deployed")
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def proxy(client: docker.DockerClient, deployed: Path) -> Iterator[Proxy]:
    """The proxy in front of the engine in use."""
    with proxying(client, deployed / "engine", re.escape(str(deployed))) as started:
        yield started
