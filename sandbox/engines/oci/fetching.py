"""Fetches an image into the store: from a Docker that has it, or by digest from its registry (skopeo, umoci)."""

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import docker
import docker.errors
import requests.exceptions

from sandbox.engine import ImageInfo
from sandbox.engines.discovery import connect
from sandbox.engines.images import Archive, DockerImages, split
from sandbox.engines.oci.store import LAYOUT, TMP_PREFIX, ImageStore
from sandbox.errors import EngineUnavailable, ImageMissing, PullFailed
from sandbox.parsing import parse_json

IN_LAYOUT: Final = "image"  # name of an image in its OCI layout
PACKAGES: Final = ("skopeo", "umoci", "ca-certificates")
INSTALL: Final = ("apt-get", "install", "--yes", "--no-install-recommends")
_REACH: Final = "30s"  # time for a registry to resolve a name
_REACH_SECONDS: Final = 20.0
_MAX_DOCUMENT: Final = 4 << 20  # bytes of a manifest or configuration, as registries allow
_MAX_VALUES: Final = 100_000  # members and elements of a manifest or configuration
_HUB: Final = "registry-1.docker.io"  # default registry, for names without one
_SECONDS: Final = 3600.0  # seconds for one step; half a gigabyte takes long on a slow line
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}

ReportProgress = Callable[[str], None]


def fetch(store: ImageStore, reference: str, report: ReportProgress) -> None:
    """Fetches an image into the store. Raises PullFailed."""
    with contextlib.ExitStack() as opened:
        client = None
        with contextlib.suppress(EngineUnavailable):
            client = opened.enter_context(contextlib.closing(connect(timeout=600)))
        if client is not None and DockerImages(client.api).find(reference) is not None:
            report("taking it from the Docker that answers here")
            from_docker(store, client, reference)
            return
    _from_registry(store, reference, report)


def from_docker(store: ImageStore, client: docker.DockerClient, reference: str) -> ImageInfo:
    """Adds an image that a Docker has to the store. Raises PullFailed."""
    image = DockerImages(client.api).find(reference)
    if image is None:
        raise PullFailed(f"this Docker has no {reference}")

    def unpack(rootfs: Path) -> Mapping[str, Any]:
        container = client.api.create_container(image.id, ["true"])["Id"]
        try:
            _untar(rootfs, client.api.export(container))
        finally:
            client.api.remove_container(container)
        return {
            "id": image.id,
            "digest": image.digest,
            "names": [reference],
            "labels": dict(image.labels),
            "source": "docker export",
        }

    try:
        return store.add(unpack)
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise PullFailed(f"Docker did not give it: {error}") from error


def from_archive(store: ImageStore, archive: Path, name: str, labels: Mapping[str, str]) -> ImageInfo:
    """Adds an image from a tar of its root file system. Raises PullFailed."""

    def unpack(rootfs: Path) -> Mapping[str, Any]:
        with archive.open("rb") as file:
            _untar(rootfs, iter(lambda: file.read(1 << 20), b""))
        return {"names": [name], "labels": dict(labels), "source": "made on this host"}

    return store.add(unpack)


def _from_registry(store: ImageStore, reference: str, report: ReportProgress) -> None:
    """Adds an image from its registry. Resolves the digest first, and skopeo compares all parts with it."""
    _require_reachable(reference)
    ensure_installed(("skopeo", "umoci"), PACKAGES, report)
    repository, tag = split(reference)
    image_address = f"docker://{reference if '@' in reference or ':' in tag else f'{repository}:{tag}'}"
    digest = tag
    if not tag.startswith("sha256:"):
        manifest = _run("skopeo", "--command-timeout", _REACH, "inspect", "--raw", image_address)
        digest = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
    report(f"fetching {repository}@{digest}")

    def unpack(rootfs: Path) -> Mapping[str, Any]:
        layout = rootfs.with_name(LAYOUT)
        with tempfile.TemporaryDirectory(dir=rootfs.parent) as temporary:
            source = f"docker://{repository}@{digest}"
            architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
            platform_options = ("--override-os", "linux", "--override-arch", architecture)
            _run("skopeo", *platform_options, "copy", source, f"oci:{layout}:{IN_LAYOUT}")
            report("unpacking it")
            bundle = Path(temporary) / "bundle"
            rootless = () if os.geteuid() == 0 else ("--rootless",)
            _run("umoci", "unpack", *rootless, "--image", f"{layout}:{IN_LAYOUT}", str(bundle))
            rootfs.rmdir()
            (bundle / "rootfs").rename(rootfs)
            image, labels = described(layout)
        return {"id": image, "digest": digest, "names": [reference], "labels": labels, "source": source}

    store.add(unpack)


