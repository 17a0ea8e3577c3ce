"""Calls in containers on workspaces of each file system, as an ordinary user with delegated control groups (User Mode Linux)."""

import compileall
import sys
from pathlib import Path

import pytest

from tests import uml
from tests.e2e.shares.mounts import CALLED_ON, FILE_SYSTEMS, MODULES, USER, mounted, tools
from tests.engines.test_rootless import opened, store

__all__ = ["store"]
pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[3]
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
export SHARES='{shares}'
(echo 0 >/sys/fs/cgroup/given/all/cgroup.procs
exec setpriv --reuid {user} --regid {user} --clear-groups {python} -m pytest -q --timeout 1500 -p no:cacheprovider \\
    --junitxml {out}/calls.xml tests/e2e/shares/calls.py >{out}/log 2>&1) & wait $!  # the daemons of the file systems go on
"""


@pytest.mark.timeout(1900)
@pytest.mark.claim("outputs.shares")
def test_calls_read_write_replace_and_undo_or_refuse(
    store: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    # compiled beforehand, which takes an emulated processor minutes
    for part in ("gdal_mcp", "sandbox", "tests"):
        compileall.compile_dir(ROOT / part, quiet=1)
    values = {"tools": tools(), "root": ROOT, "python": sys.executable, "out": uml.OUT, "user": USER}
    mounts = mounted(FILE_SYSTEMS).format(**values)
    closed = opened(Path(sys.base_prefix), ROOT, tools())
    script = _SCRIPT.format(**values, mounts=mounts, shares=" ".join(CALLED_ON), opened=closed, store=store)
    found = uml.outcomes(*uml.run(tmp_path, tools(), MODULES, script, ["calls.xml"], "1700M"))
    assert len(found) == 2 * len(CALLED_ON)
    for name, wrong in found.items():
        with subtests.test(name):
            assert not wrong
