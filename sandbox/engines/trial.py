"""Tries an engine by starting one hardened container on it, and caches the result.

The container uses the same template as the containers of calls, so it gets the same control groups, seccomp filter,
namespaces and read-only root. Its image is built here and contains one program of 170 bytes, which echoes its input.
So an engine can be chosen before minutes are spent on GDAL's image.

A result is kept until the host changes (kernel, control groups, security modules, engine), a day has passed, or
`forget_results` is called. It only decides which engine to use: every container is still compared with the request,
and attestation is still required.
"""

import contextlib
import hashlib
import io
import json
import os
import secrets
import struct
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import docker.errors
import requests.exceptions

from sandbox import PRODUCT
from sandbox.engine import STDOUT, AttachedStreams, Engine, EngineInfo
from sandbox.engines.docker import DockerEngine
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.fetching import from_archive
from sandbox.errors import EngineUnavailable, SandboxError
from sandbox.labels import labels
from sandbox.portable import boot
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import readable

IMAGE: Final = f"{PRODUCT}-trial"
_PROGRAM: Final = "/answer"
_SECONDS: Final = 30.0  # a start takes less than a second; a very busy machine takes several
_CACHE_SECONDS: Final = 24 * 3600.0
_LIMITS: Final = Limits(memory_bytes=128 << 20, cpus=1.0, pids=16, scratch_bytes=1 << 20)
_OTHERS_WRITE: Final = 0o022
# read(0, buffer, 64), write(1, buffer, count), exit_group(0) as machine code; ELF's machine number; largest page size
_CODE: Final[Mapping[str, tuple[str, int, int]]] = {
    "x86_64": (
        "4883ec4031ff4889e6ba4000000031c00f0589c2bf010000004889e6b8010000000f0531ffb8e70000000f05",
        62,
        0x1000,
    ),
    "aarch64": (
        "ff0301d1000080d2e1030091020880d2e80780d2010000d4e20300aa200080d2e1030091080880d2010000d4000080d2c80b80d2010000d4",
        183,
        0x10000,
    ),
}
_KERNEL_NAMES: Final = {
    "amd64": "x86_64",
    "arm64": "aarch64",
}  # keys are the names of the image format, which Podman reports
_IMAGE_NAMES: Final = {kernel: image for image, kernel in _KERNEL_NAMES.items()}
_LOADED_AT: Final = 0x400000
_HEADERS: Final = 64 + 56  # bytes: the ELF header and one program header


def try_engine(engine: Engine, owner: str = "") -> str:
    """The reason why this engine cannot start a container; "" if one started, answered and was removed."""
    try:
        with _image(engine) as image:
            _converse(engine, _template(image), owner)
    except SandboxError as error:
        return str(error)
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        return f"it did not take an image: {error}"
    return ""


