"""The engine without a daemon for a user who is not root, where control groups of version 2 are delegated to that user.

They can only be had by taking them away from every container of the machine, so this runs on a kernel of its own.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import docker
import pytest

from gdal_mcp.host.image import Image
from tests import uml
from tests.engines.kit import not_tried
from tests.oci_store import FOLDER

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[2]
USER = 1000
STORE = FOLDER.with_name("oci-rootless")
FILL = """
import json, sys
from pathlib import Path
from sandbox.engines.oci.fetching import fetch, from_archive
from sandbox.engines.oci.store import ImageStore
store, archive, name, labels = sys.argv[1:]
from_archive(ImageStore(Path(store), fetch), Path(archive), name, json.loads(labels))
"""
# an interpreter in root's home is read by this right
READS = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
# what systemd makes of `Delegate=`: the folder and three of its files are the user's
SCRIPT = """\
unset LD_LIBRARY_PATH
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmpfs /tmp
{opened}
mkdir -p /var/tmp/oci/images /var/tmp/home
mount -t hostfs -o {store}/images none /var/tmp/oci/images
chown {user}:{user} /var/tmp/oci /var/tmp/home
cd /sys/fs/cgroup
mkdir given some
for one in . given; do echo '+memory +pids +cpu' >$one/cgroup.subtree_control; done
echo '+memory +pids' >some/cgroup.subtree_control
mkdir given/all given/more given/none some/two
for one in given/all given/more some/two; do
    chown {user}:{user} $one $one/cgroup.procs $one/cgroup.threads $one/cgroup.subtree_control
done
cd {root}
export HOME=/var/tmp/home TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1
run() {{
    echo 0 >/sys/fs/cgroup/$1/cgroup.procs
    setpriv --reuid {user} --regid {user} $4 {python} -m pytest -q -p no:cacheprovider \\
        --junitxml {out}/$2.xml -k "$3" tests/engines/rootless.py
}}
(run given/none none undelegated --clear-groups) & wait
(run some/two two undelegated --clear-groups) & wait
(run given/more further groups --groups=27) & wait
(run given/all all 'not undelegated and not groups' --clear-groups) & wait
"""


@pytest.fixture(scope="module")
def store(client: docker.DockerClient, image: Image) -> Path:
    """Filled once, by a user who is not root."""
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("oci without root", "it needs a kernel of its own, which root starts on Debian")
    place = STORE / image.id.replace(":", "-")
    if not place.is_dir():
        fresh = place.with_name(f"new-{os.getpid()}")
        for one in (fresh, fresh / "images"):
            one.mkdir(parents=True)
            os.chown(one, USER, USER)
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
    """Commands after which a user who is not root reaches places that lie in closed folders, such as an interpreter in root's home."""
    above = {
        place: [one for one in reversed(place.parents) if not one.stat().st_mode & 0o1] for place in places
    }
    first = {closed[0] for closed in above.values() if closed}
    return "\n".join(
        [
            *(f"mount -t tmpfs -o mode=755 tmpfs {one}" for one in first),
            *(
                f"mkdir -p {one}; mount -t hostfs -o {one} none {one}"
                for one, closed in above.items()
                if closed
            ),
        ]
    )


@pytest.mark.claim("engine.oci-rootless", "engine.oci-bounded-or-refused", "engine.oci-is-read-back")
def test_without_root_it_does_all_or_refuses(store: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    told = {
        "opened": opened(Path(sys.base_prefix), ROOT),
        "store": store,
        "user": USER,
        "root": ROOT,
        "python": sys.executable,
        "out": uml.OUT,
    }
    tools = uml.tools("uml-1", ())
    files = ("none.xml", "two.xml", "further.xml", "all.xml")
    found = uml.results(
        tmp_path, tools, ["fs/overlayfs/overlay"], SCRIPT.format(**told), files, memory="1500M"
    )
    assert len(found) >= 8
    for name, wrong in found.items():
        with subtests.test(name):
            assert not wrong
