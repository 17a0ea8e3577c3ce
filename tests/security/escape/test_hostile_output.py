"""Hostile code that leaves traps in its output folder: none is published, and all of them are removed."""

import errno
import os
from collections.abc import Iterator

import pytest

from sandbox.errors import OutputRejected
from sandbox.outcome import StagingLimitExceeded
from sandbox.outputs.inspection import collect
from sandbox.outputs.staging import Staging
from sandbox.template import Limits
from tests.conftest import SMALL, USER

pytestmark = pytest.mark.engine

# each trap in a separate folder, so that one container can create all of them
TRAPS = """
import fcntl

def case(name):
    os.mkdir("/staging/" + name)
    os.chdir("/staging/" + name)

def named(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))

case("newline"); named(b"a\\nb")
case("escape"); named(b"\\x1b[2J\\x1b]0;owned\\x07")
case("separator"); named("a\\u2028b".encode())
case("undecodable"); named(b"\\xff\\xfe")
case("second name"); named(b"one"); os.link("one", "two")
case("deep")
for _ in range(1000):
    os.mkdir("d"); os.chdir("d")
named(b"bottom")
case("sparse"); os.truncate(os.open("giant", os.O_CREAT | os.O_WRONLY), job["file_bytes"])
for number in range(3):
    os.truncate(os.open(f"giant-{number}", os.O_CREAT | os.O_WRONLY), job["file_bytes"])
case("barred"); os.mkdir("closed"); named(b"closed/in"); os.chmod("closed", 0); os.chmod(".", 0)
case("many")
for number in range(job["files"] + 1):
    named(b"%d" % number)
case("fine"); named("n" * 255); named("ümläut")
os.chdir("/")
try: named("/staging/" + "n" * 256)
except OSError as error: over = error.errno
return {"code": 0, "over": over}
"""
ROOMY = Limits()
REFUSED = {
    **dict.fromkeys(("newline", "escape", "separator", "undecodable", "second name", "deep"), ROOMY),
    **dict.fromkeys(("sparse", "many"), SMALL),
}


@pytest.fixture
def laid(way, attack, ground) -> Iterator[Staging]:
    """An output folder with every trap in it, after its container has ended."""
    with ground.area.open("staging-0001", USER) as staging:
        limits = {"file_bytes": SMALL.file_bytes, "files": SMALL.staging_files}
        result = attack(TRAPS, request=limits, workspace=ground.workspace, staging=staging.path)
        assert way.returned(result)["over"] == errno.ENAMETOOLONG
        yield staging


def look(staging: Staging, name: str, limits: Limits) -> int:
    folder = os.open(staging.path / name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return len(collect(folder, limits))
    finally:
        os.close(folder)


@pytest.mark.claim("escape.output-traps")
def test_every_output_trap_is_refused_and_removed(laid):
    for name, limits in REFUSED.items():
        with pytest.raises(OutputRejected):
            look(laid, name, limits)
        assert os.path.lexists(laid.path / name)
    assert look(laid, "fine", SMALL) == 2
    with pytest.raises(OutputRejected):
        laid.collect(SMALL)
    place = laid.path
    laid.discard()
    assert not os.path.lexists(place)


MILLION = """
os.mkdir("/staging/many")
for number in range(1_000_000):
    os.close(os.open(f"/staging/many/{number}", os.O_CREAT | os.O_WRONLY))
"""


@pytest.mark.claim("escape.output-traps")
def test_million_files_end_soon_after_the_limit(attack, ground):
    with ground.area.open("staging-0001", USER) as staging:
        result = attack(MILLION, staging=staging.path, quota=staging)
        count = len(os.listdir(staging.path / "many"))
    assert result.outcome == StagingLimitExceeded("files", SMALL.staging_files)
    assert SMALL.staging_files <= count < 1_000_000
