"""Engines are chosen by a container that starts: on real ones, with a crun that fails as the one of a host in hybrid mode does."""

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

pytestmark = pytest.mark.engine

HYBRID = "cgroups in hybrid mode not supported, drop all controllers from cgroupv2"
# says that it is a good version, and then does what crun does where a controller is left in version 2
BROKEN = f"""#!/bin/sh
case "$*" in --version) echo 'crun version 1.8.1'; exit 0 ;; esac
while [ $# -gt 0 ]; do [ "$1" != --log ] || echo "{HYBRID}" >"$2"; shift; done
exit 1
"""
OLD = "#!/bin/sh\necho 'crun version 1.5'\n"
OPEN = """
import sys
from sandbox.engines.opening import open_first
opened = open_first(sys.argv[1])
print(opened.engine.info().name, *opened.passed_over, sep="\\n")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:  # an overlay needs a disk's file system
        yield Path(made)


class Host:
    """A PATH and a home of its own, with these programs in front of the machine's, and none of its Docker."""

    def __init__(self, folder: Path, **programs: str) -> None:
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        for name, text in programs.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def open(self, address: str = "") -> tuple[str, str]:
        """The name of the runtime that is used, and what was passed over; or "" and the error."""
        environment = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": str(self.folder),
        }
        command = [sys.executable, "-c", OPEN, address or f"oci://{self.folder}/oci"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        name, _, rest = done.stdout.partition("\n")
        return name, rest or done.stderr


def test_a_crun_that_starts_nothing_gives_way_to_runc(folder: Path) -> None:
    name, passed_over = Host(folder, crun=BROKEN).open()
    assert name == "runc"
    assert HYBRID in passed_over
    assert os.listdir(folder / "oci/containers") == []


def test_a_crun_that_is_too_old_gives_way_to_runc(folder: Path) -> None:
    name, passed_over = Host(folder, crun=OLD).open()
    assert name == "runc"
    assert "1.5" in passed_over


def test_where_neither_starts_a_container_the_error_names_both(folder: Path) -> None:
    broken = BROKEN.replace("crun version", "runc version")
    name, error = Host(folder, crun=BROKEN, runc=broken).open()
    assert name == ""
    assert error.count(HYBRID) == 2


def test_an_engine_that_was_named_is_not_replaced(folder: Path) -> None:
    name, error = Host(folder, crun=BROKEN).open(f"docker:unix://{folder}/absent.sock")
    assert name == ""
    assert "runc" not in error


def test_a_trial_leaves_no_image_and_no_container_on_docker(client: docker.DockerClient) -> None:
    engine = DockerEngine(client)
    assert try_engine(engine, "trial-of-a-test") == ""
    left = [one for one in engine.leftovers() if "trial-of-a-test" in one.labels.values()]
    assert (left, engine.images.names(IMAGE)) == ([], ())


def test_an_engine_that_makes_a_weaker_container_fails_its_trial(folder: Path) -> None:
    class Weaker(OciEngine):
        def create(self, *_: object) -> str:
            raise IsolationRefused("weaker than asked")

    runc = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert runc
    engine = OciEngine(folder / "oci", "runc").prepared()
    assert try_engine(engine) == ""
    assert try_engine(Weaker(folder / "oci", "runc")) == "weaker than asked"
