"""A local base for the server's image and its proxy, where no registry can be reached: Debian with Python and HAProxy.

`TEST_BASE_IMAGE` and `TEST_PROXY_IMAGE` name other images, such as python:3.13-slim and haproxy:3.0.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import docker
import docker.errors

BASE_VARIABLE, PROXY_VARIABLE = "TEST_BASE_IMAGE", "TEST_PROXY_IMAGE"
STANDIN = "gdal-mcp-test-base:bookworm-1"  # the number grows with PACKAGES
PACKAGES = "python3,python3-venv,haproxy,ca-certificates"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_image(client: docker.DockerClient) -> str:
    """What the server's image is built from."""
    return os.environ.get(BASE_VARIABLE) or _standin(client)


def proxy_image(client: docker.DockerClient) -> str:
    """What runs HAProxy."""
    return os.environ.get(PROXY_VARIABLE) or _standin(client)


def _standin(client: docker.DockerClient) -> str:
    """Built once for each host, in about a minute."""
    try:
        client.images.get(STANDIN)
    except docker.errors.ImageNotFound:
        _build(client)
    return STANDIN


def _build(client: docker.DockerClient) -> None:
    program = shutil.which("mmdebstrap")
    assert program, f"install mmdebstrap, or name images: {BASE_VARIABLE} and {PROXY_VARIABLE}"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        archive = Path(folder) / "root.tar"
        command = [program, "--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={PACKAGES}"]
        command += ['--aptopt=Acquire::Check-Valid-Until "false"', "--dpkgopt=path-exclude=/usr/share/man/*"]
        subprocess.run([*command, "bookworm", str(archive)], check=True, capture_output=True)
        name, tag = STANDIN.split(":")
        client.api.import_image(str(archive), repository=name, tag=tag, changes=[f"ENV PATH={_PATH}"])
