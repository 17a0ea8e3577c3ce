"""A user's own Podman or Docker on a separate kernel, where control groups of version 2 are delegated to that user.

The tree of control groups is as systemd makes it for a login, with a group of the user in each place of a
`user@.service`. In two of them the user's own systemd runs, as after a login.
"""

import compileall
import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests import uml
from tests.engines import user_disk
from tests.engines.kit import not_tried
from tests.engines.test_rootless import opened
from tests.engines.user_disk import BECOME, ENVIRONMENT, PLACE, USER

ROOT = Path(__file__).parents[2]
# `session NAME MANAGER`: runs /run/work-NAME next to the engine, in a control group that is the user's
_SCRIPT = """\
unset LD_LIBRARY_PATH
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t devtmpfs devtmpfs /dev
ln -s /proc/self/fd /dev/fd
chmod 666 /dev/net/tun
mkdir -p /dev/shm /dev/pts /run/systemd/system
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --make-rshared /
{opened}
mkdir {place}
mount -t ext4 /dev/ubda {place}
{become}
cd /sys/fs/cgroup
slice=user.slice/user-{user}.slice
mkdir -p $slice
for one in . user.slice; do echo '+memory +pids +cpu' >$one/cgroup.subtree_control; done
echo '+memory +pids' >$slice/cgroup.subtree_control
for one in $slice/two $slice/alone $slice/all; do
    mkdir $one
    chown {user}:{user} $one $one/cgroup.procs $one/cgroup.threads $one/cgroup.subtree_control
done
cat >/run/engine <<'END'
{start}
END
cat >/run/session <<'END'
exec >{out}/log-$1 2>&1
set -x
engine="sh /run/engine $2"
if [ $2 = systemd ]; then
    rm -rf $XDG_RUNTIME_DIR/systemd $XDG_RUNTIME_DIR/bus
    /usr/lib/systemd/systemd --user --log-target=console &
    manager=$!
    until [ -S $XDG_RUNTIME_DIR/systemd/private ]; do sleep 0.2; done
    systemctl --user start dbus.socket
    engine="systemd-run --user --scope --unit=engine $engine"
fi
$engine >{out}/engine-$1 2>&1 & service=$!
until curl --silent --unix-socket {socket} http://engine/_ping; do kill -0 $service || exit; sleep 0.2; done
mkdir -p $HOME/ws
printf 'x,y,name\\n1,2,a\\n' >$HOME/ws/points.csv
cd {root}
export TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1
export ENGINE_KIND={kind} ENGINE_SOCKET=unix://{socket}
options="--engine {address} --image {image} --memory 256MiB --workspace $HOME/ws"
. /run/work-$1
kill $service
wait $service
rm -f {socket}
[ $2 != systemd ] || {{ systemctl --user exit; wait $manager; }}
END
session() {{
    (echo 0 >/sys/fs/cgroup/$slice/$1/cgroup.procs
    exec setpriv --reuid {user} --regid {user} --clear-groups env -i {environment} sh /run/session $1 $2) & wait
}}
cat >/run/work-alone <<'END'
{python} -m gdal_mcp doctor --json $options >{out}/$1
END
cp /run/work-alone /run/work-two
cat >/run/work-all <<'END'
{python} -m gdal_mcp doctor --json $options >{out}/all
{python} -m gdal_mcp doctor --escape --json $options >{out}/escape
{python} -m gdal_mcp call convert '{{"input": "points.csv", "output": "out.gpkg"}}' --yes $options >{out}/call
stat -c %u $HOME/ws/out.gpkg >{out}/owner
{python} -m pytest -q --timeout 1500 -p no:cacheprovider --junitxml {out}/all.xml tests/engines/delegated_engine.py
ls {containers} >{out}/left
END
session two systemd
echo +cpu >$slice/cgroup.subtree_control
session alone cgroupfs
session all systemd
"""


@dataclass(frozen=True, slots=True)
class UserEngine:
    """How an engine is started and found. `start` is a shell command that gets "systemd" or "cgroupfs" as its argument."""

    kind: str
    address: str
    socket: str
    start: str
    containers: str  # the folder in which the engine has one for each container


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run: the files that the commands wrote below `folder`, and the errors of the tests, by name."""

    folder: Path
    tests: dict[str, str]

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def report(self, name: str) -> Any:
        return json.loads(self.text(name))

    def refusal(self, name: str) -> str:
        """The error of a doctor that is not ready. No call may run then."""
        assert not self.report(name)["ok"]
        (failed,) = (row for row in self.report(name)["rows"] if row["state"] == "failed")
        return str(failed["found"])


def run(engine: UserEngine, client: docker.DockerClient, image: Image, folder: Path) -> Outcome:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried(
            f"{engine.kind} with delegated control groups",
            "it needs a kernel of its own, which root starts on Debian",
        )
    # compiled beforehand, which takes an emulated processor minutes
    for part in ("gdal_mcp", "sandbox", "tests"):
        compileall.compile_dir(ROOT / part, quiet=1)
    script = _SCRIPT.format(
        kind=engine.kind, address=engine.address, socket=engine.socket, start=engine.start,
        containers=engine.containers, place=PLACE, become=BECOME, environment=ENVIRONMENT, user=USER, root=ROOT,
        python=sys.executable, out=uml.OUT, image=image.reference, opened=opened(Path(sys.base_prefix), ROOT),
    )  # fmt: skip
    disk = user_disk.disk(engine.kind, client, image)
    modules = ["fs/overlayfs/overlay", "fs/fuse/fuse", "drivers/net/tun"]
    (tests,) = uml.run(folder, uml.tools("uml-1", ()), modules, script, ["all.xml"], "1500M", disk)
    return Outcome(folder / "out", uml.outcomes(tests))


def all_limits_are_in_force(outcome: Outcome, name: str, subtests: pytest.Subtests) -> None:
    """Asserts that the suite, the doctor, an escape and a call that writes succeed for the user with delegated
    groups.
    """
    assert outcome.tests
    for test, wrong in outcome.tests.items():
        with subtests.test(test):
            assert not wrong
    with subtests.test("doctor"):
        rows = {row["name"]: row for row in outcome.report("all")["rows"]}
        assert outcome.report("all")["ok"]
        assert rows["rootless"]["found"] == "yes"
        assert outcome.report("escape")["ok"]
    with subtests.test("a call"):
        assert outcome.report("call")["receipt"]["engine"].startswith(name)
        assert int(outcome.text("owner")) == USER