def program(architecture: str) -> bytes:
    """A Linux program that echoes its input. Raises EngineUnavailable for an unknown architecture."""
    kernel_name = _KERNEL_NAMES.get(architecture, architecture)
    if kernel_name not in _CODE:
        known = ", ".join(_CODE)
        raise EngineUnavailable(f"containers run on {known}, and this engine's machine is {architecture!r}.")
    text, machine, page = _CODE[kernel_name]
    code = bytes.fromhex(text)
    size = _HEADERS + len(code)
    ident = (b"\x7fELF", 2, 1, 1, 0, 0)  # 64 bits, little-endian
    start = _LOADED_AT + _HEADERS
    header = struct.pack("<4s5B7xHHIQQQIHHHHHH", *ident, 2, machine, 1, start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    readable_and_executable = 5
    segment = struct.pack(
        "<IIQQQQQQ", 1, readable_and_executable, 0, _LOADED_AT, _LOADED_AT, size, size, page
    )
    return header + segment + code


def root_archive(architecture: str) -> bytes:
    """A tar archive of a root file system that contains only the program."""
    return _tar({f".{_PROGRAM}": program(architecture)})


def image_archive(root: bytes, architecture: str, tag: str) -> tuple[bytes, str]:
    """An image of that root file system in the format of `docker save`, and its content id.

    The content id is unique to `tag`.
    """
    config = json.dumps(
        {
            "architecture": _IMAGE_NAMES.get(architecture, architecture),
            "os": "linux",
            "config": {"Labels": {IMAGE: tag}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(root).hexdigest()}"]},
        }
    ).encode()
    digest = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{digest}.json", "RepoTags": [f"{IMAGE}:{tag}"], "Layers": ["layer.tar"]}]
    files = {"manifest.json": json.dumps(manifest).encode(), f"{digest}.json": config, "layer.tar": root}
    return _tar(files), f"sha256:{digest}"


def _tar(files: Mapping[str, bytes]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return output.getvalue()


@contextlib.contextmanager
def _image(engine: Engine) -> Iterator[str]:
    """Provides the trial image, and yields its content id.

    A daemon's image is removed on exit; without a daemon, the image stays (200 bytes).
    """
    architecture = engine.info().architecture
    archive = root_archive(architecture)
    if isinstance(engine, OciEngine):
        reference = f"{IMAGE}:1"
        stored = engine.images.find(reference)
        if stored is None:
            with tempfile.NamedTemporaryFile() as file:
                file.write(archive)
                file.flush()
                stored = from_archive(engine.images, Path(file.name), reference, {})
        yield stored.id
    elif isinstance(engine, DockerEngine):
        saved, image = image_archive(archive, architecture, secrets.token_hex(8))
        with engine.images.loaded(saved, image):
            yield image
    else:
        raise EngineUnavailable(f"{engine.info().name} is used where it is named, and is not tried.")


def _template(image: str) -> SandboxTemplate:
    user = (os.geteuid() or 65534, os.getegid() or 65534)  # never root
    # like every template, sets PATH; otherwise Podman would add its own
    return SandboxTemplate(image, (_PROGRAM,), user, _LIMITS, environment={"PATH": "/usr/bin:/bin"})


def _converse(engine: Engine, template: SandboxTemplate, owner: str) -> None:
    """Sends a container a random value. Raises SandboxError unless the container sends it back."""
    nonce = secrets.token_hex(16).encode()
    container = engine.create(template, labels(owner, "trial", _SECONDS))
    try:
        with contextlib.closing(container.start()) as wire:
            with contextlib.suppress(OSError):  # the container ended; its exit code is reported below
                wire.send(nonce, _SECONDS)
            answer = _answer(wire, len(nonce))
        if answer != nonce:
            state = container.wait(_SECONDS)
            code = "none" if state is None or state.running else state.exit_code
            raise EngineUnavailable(
                f"a container was started and did not answer within {_SECONDS:.0f} s (exit code: {code})."
            )
    finally:
        container.remove()


def _answer(wire: AttachedStreams, size: int) -> bytes:
    """Reads the first `size` bytes of a container's stdout."""
    answer, end = b"", time.monotonic() + _SECONDS
    while len(answer) < size and (left := end - time.monotonic()) > 0 and readable([wire], left):
        pieces = wire.receive()
        if pieces is None:
            break
        answer += b"".join(data for stream, data in pieces if stream == STDOUT)
    return answer


def fingerprint(info: EngineInfo) -> str:
    """A digest of what a trial's result depends on: boot, kernel, control groups, security modules, and the engine."""
    engine_facts = (
        info.name,
        info.version,
        info.address,
        info.identity,
        info.security_options,
        info.cgroup_version,
    )
    host = (boot()[0], os.uname().release, control_groups(), _text("/sys/kernel/security/lsm"))
    return hashlib.sha256(json.dumps((engine_facts, host)).encode()).hexdigest()


def control_groups(root: Path = Path("/proc")) -> list[str]:
    """The layout of this host's control groups: the mounts, and the hierarchy of each controller."""
    mounts = [
        line for line in _text(root / "self/mounts").splitlines() if line.split()[2].startswith("cgroup")
    ]
    controllers = [line.split() for line in _text(root / "cgroups").splitlines() if not line.startswith("#")]
    # the third column counts groups and changes with every container, so it is left out
    return [*mounts, *(f"{name} {hierarchy} {enabled}" for name, hierarchy, _, enabled in controllers)]


def _text(path: Path | str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def results_file() -> Path:
    """The cache file of trial results for this user."""
    return cache_folder() / "engines.json"


def cache_folder() -> Path:
    """This user's cache folder. If the home folder is unknown, the path keeps its `~` and cannot be written to."""
    return Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")) / PRODUCT  # noqa: PTH111


class Results:
    """Results of trials, by fingerprint. A file that is damaged or that other users can write to counts as empty."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or results_file()
        self._recorded = self._read()
        self._new: dict[str, tuple[str, float]] = {}

    def find(self, fingerprint: str) -> str | None:
        """The reason why a trial failed; "" if it passed; None if the engine was not tried."""
        entry = self._recorded.get(fingerprint)
        return entry[0] if entry else None

    def add(self, fingerprint: str, reason: str) -> None:
        self._new[fingerprint] = (reason, time.time())

    def save(self) -> None:
        """Saves new results. Does nothing if the file cannot be written; the next start then repeats the trial."""
        if not self._new:
            return
        text = json.dumps({**self._recorded, **self._new})
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}")
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
            fresh.replace(self._file)

    def _read(self) -> dict[str, tuple[str, float]]:
        now = time.time()
        try:
            with self._file.open(encoding="utf-8") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
                    return {}
                results = {
                    str(name): (str(reason), float(at)) for name, (reason, at) in json.load(file).items()
                }
        except (OSError, ValueError, TypeError, AttributeError):
            return {}
        return {name: entry for name, entry in results.items() if 0 <= now - entry[1] < _CACHE_SECONDS}


def forget_results(file: Path | None = None) -> None:
    """Deletes all results, so that every engine is tried again.

    Called when an engine that passed its trial cannot start a container.
    """
    with contextlib.suppress(OSError):
        (file or results_file()).unlink()
