"""An image in the store of a user's own Podman or Docker, as a disk for a separate kernel.

An engine may record the paths of its folders, so they are the same on this machine and on that kernel: below `PLACE`,
which each of them mounts in its own /mnt, because a checkout of the tests may be in any other folder. This machine
does not have that user.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import docker

from gdal_mcp.runtime.image import Image
from tests.oci_store import FOLDER

USER = 4321
PLACE = Path("/mnt/engine")
DISKS = FOLDER.with_name("user-disks-1")
_FOLDERS = ("home", "run", "data")
ENVIRONMENT = f"HOME={PLACE}/home XDG_RUNTIME_DIR={PLACE}/run PATH=/usr/bin:/usr/sbin:/bin:/sbin"
PODMAN = f"podman --root={PLACE}/data/root --runroot={PLACE}/run/root --tmpdir={PLACE}/run/tmp --events-backend=file --storage-driver=overlay"
DOCKER_SOCKET = f"unix://{PLACE}/run/docker.sock"
# no networks, which need iptables; every job runs without one
DOCKERD_OPTIONS = f"--host={DOCKER_SOCKET} --data-root={PLACE}/data/docker --storage-driver=overlay2 --bridge=none --iptables=false --ip6tables=false"
# the kernel lets a user have further ids only by these files
BECOME = f"""\
for name in passwd subuid subgid; do mount --bind {PLACE}/etc/$name /etc/$name; done
"""
_FILL = f"""\
mount -t tmpfs tmpfs {PLACE.parent}
mkdir {PLACE}
mount --bind "$0" {PLACE}
{BECOME}
cd {PLACE}
exec setpriv --reuid={USER} --regid={USER} --clear-groups env -i {ENVIRONMENT} sh -ec "$1"
"""
# commands of the user, whose input is the image
_LOAD = {
    "podman": f"exec {PODMAN} --cgroup-manager=cgroupfs load --quiet",
    "docker": f"""\
exec rootlesskit --state-dir={PLACE}/run/kit --net=host --copy-up=/etc --copy-up=/run --propagation=rslave sh -ec '
    rm -f /run/docker /run/containerd
    dockerd --rootless {DOCKERD_OPTIONS} >{PLACE}/log 2>&1 & daemon=$!
    until [ -S {PLACE}/run/docker.sock ]; do kill -0 $daemon; sleep 0.2; done
    curl --silent --fail --unix-socket {PLACE}/run/docker.sock --header "Content-Type: application/x-tar" --upload-file - \\
        --request POST http://engine/images/load
    kill $daemon; wait $daemon'
""",
}


def disk(engine: str, client: docker.DockerClient, image: Image) -> Path:
    """A file with an ext4 that has the store of "podman" or "docker"; made once for an image."""
    path = DISKS / f"{engine}-{image.id.replace(':', '-')}"
    if path.is_file():
        return path
    DISKS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=DISKS) as name:
        folder = Path(name)
        _prepare(folder)
        words = ["unshare", "--mount", "sh", "-ec", _FILL, name, _LOAD[engine]]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as loading:
            assert loading.stdin is not None
            for piece in client.images.get(image.reference).save(chunk_size=1 << 20, named=image.reference):
                loading.stdin.write(piece)
        assert loading.returncode == 0
        ext4_image(folder, path)
    return path


def ext4_image(folder: Path, file: Path) -> None:
    """Writes the image of an ext4 file system with the content of a folder."""
    fresh = file.with_name(f"new-{os.getpid()}")
    with fresh.open("wb") as image:
        image.truncate(6 << 30)  # a sparse file
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", folder, fresh], check=True)
    fresh.rename(file)


def _prepare(folder: Path) -> None:
    for name in ("", *_FOLDERS):
        (folder / name).mkdir(mode=0o755, exist_ok=True)
        os.chown(folder / name, USER, USER)
    folder.chmod(0o755)
    etc = folder / "etc"
    etc.mkdir()
    (etc / "passwd").write_text(
        Path("/etc/passwd").read_text() + f"tester:x:{USER}:{USER}::{PLACE}/home:/bin/sh\n"
    )
    for name in ("subuid", "subgid"):
        (etc / name).write_text("tester:300000:65536\n")
