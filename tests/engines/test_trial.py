"""Engines are chosen by a container that starts: real engines, with a crun that fails like that of a host in hybrid
mode.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox.engines.docker import DockerEngine
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.trial import IMAGE, try_engine
from sandbox.errors import IsolationRefused
from tests.engines.kit import not_tried

pytestmark = pytest.mark.engine

HYBRID = "cgroups in hybrid mode not supported, drop all controllers from cgroupv2"
# reports a good version, and then does what crun does if a controller is left in version 2
BROKEN = f"""#!/bin/sh
case "$*" in --version) echo 'crun version 1.8.1'; exit 0 ;; esac
while [ $# -gt 0 ]; do [ "$1" != --log ] || echo "{HYBRID}" >"$2"; shift; done
exit 1
"""
OLD = "#!/bin/sh\necho 'crun version 1.5'\n"
OPEN = """
import sys
from pathlib import Path
from sandbox.engines import opening
opening.OCI_FOLDER = Path(sys.argv[2])
opened = opening.open_first(sys.argv[1] or None)
print(opened.engine.info().name, *opened.passed_over, sep="\\n")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    if os.geteuid() != 0:
        not_tried("the engine without a daemon", "only root can make containers with it")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # an overlay needs the file system of a disk
        yield Path(name)


# prefixes of a command, each of which takes something of the machine away from it
NO_SOCKETS = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh")
# needed to read an interpreter in root's home; it opens no socket
NOT_ROOT = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"),
)
IN_A_CONTAINER = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all")


class Host:
    """A separate PATH and home, with these programs before the machine's."""

    def __init__(self, folder: Path, **programs: str) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        for name, text in programs.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def run(self, *words: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.bin}:{path}", "HOME": str(self.folder)}
        program = shutil.which(words[0])
        assert program
        return subprocess.run(
            [program, *words[1:]], env=environment, capture_output=True, text=True, check=False
        )

    def open(
        self, address: str | None = None, *without: str, path: str = os.environ["PATH"]
    ) -> tuple[str, str]:
        """The name of the runtime that is used, and those that were passed over; or "" and the error. By default it
        opens `oci`.
        """
        own = f"{self.folder}/oci"
        words = [*without, sys.executable, "-c", OPEN, f"oci://{own}" if address is None else address, own]
        done = self.run(*words, path=path)
        name, _, rest = done.stdout.partition("\n")
        return name, rest or done.stderr


def test_crun_that_starts_nothing_is_replaced_by_runc(folder: Path) -> None:
    name, passed_over = Host(folder, crun=BROKEN).open()
    assert name == "runc"
    assert HYBRID in passed_over
    assert os.listdir(folder / "oci/containers") == []


def test_outdated_crun_is_replaced_by_runc(folder: Path) -> None:
    name, passed_over = Host(folder, crun=OLD).open()
    assert name == "runc"
    assert "1.5" in passed_over


def test_failing_crun_and_runc_are_both_named(folder: Path) -> None:
    broken = BROKEN.replace("crun version", "runc version")
    name, error = Host(folder, crun=BROKEN, runc=broken).open()
    assert name == ""
    assert error.count(HYBRID) == 2


def test_stopped_docker_is_named_while_a_runtime_serves(folder: Path) -> None:
    name, passed_over = Host(folder, dockerd="", crun=BROKEN).open("", *NO_SOCKETS)
    assert name == "runc"
    assert "installed and not running" in passed_over
    assert HYBRID in passed_over


def test_doctor_lists_skipped_engines_with_reasons(folder: Path) -> None:
    host = Host(folder, dockerd="", crun=BROKEN)
    command = [sys.executable, "-m", "gdal_mcp", "doctor", "--json", "--state-dir", str(folder / "state")]
    done = host.run(*NO_SOCKETS, *command, "--engine", f"oci://{folder}/oci")
    rows = [row for row in json.loads(done.stdout)["rows"] if row["name"] == "passed over"]
    assert [(row["state"], HYBRID in row["found"]) for row in rows] == [("warning", True)]


def test_where_only_runc_is_installed_it_is_used(folder: Path) -> None:
    host = Host(folder)
    for name in ("tar", "sh"):  # the programs that unpack an image; crun is in the same folder
        program = shutil.which(name)
        assert program
        (host.bin / name).symlink_to(program)
    name, passed_over = host.open(path="")
    assert name == "runc"
    assert "crun" in passed_over


def test_forbidden_socket_is_an_error_saying_so(folder: Path) -> None:
    folder.chmod(0o755)
    name, error = Host(folder).open("", *NOT_ROOT)
    assert name == ""
    assert "EngineRefused" in error
    assert "docker.sock" in error


@pytest.mark.parametrize("without", [NOT_ROOT, IN_A_CONTAINER], ids=["not root", "in a container"])
def test_no_daemon_and_no_runtime_explain_why(folder, without):
    folder.chmod(0o755)
    name, error = Host(folder).open("", *NO_SOCKETS, *without)
    assert name == ""
    assert "EngineUnavailable" in error
    assert ("not root" if without is NOT_ROOT else "CAP_SYS_ADMIN") in error


def test_an_engine_that_was_named_is_not_replaced(folder: Path) -> None:
    name, error = Host(folder, crun=BROKEN).open(f"docker:unix://{folder}/absent.sock")
    assert name == ""
    assert "runc" not in error


def test_trial_leaves_no_image_or_container_on_docker(client: docker.DockerClient) -> None:
    engine = DockerEngine(client)
    assert try_engine(engine, "trial-of-a-test") == ""
    left = [leftover for leftover in engine.leftovers() if "trial-of-a-test" in leftover.labels.values()]
    assert (left, engine.images.names(IMAGE)) == ([], ())


def test_engine_making_a_weaker_container_fails_its_trial(folder: Path) -> None:
    class Weaker(OciEngine):
        def create(self, *_: object) -> str:
            raise IsolationRefused("weaker than asked")

    runc = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert runc
    engine = OciEngine(folder / "oci", "runc").prepared()
    assert try_engine(engine) == ""
    assert try_engine(Weaker(folder / "oci", "runc")) == "weaker than asked"
