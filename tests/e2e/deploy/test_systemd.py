"""The units in deploy/ are started by systemd as process 1 of a separate kernel (User Mode Linux)."""

import compileall
import os
import platform
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import Image
from tests import uml
from tests.e2e.deploy.server_image import locked_wheels
from tests.engines.kit import not_tried
from tests.engines.test_rootless import USER, store
from tests.engines.user_disk import ext4_image
from tests.oci_store import FOLDER, oci_engine
from tests.private_engine import private_engine
from tests.wheel import build_wheel

__all__ = ["store"]
pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[3]
SYSTEM_PYTHON = "/usr/bin/python3"  # the unit hides /root, where the Python of the tests may be
DISKS = FOLDER.with_name("docker-disks-1")
# the commands in the comment of the unit, on a machine with an empty /var, /srv and /opt
_SCRIPT = """\
unset LD_LIBRARY_PATH
mount -t devtmpfs devtmpfs /dev
cp -a /etc /run/etc
mount --bind /run/etc /etc
rm -rf /etc/systemd/system/* /etc/fstab
for place in /srv /opt; do mount -t tmpfs -o mode=755 tmpfs $place; done
[ -d {root}/deploy ] || {{ mkdir -p {root}; mount -t hostfs -o ro,{root} none {root}; }}
mkdir -p /srv/geodata /opt/gdal-mcp /var/lib
ln -s /run /var/run
mount -t hostfs -o ro,{installed} none /opt/gdal-mcp
printf 'x,y,name\\n1,2,a\\n' >/srv/geodata/points.csv
printf 'workspaces = ["/srv/geodata"]\\nhost = "127.0.0.1"\\nmemory = "256MiB"\\n' >/run/settings.toml
cd {root}/deploy
{install}
cat >/etc/systemd/system/trial.service <<'END'
[Service]
Type=oneshot
WorkingDirectory={root}
Environment=UNIT={unit} PYTHONDONTWRITEBYTECODE=1 HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h
ExecStart={python} -m pytest -q --timeout 900 -p no:cacheprovider --junitxml {out}/{unit}.xml tests/e2e/deploy/inside_systemd.py
ExecStopPost=-/bin/sh -c 'journalctl --no-pager >{out}/journal'
ExecStopPost=/usr/sbin/poweroff -ff
StandardOutput=append:{out}/log
StandardError=append:{out}/log
END
systemctl enable {unit}
mkdir -p /etc/systemd/system/multi-user.target.wants
ln -s ../trial.service /etc/systemd/system/multi-user.target.wants/
cd /
exec /usr/lib/systemd/systemd --unit=multi-user.target
"""
_AS_ROOT = """\
mkdir -p /var/lib/gdal-mcp-oci/images
mount -t hostfs -o {store}/images none /var/lib/gdal-mcp-oci/images
chown 1000:1000 /srv/geodata /srv/geodata/points.csv
install -m 0644 gdal-mcp-root.service /etc/systemd/system/
install -m 0600 /run/settings.toml /etc/gdal-mcp.toml
/opt/gdal-mcp/bin/gdal-mcp token new tester --scope gdal:read --scope gdal:write --state-dir /var/lib/gdal-mcp >/run/token
"""
_WITH_DOCKER = """\
mkdir /var/lib/docker
mount -t ext4 /dev/ubda /var/lib/docker
echo 'DOCKER_OPTS="--bridge=none --iptables=false --ip6tables=false"' >/etc/default/docker
useradd --system --home-dir /var/lib/gdal-mcp --shell /usr/sbin/nologin gdal-mcp
install -d -m 0700 -o gdal-mcp -g gdal-mcp /var/lib/gdal-mcp
chown gdal-mcp:gdal-mcp /srv/geodata /srv/geodata/points.csv
install -m 0644 gdal-mcp.service /etc/systemd/system/
install -m 0640 -g gdal-mcp /run/settings.toml /etc/gdal-mcp.toml
runuser -u gdal-mcp -- /opt/gdal-mcp/bin/gdal-mcp token new tester --scope gdal:read --scope gdal:write --state-dir /var/lib/gdal-mcp >/run/token
systemctl enable docker
"""
_AS_USER = """\
useradd --system --non-unique --uid {user} --home-dir /var/lib/gdal-mcp --shell /usr/sbin/nologin gdal-mcp
mkdir -p -m 0700 /var/lib/gdal-mcp/state /var/lib/gdal-mcp/oci/images
mount -t hostfs -o {users_store}/images none /var/lib/gdal-mcp/oci/images
chown gdal-mcp:gdal-mcp /srv/geodata /srv/geodata/points.csv /var/lib/gdal-mcp /var/lib/gdal-mcp/state /var/lib/gdal-mcp/oci
install -m 0644 gdal-mcp-user.service /etc/systemd/system/
install -m 0640 -g gdal-mcp /run/settings.toml /etc/gdal-mcp.toml
runuser -u gdal-mcp -- /opt/gdal-mcp/bin/gdal-mcp token new tester --scope gdal:read --scope gdal:write --state-dir /var/lib/gdal-mcp/state >/run/token
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of /opt/gdal-mcp: a virtual environment in which the wheel is installed."""
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("systemd", "it needs a kernel of its own, which root starts on Debian")
    folder = tmp_path_factory.mktemp("installed")
    folder.chmod(0o755)
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    version = subprocess.check_output(
        [SYSTEM_PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True
    )
    wheels = locked_wheels(version.strip(), platform.machine())
    # scripts in it contain the path of the environment
    install = f"""
        mount -t tmpfs tmpfs /opt
        mkdir /opt/gdal-mcp
        mount --bind {folder} /opt/gdal-mcp
        {SYSTEM_PYTHON} -m venv --without-pip /opt/gdal-mcp
        {sys.executable} -m pip --python /opt/gdal-mcp/bin/python install --quiet --no-index --find-links {wheels} {wheel}
    """
    subprocess.run(["unshare", "--mount", "sh", "-ec", install], check=True)
    return folder


def _docker_disk(client: docker.DockerClient, image: Image) -> Path:
    """The image of an ext4 file system with the data of a Docker that has the image; made once for an image."""
    disk = DISKS / image.id.replace(":", "-")
    if not disk.is_file():
        DISKS.mkdir(parents=True, exist_ok=True)
        with private_engine() as engine:
            engine.load(client, image.reference)
            engine.stop()
            ext4_image(engine.folder / "data", disk)
    return disk


UNITS = {"gdal-mcp-root": _AS_ROOT, "gdal-mcp-user": _AS_USER, "gdal-mcp": _WITH_DOCKER}


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_starts_restarts_and_stops_the_unit(
    unit: str,
    client: docker.DockerClient,
    image: Image,
    installed: Path,
    store: Path,
    tmp_path: Path,
    subtests: pytest.Subtests,
) -> None:
    for part in ("gdal_mcp", "sandbox", "tests"):  # which takes an emulated processor minutes
        compileall.compile_dir(ROOT / part, quiet=1)
    script = _SCRIPT.format(
        installed=installed, root=ROOT, unit=unit, python=sys.executable, out=uml.OUT,
        install=UNITS[unit].format(store=FOLDER, users_store=store, user=USER),
    )  # fmt: skip
    oci_engine(client, image).close()  # fills the store
    disk = _docker_disk(client, image) if unit == "gdal-mcp" else None
    modules, files = ["fs/overlayfs/overlay"], [f"{unit}.xml"]
    outcomes = uml.outcomes(*uml.run(tmp_path, uml.tools("uml-1", ()), modules, script, files, "1500M", disk))
    assert outcomes
    for name, wrong in outcomes.items():
        with subtests.test(name):
            assert not wrong
