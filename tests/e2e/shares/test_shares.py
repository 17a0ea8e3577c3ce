"""Workspaces on file systems of disks, of removable media and of shares, each a real mount in a separate kernel (User
Mode Linux).
"""

import os
import platform
import sys
from pathlib import Path

import pytest

from tests import uml
from tests.e2e.shares.mounts import FILE_SYSTEMS, MODULES, PUBLISHED_ON, USER, mounted, tools
from tests.engines.kit import not_tried
from tests.engines.test_rootless import opened

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[3]
_SCRIPT = """\
{mounts}
{opened}
unset LD_LIBRARY_PATH
cd {root}
export HOME=/var/tmp TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={root}/tests/unit
pytest="{python} -m pytest -q -p no:cacheprovider tests/e2e/shares/inside.py"
export SHARES='{shares}'
setpriv --reuid {user} --regid {user} --clear-groups $pytest -k 'not root' --junitxml {out}/user.xml >{out}/user.log
SHARES= $pytest -k root --junitxml {out}/root.xml >{out}/root.log
"""


@pytest.mark.timeout(1800)
@pytest.mark.claim("outputs.shares", "outputs.nfs")
def test_a_file_is_replaced_at_once_or_stays(tmp_path: Path, subtests: pytest.Subtests) -> None:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("file systems", "they need a kernel of their own, which root starts on Debian")
    values = {"tools": tools(), "root": ROOT, "python": sys.executable, "out": uml.OUT, "user": USER}
    closed = opened(Path(sys.base_prefix), ROOT, tools())
    mounts = mounted(FILE_SYSTEMS).format(**values)
    script = _SCRIPT.format(**values, mounts=mounts, shares=" ".join(PUBLISHED_ON), opened=closed)
    files = uml.run(tmp_path, tools(), MODULES, script, ["user.xml", "root.xml"], "1200M")
    assert len((tmp_path / "out/mounts").read_text().splitlines()) == len(FILE_SYSTEMS)
    outcomes = uml.outcomes(files[0])
    assert len(outcomes) >= 10 * len(PUBLISHED_ON)
    for name, wrong in (outcomes | uml.outcomes(files[1])).items():
        with subtests.test(name):
            assert not wrong
