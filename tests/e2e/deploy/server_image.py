"""The server's image, built from the unchanged Dockerfile and from wheels that were fetched outside, and its base
images.

If no registry can be reached, the base is Debian with Python and HAProxy. `TEST_BASE_IMAGE` and `TEST_PROXY_IMAGE`
name other images, such as python:3.13-slim and haproxy:3.0.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import docker
import docker.errors

ROOT = Path(__file__).parents[3]
TAG = "gdal-mcp-test:server"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gdal-mcp-tests"
_PARTS = (
    "Dockerfile .dockerignore pyproject.toml README.md LICENSE sandbox gdal_mcp deploy requirements".split()
)
_LOCKS = ("server.txt", "package.txt")
_BELOW = "import sys, platform; print('%d.%d' % sys.version_info[:2], platform.machine())"


def server_image(client: docker.DockerClient, folder: Path) -> str:
    """Builds the image in `folder`, with the layers that the engine still has of an earlier build.

    Only one build runs at a time: two builds would make two images, and the later build would remove the other one.
    """
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "building").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        base = base_image(client)
        options = {"entrypoint": [], "remove": True, "network_mode": "none"}
        version, machine = client.containers.run(base, ["python3", "-c", _BELOW], **options).decode().split()
        for part in _PARTS:
            source = ROOT / part
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / part)
        shutil.copytree(locked_wheels(version, machine), folder / "wheels")
        before = {image.id for image in client.images.list(name=TAG)}
        built, _ = client.images.build(
            path=str(folder),
            tag=TAG,
            buildargs={"BASE": base, "PIP_NO_INDEX": "1"},
            rm=True,
            network_mode="none",
        )
        for old in (*(before - {built.id}), *_older_stages(client)):
            client.images.remove(old)  # no image has a name any more
        return str(built.id)


def _older_stages(client: docker.DockerClient) -> list[str]:
    """The first stages of all builds except the last, which the next build continues from."""
    filters = {"dangling": True, "label": "io.gdal-mcp.stage=build"}
    stages = client.images.list(filters=filters)
    return [image.id for image in sorted(stages, key=lambda image: image.attrs["Created"])[:-1]]


def locked_wheels(version: str, machine: str) -> Path:
    """The wheels in the locks, for the Python of the base image; fetched once for each version of the locks."""
    locks = [ROOT / "requirements" / name for name in _LOCKS]
    state = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks) + version.encode()).hexdigest()[:16]
    wheels = _CACHE / f"wheels-{state}"
    if not wheels.is_dir():
        fresh = _CACHE / f"fetching-{os.getpid()}"
        for lock in locks:
            _fetch(lock, fresh, version, machine)
        fresh.rename(wheels)
    return wheels


def _fetch(lock: Path, folder: Path, version: str, machine: str) -> None:
    platforms = [f"manylinux{tag}_{machine}" for tag in ("_2_34", "_2_28", "_2_17", "2014")]
    chosen = [word for platform in platforms for word in ("--platform", platform)]
    command = [
        sys.executable,
        *"-m pip download --quiet --no-deps --require-hashes --only-binary=:all:".split(),
    ]
    command += ["--dest", str(folder), "--python-version", version, *chosen, "--requirement", str(lock)]
    subprocess.run(command, check=True, capture_output=True, text=True)


BASE_VARIABLE, PROXY_VARIABLE = "TEST_BASE_IMAGE", "TEST_PROXY_IMAGE"
STANDIN = "gdal-mcp-test-base:bookworm-1"  # increase the number when PACKAGES changes
PACKAGES = "python3,python3-venv,haproxy,ca-certificates"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_image(client: docker.DockerClient) -> str:
    """The base image of the server's image."""
    return os.environ.get(BASE_VARIABLE) or _standin(client)


def proxy_image(client: docker.DockerClient) -> str:
    """An image with HAProxy."""
    return os.environ.get(PROXY_VARIABLE) or _standin(client)


def _standin(client: docker.DockerClient) -> str:
    """The local base image. It is built once for each host, in about a minute."""
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
