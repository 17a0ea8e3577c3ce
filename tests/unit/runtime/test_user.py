"""A server that is started as root gives up root once it knows the owner of its workspace."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pydantic
import pytest

import gdal_mcp
from gdal_mcp.runtime.user import require_access
from gdal_mcp.settings import SettingsError, load_settings

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give up root")
PROGRAM = """
import json, os, sys
from pathlib import Path
from gdal_mcp.runtime.user import drop_privileges
from gdal_mcp.settings import load_settings
drop_privileges(load_settings(workspaces=(sys.argv[1],), state_dir=sys.argv[2], run_as=sys.argv[3]))
facts = dict(line.split(":\\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\\t" in line)
print(json.dumps({name: facts[name].split() for name in ("Uid", "Gid", "CapEff", "CapPrm", "NoNewPrivs")} | {"home": [os.environ["HOME"]]}))
"""


def started(maps: Path, state: Path, run_as: str) -> dict[str, list[str]]:
    command = [sys.executable, "-c", PROGRAM, str(maps), str(state), run_as]
    run = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "HOME": "/root"})
    status: dict[str, list[str]] = json.loads(run.stdout)
    return status


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    """A workspace of another user."""
    folder = tmp_path / "maps"
    folder.mkdir()
    os.chown(folder, 1234, 1235)
    return folder


@pytest.mark.claim("engine.root-given-up")
def test_server_becomes_owner_permanently_with_its_records(tmp_path: Path, maps: Path):
    state = tmp_path / "state"
    (state / "servers").mkdir(parents=True)
    status = started(maps, state, "owner")
    assert (status["Uid"], status["Gid"]) == (["1234"] * 4, ["1235"] * 4)
    assert (int(status["CapEff"][0], 16), int(status["CapPrm"][0], 16), status["NoNewPrivs"]) == (0, 0, ["1"])
    assert status["home"] == [
        str(state)
    ]  # not root's home, in which the owner cannot read the engine's configuration
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (state, state / "servers")} == {(1234, 1235)}


def test_server_stays_root_for_closed_folders_or_unasked(tmp_path: Path, maps: Path):
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    assert started(own, tmp_path / "state", "owner")["Uid"] == ["0"] * 4
    as_root = started(maps, tmp_path / "state", "self")
    assert (as_root["Uid"], as_root["home"]) == (["0"] * 4, ["/root"])


def test_folder_with_other_contents_is_not_given_away(tmp_path: Path, maps: Path):
    state = tmp_path / "state"
    state.mkdir()
    (state / "letter.txt").touch()
    with pytest.raises(subprocess.CalledProcessError):
        started(maps, state, "owner")
    assert (state / "letter.txt").stat().st_uid == 0


def readable(path: Path) -> bool:
    return (
        subprocess.run(["test", "-r", path, "-a", "-x", path], user=1234, group=1235, check=False).returncode
        == 0
    )


def test_unreadable_program_or_records_stop_the_ownership_change(
    maps: Path,
):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        shut, open_to_all = Path(folder, "shut"), Path(folder, "open")
        shut.mkdir(mode=0o700)
        open_to_all.mkdir(mode=0o755)
        for above in (shut, open_to_all):
            settings = load_settings(workspaces=(str(maps),), state_dir=above / "state", run_as="owner")
            needed = (
                Path(gdal_mcp.__file__).parent,
                Path(os.__file__).parent,
                Path(pydantic.__file__).parent,
                above,
            )
            refused = pytest.raises(SettingsError) if not all(map(readable, needed)) else nullcontext()
            with refused:
                require_access(settings)
            assert not (above / "state").exists()
        assert not readable(shut)