@contextlib.contextmanager
def archive_of(store: ImageStore, reference: str) -> Iterator[Archive | None]:
    """An image that was fetched from a registry, as an archive for `docker load`. Raises PullFailed.

    None without such an image, or without skopeo. In Docker, the image has the same content id, because its
    configuration is unchanged.
    """
    stored = None
    # the store does not exist, or the image is damaged
    with contextlib.suppress(EngineUnavailable, ImageMissing):
        stored = store.layout(reference)
    if stored is None or not shutil.which("skopeo"):
        yield None
        return
    image, layout = stored
    with tempfile.TemporaryDirectory(dir=layout.parent.parent, prefix=TMP_PREFIX) as temporary:
        file = Path(temporary) / "archive.tar"
        _run(
            "skopeo",
            "copy",
            f"oci:{layout}:{IN_LAYOUT}",
            f"docker-archive:{file}:{':'.join(split(reference))}",
        )
        yield Archive(file, image)


def _require_reachable(reference: str) -> None:
    """Raises PullFailed if the registry cannot be reached, before any program is installed for it."""
    first = split(reference)[0].split("/")[0]
    is_host = "." in first or ":" in first or first == "localhost"
    host = first if is_host else _HUB
    try:
        requests.head(f"https://{host}/v2/", timeout=_REACH_SECONDS)
    except requests.exceptions.SSLError:
        return  # the registry answers; skopeo's configuration decides which certificates are accepted
    except requests.exceptions.RequestException as error:
        raise PullFailed(f"its registry {host} cannot be reached from here") from error


def described(layout: Path) -> tuple[str, dict[str, str]]:
    """The content id and labels of the only image of an OCI layout. Raises PullFailed."""

    def blob(descriptor: Mapping[str, Any]) -> dict[str, Any]:
        algorithm, _, digest = str(descriptor["digest"]).partition(":")
        return _document(layout / "blobs" / algorithm / digest)

    try:
        (only,) = _document(layout / "index.json")["manifests"]
        configuration = blob(only)["config"]
        labels = (blob(configuration).get("config") or {}).get("Labels") or {}
        return str(configuration["digest"]), dict(labels)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PullFailed(f"what was fetched is no image: {error!r}") from error


def _document(path: Path) -> dict[str, Any]:
    """The JSON of one file of an image. Raises OSError, ValueError."""
    with path.open("rb") as file:
        data = file.read(_MAX_DOCUMENT + 1)
    if len(data) > _MAX_DOCUMENT:
        raise ValueError(f"{path.name} is longer than {_MAX_DOCUMENT >> 20} MiB")
    document: dict[str, Any] = parse_json(data, _MAX_VALUES)
    return document


def ensure_installed(programs: Sequence[str], packages: Sequence[str], report: ReportProgress) -> None:
    """Installs programs as root on Debian and Ubuntu.

    On other systems, raises PullFailed with the command to run.
    """
    if all(map(shutil.which, programs)):
        return
    command = " ".join((*INSTALL, *packages))
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise PullFailed(f"{' and '.join(programs)} are needed for it. Run: sudo {command}")
    report(f"installing {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # apt-get update may fail, because the package lists may be present already
    for words in (("apt-get", "-qq", "update"), (*INSTALL, *packages)):
        ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    if ended.returncode:
        raise PullFailed(
            f"{' '.join(packages)} could not be installed: {ended.stderr.strip()[-300:]}. Run: {command}"
        )


def _untar(root: Path, pieces: Iterator[bytes]) -> None:
    """Unpacks a tar archive with numeric owners and all attributes. Raises PullFailed.

    Excludes devices, which only root could create and no container gets.
    """
    options = (
        "--extract --numeric-owner --preserve-permissions --xattrs --anchored --exclude=dev/* --directory"
    )
    command = ["tar", *options.split(), str(root)]
    with tempfile.TemporaryFile() as errors:  # a file, because a pipe could fill up before it is read
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors) as process:  # noqa: S603 - fixed words
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # the reason is in its output
                for piece in pieces:
                    process.stdin.write(piece)
                process.stdin.close()
        errors.seek(0)
        message = errors.read().decode(errors="replace")
    if process.returncode:
        raise PullFailed(f"the image could not be unpacked: {message.strip()[-300:]}")


def _run(*command: str) -> str:
    """Runs a command and returns its output. Raises PullFailed with the last line of its errors."""
    try:
        ended = subprocess.run(  # noqa: S603 - fixed words and a reference, no shell
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PullFailed(f"{command[0]}: {error}") from error
    if ended.returncode:
        raise PullFailed(
            f"{command[0]}: {ended.stderr.strip()[-300:] or f'it ended with {ended.returncode}'}"
        )
    return ended.stdout
