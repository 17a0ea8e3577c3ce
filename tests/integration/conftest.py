"""The image that tests against a real engine use: built by the project where it can be, else a stand-in for it."""

import docker
import pytest

IMAGES = ("gdal-mcp-standin:3.13.3", "local/gdal:try")


@pytest.fixture(scope="session")
def image_id():
    """The content id of the first image that this host has."""
    client = docker.APIClient()
    try:
        known = {tag: image["Id"] for image in client.images() for tag in image["RepoTags"] or ()}
    finally:
        client.close()
    found = [known[name] for name in IMAGES if name in known]
    assert found, f"none of the images {IMAGES} is on this host"
    return found[0]
