"""Builds a local GDAL image from Debian's own packages, for a host that cannot reach the official one.

It is not the official image, and its labels say so: other drivers, other versions of the libraries it uses. Debian builds GDAL
without Parquet, so that driver is built from Debian's source here; without it, should that fail, the image is made all the same.
Debian's signatures are checked; only the expiry of the index is not, so that a snapshot mirror works.

`make setup` runs it when the official image cannot be pulled and GDAL_MCP_IMAGE names no other.

The root file system that was built stays in this user's cache (`~/.cache/gdal-mcp/standin`, half a gigabyte) for a month, so that a
second engine imports it and nothing is built twice. The folder may be removed at any time.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import docker
import docker.errors
import requests.exceptions

from gdal_mcp.runtime.image import STANDIN_LABEL
from gdal_mcp.toolboxes.gdal import image
from sandbox.engines.discovery import connect
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.fetching import from_archive
from sandbox.engines.oci.store import ImageStore
from sandbox.engines.opening import open_engine
from sandbox.engines.trial import cache_folder
from sandbox.errors import ImageMissing, SandboxError
from scripts import pull

SUITES = ("forky", "sid")  # stable (trixie) has GDAL 3.10, without the `gdal` program

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LARGE = "/var/tmp"  # noqa: S108 - a private folder in it; 1 GB is written, and /tmp is often in memory
_PACKAGES = (
    "mmdebstrap",
    "debian-archive-keyring",
    "gpg",
    "uidmap",
)  # it needs gpg, and uidmap when not root
_PARQUET = Path(__file__).with_name("parquet.sh")
# mmdebstrap's output at the start of a step, and the message for it
_STEPS = {
    "I: installing remaining packages": "installing GDAL",
    "I: running --customize-hook": "building GDAL's Parquet driver",
    "I: cleaning package lists": "packing the root file system",
}
_MAX_AGE_SECONDS = 30 * 24 * 3600.0  # the age at which Debian has security updates for its packages
_OTHERS_WRITE = 0o022
_INSTALL = (
    "apt-get",
    *("-o", "DPkg::Lock::Timeout=120"),
    *("install", "--yes", "--no-install-recommends"),
    *_PACKAGES,
)


def build(target: docker.DockerClient | ImageStore, report: Callable[[str], None]) -> str:
    """Makes `gdal-mcp-standin:<GDAL version>` and returns that name.

    Raises ImageMissing without mmdebstrap and the right to install it, or when no suite has a GDAL new enough.
    """
    program = _mmdebstrap(report)
    problems: list[str] = []
    for suite in SUITES:
        with tempfile.TemporaryDirectory(dir=_LARGE, prefix="gdal-mcp-") as folder:
            archive = Path(folder) / "root.tar"
            report(f"fetching Debian {suite} with GDAL")
            complete = True
            problem = _bootstrap(program, suite, archive, report, parquet=True)
            if problem:
                report(f"without Parquet, as it could not be built: {problem}")
                complete = False
                problem = _bootstrap(program, suite, archive, report, parquet=False)
            if problem:
                problems.append(f"{suite}: {problem}")
                continue
            version = upstream_version(_packaged_version(archive))
            if tuple(int(part) for part in version.split(".")[:2]) < image.OLDEST:
                problems.append(f"{suite}: it has GDAL {version}")
                continue
            report(f"importing GDAL {version} into the engine")
            reference = _import(target, archive, version)
            if complete:
                _keep(archive, suite, version)
            return reference
    reasons = "; ".join(problems)
    raise ImageMissing(f"no stand-in could be built: {reasons}. Check the network, or run this once as root.")


def import_kept(target: docker.DockerClient | ImageStore, report: Callable[[str], None]) -> str | None:
    """Imports the archive of an earlier build, for this or another engine, and returns the image's name; None if
    there is none.
    """
    with contextlib.suppress(OSError):
        for suite in SUITES:
            # the newest is last
            archives = sorted(
                _private_cache().glob(f"{suite}-{_recipe()}-*.tar"),
                key=lambda archive: archive.stat().st_mtime,
            )
            if archives and time.time() - archives[-1].stat().st_mtime < _MAX_AGE_SECONDS:
                version = archives[-1].stem.rpartition("-")[2]
                report(f"importing GDAL {version}, which was built before ({archives[-1]})")
                return _import(target, archives[-1], version)
    return None


def _keep(archive: Path, suite: str, version: str) -> None:
    """Moves the archive of a root file system into the cache, in place of older ones. A failure only costs another
    build.
    """
    with contextlib.suppress(OSError):
        folder = _private_cache()
        fresh = folder / f".{secrets.token_hex(8)}"
        try:
            shutil.move(archive, fresh)
            fresh.chmod(0o600)
            for older in folder.glob("*.tar"):
                older.unlink()
            fresh.rename(folder / f"{suite}-{_recipe()}-{version}.tar")
        finally:
            fresh.unlink(missing_ok=True)


def _private_cache() -> Path:
    """A folder that only this user can write, because its contents are run. Raises OSError for any other folder."""
    folder = cache_folder() / "standin"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for private_folder in (folder.parent, folder):
        status = private_folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
            raise PermissionError(f"{private_folder} belongs to another user, or others may write to it")
    return folder


def _recipe() -> str:
    """Eight digits for the recipe of an image: another recipe makes another image."""
    texts = (Path(__file__), _PARQUET)
    return hashlib.sha256(b"".join(path.read_bytes() for path in texts)).hexdigest()[:8]


def upstream_version(package: str) -> str:
    """`3.13.3+dfsg-2` is 3.13.3: Debian's epoch, repackaging and revision are removed."""
    text = package.rpartition(":")[2]
    digits = "".join(letter if letter.isdigit() or letter == "." else " " for letter in text).split()
    return digits[0].strip(".") if digits else "0.0"


