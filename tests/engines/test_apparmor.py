"""A host with AppArmor enabled: containers of crun run under the project's profile, which the kernel enforces (User
Mode Linux).
"""

import json
import os
import platform
import sys
from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests import uml
from tests.engines.kit import not_tried
from tests.engines.test_rootless import opened
from tests.oci_store import FOLDER, oci_engine

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[2]
_SCRIPT = """\
unset LD_LIBRARY_PATH
mount -t sysfs sysfs /sys
mount -t securityfs securityfs /sys/kernel/security
mount -t cgroup2 cgroup2 /sys/fs/cgroup
{opened}
engine=/var/tmp/oci
mkdir -p $engine/images /var/tmp/ws
mount -t hostfs -o {store}/images none $engine/images
printf 'x,y,name\\n1,2,a\\n' >/var/tmp/ws/points.csv
cd {root}
export HOME=/var/tmp/home TMPDIR=/var/tmp PYTHONDONTWRITEBYTECODE=1
options="--engine oci://$engine --memory 256MiB --workspace /var/tmp/ws"
{python} -m gdal_mcp doctor --json $options >{out}/doctor
cat /sys/kernel/security/apparmor/profiles >{out}/profiles
{python} -m gdal_mcp call convert '{{"input": "points.csv", "output": "out.gpkg"}}' --yes $options >{out}/call
"""


@pytest.mark.timeout(1200)
def test_calls_run_under_an_enforced_apparmor_profile(
    client: docker.DockerClient, image: Image, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("AppArmor", "it needs a kernel of its own, which root starts on Debian")
    oci_engine(client, image).close()
    values = {"store": FOLDER, "root": ROOT, "python": sys.executable, "out": uml.OUT}
    script = _SCRIPT.format(**values, opened=opened(Path(sys.base_prefix), ROOT))
    on = ("apparmor=1", "security=apparmor")
    tools, modules, files = uml.tools("uml-1", ()), ["fs/overlayfs/overlay"], ["doctor", "profiles", "call"]
    doctor, profiles, call = uml.run(tmp_path, tools, modules, script, files, "1000M", parameters=on)
    report = json.loads(doctor.read_text())
    assert report["ok"], report["rows"]
    assert "gdal-mcp-sandbox (enforce)" in profiles.read_text()
    rows = {row["name"]: row for row in report["rows"]}
    assert rows["security module"]["found"].startswith("gdal-mcp-sandbox (enforce)"), rows
    assert json.loads(call.read_text())["receipt"]["engine"].startswith("crun")
