"""The engine without a daemon for a user other than root, with control groups of version 2 delegated to that user.

Delegation on this machine would take the groups away from all of its containers, so this runs on a separate kernel.
"""

import compileall
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests import uml
from tests.engines.kit import not_tried
from tests.oci_store import FOLDER

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[2]
USER = 1000
STORE = FOLDER.with_name("oci-rootless-2")
# with the image of the trial: files that a user makes below a hostfs belong to root, so none can be stored from inside
FILL = """
import json, platform, sys, tempfile
from pathlib import Path
from sandbox.engines.oci.fetching import fetch, from_archive
from sandbox.engines.oci.store import ImageStore
from sandbox.engines.trial import IMAGE, root_archive
folder, archive, name, labels = sys.argv[1:]
store = ImageStore(Path(folder), fetch)
from_archive(store, Path(archive), name, json.loads(labels))
with tempfile.NamedTemporaryFile() as trial:
    trial.write(root_archive(platform.machine()))
    trial.flush()
    from_archive(store, Path(trial.name), f"{IMAGE}:1", {})
"""
# needed to read an interpreter in root's home
READS = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
# the effect of `Delegate=` in systemd: the folder and three of its files belong to the user
SCRIPT = """\
unset LD_LIBRARY_PATH
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
{opened}
engine=/var/tmp/home/.local/share/gdal-mcp-oci
mkdir -p $engine/images
mount -t hostfs -o {store}/images none $engine/images
chown {user}:{user} /var/tmp/home /var/tmp/home/.local /var/tmp/home/.local/share $engine
cd /sys/fs/cgroup
mkdir given some
for one in . given; do echo '+memory +pids +cpu' >$one/cgroup.subtree_control; done
echo '+memory +pids' >some/cgroup.subtree_control
mkdir given/all given/doctor given/groups given/none some/two
for one in given/all given/doctor given/groups some/two; do
    chown {user}:{user} $one $one/cgroup.procs $one/cgroup.threads $one/cgroup.subtree_control
done
cd {root}
export HOME=/var/tmp/home TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1
as_user() {{
    echo 0 >/sys/fs/cgroup/$1/cgroup.procs
    shift
    exec setpriv --reuid {user} --regid {user} "$@"
}}
doctor="{python} -m gdal_mcp doctor --engine oci --memory 256MiB --json"
(as_user given/none --clear-groups $doctor >{out}/none) & wait
(as_user some/two --clear-groups $doctor >{out}/two) & wait
ls $engine >{out}/made
(as_user given/doctor --clear-groups sh -c "$doctor >{out}/ready; $doctor --escape >{out}/escape") & wait
(as_user given/groups --groups 27 $doctor --escape >{out}/groups) & wait
(as_user given/all --clear-groups {python} -m pytest -q --timeout 1500 -p no:cacheprovider \\
    --junitxml {out}/all.xml tests/engines/rootless.py) & wait
ls $engine/containers >{out}/left
"""


@pytest.fixture(scope="module")
def store(client: docker.DockerClient, image: Image) -> Path:
    """The store, filled once by a user other than root."""
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("oci without root", "it needs a kernel of its own, which root starts on Debian")
    place = STORE / image.id.replace(":", "-")
    if not place.is_dir():
        fresh = place.with_name(f"new-{os.getpid()}")
        for folder in (fresh, fresh / "images"):
            folder.mkdir(parents=True)
            os.chown(folder, USER, USER)
        labels = client.api.inspect_image(image.id)["Config"]["Labels"]
        container = client.api.create_container(image.id, ["true"])["Id"]
        with tempfile.NamedTemporaryFile(dir=STORE) as archive:
            try:
                for piece in client.api.export(container):
                    archive.write(piece)
            finally:
                client.api.remove_container(container)
            archive.flush()
            Path(archive.name).chmod(0o644)
            words = (str(fresh), archive.name, image.reference, json.dumps(labels))
            become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *READS)
            subprocess.run([*become, sys.executable, "-c", FILL, *words], check=True, cwd=ROOT)
        fresh.rename(place)
    return place


def opened(*places: Path) -> str:
    """Commands that let a user other than root reach places in closed folders, such as an interpreter in root's home."""
    above = {place: [up for up in reversed(place.parents) if not up.stat().st_mode & 0o1] for place in places}
    closed = {place: folders for place, folders in above.items() if folders}
    opening = [
        f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in {folders[0] for folders in closed.values()}
    ]
    opening += [f"mkdir -p {place}; mount -t hostfs -o {place} none {place}" for place in closed]
    return "\n".join(opening)


@pytest.mark.timeout(2000)
@pytest.mark.claim("engine.oci-rootless", "engine.oci-bounded-or-refused", "engine.oci-is-read-back")
def test_without_root_it_does_all_or_refuses(store: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    fields = {"store": store, "user": USER, "root": ROOT, "python": sys.executable, "out": uml.OUT}
    # compiled beforehand, which takes an emulated processor minutes
    for part in ("gdal_mcp", "sandbox", "tests"):
        compileall.compile_dir(ROOT / part, quiet=1)
    tools = uml.tools("uml-1", ())
    script = SCRIPT.format(**fields, opened=opened(Path(sys.base_prefix), ROOT))
    outcomes = uml.outcomes(*uml.run(tmp_path, tools, ["fs/overlayfs/overlay"], script, ["all.xml"], "1500M"))
    assert len(outcomes) >= 8
    for name, wrong in outcomes.items():
        with subtests.test(name):
            assert not wrong

    def report_of(name: str) -> Any:
        return json.loads((tmp_path / "out" / name).read_text())

    for name, missing in (("none", "memory, pids, cpu"), ("two", "container's cpu")):
        with subtests.test(delegated=name):
            assert not report_of(name)["ok"]
            printed_rows = json.dumps(report_of(name)["rows"])
            assert f"{missing} here" in printed_rows
            assert "systemd-run --user --scope" in printed_rows
    assert (tmp_path / "out/made").read_text() == "images\n"
    with subtests.test("groups that no user namespace takes away"):
        assert "supplementary groups" in report_of("groups")["error"]
    with subtests.test("doctor"):
        rows = {row["name"]: row for row in report_of("ready")["rows"]}
        assert report_of("ready")["ok"]
        assert rows["rootless"]["found"].startswith("yes")
        assert report_of("escape")["ok"]
    # a server that is killed while it writes its first files leaves only those, which are removed after an hour
    assert [name for name in (tmp_path / "out/left").read_text().split() if not name.startswith("new-")] == []