def _mmdebstrap(report: Callable[[str], None]) -> str:
    if program := shutil.which("mmdebstrap"):
        return program
    command = " ".join(_INSTALL)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ImageMissing(f"mmdebstrap, which builds the stand-in, is not installed. Run: sudo {command}")
    report("installing mmdebstrap")
    _run(("apt-get", "update"))  # if this fails and it matters, the next step reports it
    if problem := _run(_INSTALL):
        raise ImageMissing(f"mmdebstrap could not be installed: {problem}. Run: {command}")
    return shutil.which("mmdebstrap") or "mmdebstrap"


def _bootstrap(
    program: str, suite: str, archive: Path, report: Callable[[str], None], *, parquet: bool
) -> str | None:
    """None if the archive was built, otherwise the reason."""
    hooks = ('--customize-hook=chroot "$1" sh -s <"$PARQUET"',) if parquet else ()
    command = (
        program,
        "--variant=minbase",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        "--dpkgopt=force-unsafe-io",  # the folder is temporary, so its files need not reach the disk
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--include=gdal-bin,python3-gdal",
        *hooks,
        suite,
        str(archive),
    )
    return _run(command, lambda line: _report_step(line, report))


def _report_step(line: str, report: Callable[[str], None]) -> None:
    """Reports one line for each long step of mmdebstrap, of the many that it prints."""
    for begins, text in _STEPS.items():
        if line.startswith(begins):
            report(text)


def _run(command: Sequence[str], each: Callable[[str], None] = lambda _line: None) -> str | None:
    """Runs the command and passes every line of its output to `each`. None after a success, otherwise the last three
    lines without progress.
    """
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": _LARGE, "LC_ALL": "C"}
    environment["PARQUET"] = str(_PARQUET)
    last: deque[str] = deque(maxlen=3)
    with subprocess.Popen(  # noqa: S603 - fixed words, no shell
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            if not line.startswith("I: "):  # mmdebstrap's progress, which continues after its error
                last.append(line.strip())
            each(line.strip())
    return (" / ".join(last) or "it said nothing") if process.returncode else None


def _packaged_version(archive: Path) -> str:
    with tarfile.open(archive) as tar:
        status = tar.extractfile("./var/lib/dpkg/status")
        text = status.read().decode() if status else ""
    for paragraph in text.split("\n\n"):
        fields = dict(
            line.partition(": ")[::2] for line in paragraph.splitlines() if not line.startswith(" ")
        )
        if fields.get("Package") == "gdal-bin":
            return fields.get("Version", "")
    return ""


def _import(target: docker.DockerClient | ImageStore, archive: Path, version: str) -> str:
    labels = {
        STANDIN_LABEL: "true",
        image.VERSION_LABEL: version,
        "org.opencontainers.image.title": "GDAL from Debian, local stand-in",
        "org.opencontainers.image.version": version,
    }
    reference = f"{image.STANDIN}:{version}"
    if isinstance(target, ImageStore):
        return from_archive(target, archive, reference, labels).reference
    changes = [f'LABEL {name}="{value}"' for name, value in labels.items()]
    changes += [f"ENV PATH={_PATH}", 'CMD ["/bin/bash"]']
    try:
        answer = target.api.import_image(str(archive), repository=image.STANDIN, tag=version, changes=changes)
    except (docker.errors.APIError, requests.exceptions.RequestException) as error:
        raise ImageMissing(f"the engine did not import the stand-in: {error}. Is its disk full?") from error
    if '"error"' in str(answer):  # the engine reports it in a stream that began with success
        raise ImageMissing(f"the engine did not import the stand-in: {answer}. Is its disk full?")
    return reference


def _target(address: str | None) -> docker.DockerClient | ImageStore:
    """The place where the engine in use stores its images. Raises SandboxError."""
    engine = open_engine(address)
    return engine.images if isinstance(engine, OciEngine) else connect(address)


def main() -> int:
    if os.environ.get("GDAL_MCP_IMAGE"):
        print("GDAL_MCP_IMAGE names an image, so no stand-in is built in its place", file=sys.stderr)
        return 1
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # two set-ups of the same clone in two terminals
            pull.progress("another set-up builds it already; waiting for that one")
            fcntl.flock(lock, fcntl.LOCK_EX)
            if pull.main() == 0:
                return 0
        try:
            target = _target(os.environ.get("GDAL_MCP_ENGINE"))
            if import_kept(target, pull.progress) is None:
                pull.progress("building a local stand-in from Debian's packages, which takes a minute or two")
                build(target, pull.progress)
        except SandboxError as error:
            print(error, file=sys.stderr)
            return 1
        return pull.main()


if __name__ == "__main__":
    sys.exit(main())
