"""Calls in containers on workspaces of each file system, as an ordinary user with delegated control groups (User Mode Linux)."""

import compileall
import shutil
import sys
from pathlib import Path

import pytest

from tests import uml
from tests.e2e.shares.mounts import FILE_SYSTEMS, MODULES, PUBLISHED_ON, USER, mounted, tools
from tests.engines.test_rootless import opened, store

__all__ = ["store"]
pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[3]
_PARTS = ("gdal_mcp", "sandbox", "tests")
_SCRIPT = """\
{mounts}
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
{opened}
unset LD_LIBRARY_PATH
export HOME=/var/tmp/home TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1
engine=$HOME/.local/share/gdal-mcp-oci
mkdir -p $engine/images
mount -t hostfs -o {store}/images none $engine/images
chown {user}:{user} $HOME $HOME/.local $HOME/.local/share $engine
cd /sys/fs/cgroup
mkdir -p given/all
for folder in . given; do echo '+memory +pids +cpu' >$folder/cgroup.subtree_control; done
chown {user}:{user} given/all given/all/cgroup.procs given/all/cgroup.threads given/all/cgroup.subtree_control
cd {root}
for part in {parts}; do mount -t hostfs -o ro,{copy}/$part none {root}/$part; done
export SHARES='{shares}' OUT={out}
(echo 0 >/sys/fs/cgroup/given/all/cgroup.procs
exec setpriv --reuid {user} --regid {user} --clear-groups {python} -m pytest -q --timeout 1500 -p no:cacheprovider \\
    --junitxml {out}/calls.xml tests/e2e/shares/calls.py >{out}/log 2>&1) & wait $!  # the daemons of the file systems go on
"""


@pytest.mark.timeout(3000)  # nine file systems took 19 minutes on a busy machine
@pytest.mark.claim("outputs.shares")
def test_calls_read_write_replace_and_undo_or_refuse(
    store: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    copy = tmp_path / "copy"
    # each file system has a server, which loads its modules when it starts: an edit of them during the run must not end it
    for part in _PARTS:
        shutil.copytree(ROOT / part, copy / part)
        compileall.compile_dir(copy / part, quiet=1)  # an emulated processor takes minutes for it
    values = {"tools": tools(), "root": ROOT, "python": sys.executable, "out": uml.OUT, "user": USER}
    mounts = mounted(FILE_SYSTEMS).format(**values)
    closed = opened(Path(sys.base_prefix), ROOT, tools())
    values |= {"shares": " ".join(PUBLISHED_ON), "copy": copy, "parts": " ".join(_PARTS)}
    script = _SCRIPT.format(**values, mounts=mounts, opened=closed, store=store)
    outcomes = uml.outcomes(*uml.run(tmp_path, tools(), MODULES, script, ["calls.xml"], "1700M"))
    assert len(outcomes) == 2 * len(PUBLISHED_ON)
    logs = {path.stem: path.read_text(errors="replace") for path in (tmp_path / "out").glob("*.log")}
    for name, wrong in outcomes.items():
        with subtests.test(name):
            assert not wrong, logs
