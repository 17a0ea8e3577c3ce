"""The chosen runtime on hosts with different layouts of control groups, each on a separate kernel (User Mode Linux)."""

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from tests import uml
from tests.engines.kit import not_tried
from tests.engines.test_rootless import USER, opened

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[2]
# all controllers in version 1 except `left`, which version 2 has instead (blkio as io)
_V1 = """
mount -t tmpfs tmpfs /sys/fs/cgroup
for one in $(awk '!/^#/ {{ if ($4 == 1) print $1 }}' /proc/cgroups); do
    [ $one != "{left}" ] || continue
    mkdir /sys/fs/cgroup/$one && mount -t cgroup -o $one cgroup /sys/fs/cgroup/$one
done
"""
_UNIFIED = "mkdir /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified\n"
LAYOUTS = {
    "version 1": _V1.format(left=""),
    "version 2": "mount -t cgroup2 cgroup2 /sys/fs/cgroup\n",
    "hybrid": _V1.format(left="") + _UNIFIED,
    "hybrid, one controller left": _V1.format(left="{left}") + _UNIFIED,
}
SCRIPT = """\
unset LD_LIBRARY_PATH
mount -t sysfs sysfs /sys
{layout}
cd {root}
export HOME=/var/tmp/home TMPDIR=/var/tmp PYTHONDONTWRITEBYTECODE=1
cat /proc/cgroups /proc/self/mounts /sys/fs/cgroup/unified/cgroup.controllers >{out}/groups
{python} -c '{program}' >{out}/found 2>{out}/error
"""
# a group as systemd delegates it to a user
DELEGATED = """\
unset LD_LIBRARY_PATH
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
{opened}
cd /sys/fs/cgroup
mkdir given
for one in . given; do echo '+memory +pids +cpu' >$one/cgroup.subtree_control; done
mkdir given/all
for one in given/all given/all/cgroup.procs given/all/cgroup.threads given/all/cgroup.subtree_control; do chown {user}:{user} $one; done
cd {root}
export HOME=/var/tmp/home TMPDIR=/var/tmp PYTHONDONTWRITEBYTECODE=1
(echo 0 >/sys/fs/cgroup/given/all/cgroup.procs
exec setpriv --reuid {user} --regid {user} --clear-groups {python} -c '{program}' >{out}/found 2>{out}/error) & wait
"""
PROGRAM = """
import json
from pathlib import Path
from sandbox.engines.opening import _without_daemon, open_first
from sandbox.engines.trial import try_engine
found = {}
for one in _without_daemon(Path("/var/tmp/oci")):
    found[one.name.partition(",")[0]] = try_engine(one.open())
chosen = open_first("oci:///var/tmp/oci")
print(json.dumps({"trials": found, "chosen": chosen.engine.info().name, "passed over": [str(one) for one in chosen.passed_over]}))
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_runtime_that_starts_a_container_is_chosen(layout: str, tmp_path: Path) -> None:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("hosts", "they need kernels of their own, which root starts on Debian")
    mounts = LAYOUTS[layout].replace("{left}", "blkio")
    fields = {"root": ROOT, "python": sys.executable, "out": uml.OUT, "program": PROGRAM}
    script = SCRIPT.format(layout=mounts, **fields)
    uml.run(tmp_path, uml.tools("uml-1", ()), ["fs/overlayfs/overlay"], script, ["found"], memory="1000M")
    result = json.loads((tmp_path / "out/found").read_text())
    assert result["trials"]["runc"] == ""
    assert result["chosen"] == ("crun" if result["trials"]["crun"] == "" else "runc")
    assert (result["trials"]["crun"] == "") is (layout != "hybrid, one controller left")
    assert ("crun" in str(result["passed over"])) is (result["chosen"] == "runc")


@pytest.mark.timeout(900)
def test_a_user_with_delegated_control_groups_gets_crun(tmp_path: Path) -> None:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("hosts", "they need kernels of their own, which root starts on Debian")
    fields = {"root": ROOT, "python": sys.executable, "out": uml.OUT, "program": PROGRAM, "user": USER}
    script = DELEGATED.format(opened=opened(Path(sys.base_prefix), ROOT), **fields)
    uml.run(tmp_path, uml.tools("uml-1", ()), ["fs/overlayfs/overlay"], script, ["found"], memory="1000M")
    result = json.loads((tmp_path / "out/found").read_text() or (tmp_path / "out/error").read_text())
    assert result == {"trials": {"crun": ""}, "chosen": "crun", "passed over": []}
