"""Builds a local GDAL image from Debian's own packages, for a host that cannot reach the official one.

It is not the official image, and its labels say so: other drivers, other versions of the libraries it uses. Debian builds GDAL
without Parquet, so that driver is built from Debian's source here; without it, should that fail, the image is made all the same.
Debian's signatures are checked; only the expiry of the index is not, so that a snapshot mirror works.

`make setup` runs it when the official image cannot be pulled and GDAL_MCP_IMAGE names no other.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import docker
import docker.errors
import requests.exceptions

from gdal_mcp.gdal import image
from gdal_mcp.host.image import STANDIN_LABEL
from sandbox.engines.discovery import connect
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.fetching import from_archive
from sandbox.engines.oci.store import ImageStore
from sandbox.engines.opening import open_engine
from sandbox.errors import ImageMissing, SandboxError

SUITES = ("forky", "sid")  # stable (trixie) has GDAL 3.10, without the `gdal` program

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LARGE = "/var/tmp"  # noqa: S108 - a private folder in it; 1 GB is written, and /tmp is often in memory
_PACKAGES = (
    "mmdebstrap",
    "debian-archive-keyring",
    "gpg",
    "uidmap",
)  # it needs gpg, and uidmap when not root
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
            report(f"fetching Debian {suite} with GDAL, and building its Parquet driver")
            problem = _bootstrap(program, suite, archive, report, parquet=True)
            if problem:
                report(f"without Parquet, as it could not be built: {problem}")
                problem = _bootstrap(program, suite, archive, report, parquet=False)
            if problem:
                problems.append(f"{suite}: {problem}")
                continue
            version = upstream_version(_packaged_version(archive))
            if tuple(int(part) for part in version.split(".")[:2]) < image.OLDEST:
                problems.append(f"{suite}: it has GDAL {version}")
                continue
            report(f"importing GDAL {version} into the engine")
            return _import(target, archive, version)
    reasons = "; ".join(problems)
    raise ImageMissing(f"no stand-in could be built: {reasons}. Check the network, or run this once as root.")


def upstream_version(package: str) -> str:
    """`3.13.3+dfsg-2` is 3.13.3: Debian's epoch, repackaging and revision are taken off."""
    text = package.rpartition(":")[2]
    digits = "".join(letter if letter.isdigit() or letter == "." else " " for letter in text).split()
    return digits[0].strip(".") if digits else "0.0"


def _mmdebstrap(report: Callable[[str], None]) -> str:
    if found := shutil.which("mmdebstrap"):
        return found
    command = " ".join(_INSTALL)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ImageMissing(f"mmdebstrap, which builds the stand-in, is not installed. Run: sudo {command}")
    report("installing mmdebstrap")
    _run(("apt-get", "update"))  # should it fail and matter, the next step says so
    if problem := _run(_INSTALL):
        raise ImageMissing(f"mmdebstrap could not be installed: {problem}. Run: {command}")
    return shutil.which("mmdebstrap") or "mmdebstrap"


def _bootstrap(
    program: str, suite: str, archive: Path, report: Callable[[str], None], *, parquet: bool
) -> str | None:
    """None when the archive is there, else why not."""
    hooks = ('--customize-hook=chroot "$1" sh -s <"$PARQUET"',) if parquet else ()
    command = (
        program,
        "--variant=minbase",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        "--dpkgopt=force-unsafe-io",  # the folder is thrown away, so nothing in it needs to reach the disk
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--include=gdal-bin,python3-gdal",
        *hooks,
        suite,
        str(archive),
    )
    return _run(command, lambda line: report(line.removeprefix("I: ")) if line.startswith("I: ") else None)


def _run(command: Sequence[str], each: Callable[[str], None] = lambda _line: None) -> str | None:
    """Runs the command and gives `each` every line it prints. None when it went well, else its last three lines."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": _LARGE, "LC_ALL": "C"}
    environment["PARQUET"] = str(Path(__file__).with_name("parquet.sh"))
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
    if '"error"' in str(answer):  # the engine says so in a stream that began with success
        raise ImageMissing(f"the engine did not import the stand-in: {answer}. Is its disk full?")
    return reference


def _target(address: str | None) -> docker.DockerClient | ImageStore:
    """Where the images of the engine in use are kept. Raises SandboxError."""
    engine = open_engine(address)
    return engine.images if isinstance(engine, OciEngine) else connect(address)


def main() -> int:
    if os.environ.get("GDAL_MCP_IMAGE"):
        print("GDAL_MCP_IMAGE names an image, so no stand-in is built in its place", file=sys.stderr)
        return 1
    print("building a local stand-in from Debian's packages instead; this takes a minute or two", flush=True)
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # two set-ups of one clone, in two terminals
            print("another set-up builds it already; waiting for that one", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if image.main() == 0:
                return 0
        try:
            build(_target(os.environ.get("GDAL_MCP_ENGINE")), lambda line: print(line, flush=True))
        except SandboxError as error:
            print(error, file=sys.stderr)
            return 1
        return image.main()


if __name__ == "__main__":
    sys.exit(main())
