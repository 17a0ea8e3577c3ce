"""Podman of an ordinary user with delegated control groups of version 2: calls run with all limits enforced.

This needs version 2 only, so it runs on a separate kernel, with the user's own systemd as after a login.
"""

import compileall
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests import uml
from tests.engines import podman_store
from tests.engines.kit import not_tried
from tests.engines.podman_store import BECOME, ENVIRONMENT, PLACE, PODMAN, USER
from tests.engines.test_rootless import opened

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[2]
ADDRESS = f"unix://{PLACE}/run/podman.sock"
# `session GROUP MANAGER FILE`: runs the commands of a file beside Podman's service, in a control group of the user
SCRIPT = """\
unset LD_LIBRARY_PATH
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t devtmpfs devtmpfs /dev
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/shm /dev/pts /run/systemd/system
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --make-rshared /
{opened}
mkdir {place}
mount -t ext4 /dev/ubda {place}
{become}
cd /sys/fs/cgroup
mkdir given some
for one in . given; do echo '+memory +pids +cpu' >$one/cgroup.subtree_control; done
echo '+memory +pids' >some/cgroup.subtree_control
mkdir given/all given/alone some/two
for one in given/all given/alone some/two; do
    chown {user}:{user} $one $one/cgroup.procs $one/cgroup.threads $one/cgroup.subtree_control
done
cat >/run/session <<'END'
exec >{out}/log-$1 2>&1
set -x
podman="{podman} --cgroup-manager=$2"
if [ $2 = systemd ]; then
    rm -rf $XDG_RUNTIME_DIR/systemd $XDG_RUNTIME_DIR/bus
    /usr/lib/systemd/systemd --user --log-target=console &
    manager=$!
    until [ -S $XDG_RUNTIME_DIR/systemd/private ]; do sleep 0.2; done
    systemctl --user start dbus.socket
    podman="systemd-run --user --scope --unit=podman $podman"
fi
$podman system service --time=0 {address} & service=$!
until [ -S {place}/run/podman.sock ]; do sleep 0.2; done
mkdir -p $HOME/ws
printf 'x,y,name\\n1,2,a\\n' >$HOME/ws/points.csv
cd {root}
export TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1 PODMAN_ADDRESS={address}
options="--engine podman:{address} --image {image} --memory 256MiB --workspace $HOME/ws"
. /run/work-$1
rm -f {place}/run/podman.sock
[ $2 != systemd ] || {{ systemctl --user exit; wait $manager; }}
END
session() {{
    (echo 0 >/sys/fs/cgroup/$1/cgroup.procs
    exec setpriv --reuid {user} --regid {user} --clear-groups env -i {environment} sh /run/session $2 $3) & wait
}}
cat >/run/work-alone <<'END'
{python} -m gdal_mcp doctor --json $options >{out}/$1
kill $service
END
cp /run/work-alone /run/work-two
cat >/run/work-all <<'END'
{python} -m gdal_mcp doctor --json $options >{out}/all
{python} -m gdal_mcp doctor --escape --json $options >{out}/escape
{python} -m gdal_mcp call convert '{{"input": "points.csv", "output": "out.gpkg"}}' --yes $options >{out}/call
stat -c %u $HOME/ws/out.gpkg >{out}/owner
{python} -m pytest -q --timeout 1500 -p no:cacheprovider --junitxml {out}/all.xml tests/engines/delegated_podman.py
ls {place}/data/root/overlay-containers >{out}/left
END
session given/all all systemd
session given/alone alone cgroupfs
session some/two two systemd
"""


@pytest.mark.timeout(3600)
@pytest.mark.claim("engine.podman-does-what-an-engine-must", "engine.ignored-limits-are-noticed")
def test_a_user_with_delegated_control_groups_has_every_limit_or_nothing_runs(
    client: docker.DockerClient, image: Image, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried(
            "Podman with delegated control groups",
            "it needs a kernel of its own, which root starts on Debian",
        )
    # compiled beforehand, which takes an emulated processor minutes
    for part in ("gdal_mcp", "sandbox", "tests"):
        compileall.compile_dir(ROOT / part, quiet=1)
    values = {"place": PLACE, "become": BECOME, "environment": ENVIRONMENT, "podman": PODMAN, "user": USER}
    values |= {
        "root": ROOT,
        "python": sys.executable,
        "out": uml.OUT,
        "address": ADDRESS,
        "image": image.reference,
    }
    script = SCRIPT.format(**values, opened=opened(Path(sys.base_prefix), ROOT))
    disk = podman_store.disk(client, image)
    modules = ["fs/overlayfs/overlay", "fs/fuse/fuse"]
    found = uml.outcomes(
        *uml.run(tmp_path, uml.tools("uml-1", ()), modules, script, ["all.xml"], "1500M", disk)
    )
    assert found
    for name, wrong in found.items():
        with subtests.test(name):
            assert not wrong

    def report(name: str) -> Any:
        return json.loads((tmp_path / "out" / name).read_text())

    for name, remedy in (("alone", "containers.conf"), ("two", "Delegate=cpu memory pids")):
        with subtests.test(delegated=name):
            assert not report(name)["ok"]
            assert remedy in json.dumps(report(name)["rows"])
    with subtests.test("doctor"):
        rows = {row["name"]: row for row in report("all")["rows"]}
        assert report("all")["ok"]
        assert rows["rootless"]["found"] == "yes"
        assert report("escape")["ok"]
    with subtests.test("a call"):
        assert report("call")["receipt"]["engine"].startswith("Podman")
        assert int((tmp_path / "out/owner").read_text()) == USER
    assert set((tmp_path / "out/left").read_text().split()) <= {"containers.json", "containers.lock"}
