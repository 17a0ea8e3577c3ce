"""A kernel with NFS of its own: Debian's User Mode Linux exports a folder and mounts it twice, as two machines would.

The machine's own kernel may lack NFS, and a test must not load modules into it. Packages are unpacked into a cache, none is installed.
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVER, POD = "/mnt/server", "/mnt/pod"  # where the two mounts are
_PACKAGES = (
    *("user-mode-linux", "kmod", "libkmod2", "nfs-kernel-server"),
    *("libnfsidmap1", "libtirpc3", "libevent-core-2.1-7", "libwrap0", "keyutils"),
)
# in the order in which each finds what it needs
_MODULES = (
    *("net/sunrpc/sunrpc", "fs/nfs_common/grace", "fs/lockd/lockd", "fs/netfs/netfs", "fs/fscache/fscache"),
    *("lib/oid_registry", "net/sunrpc/auth_gss/auth_rpcgss", "fs/nfs_common/nfs_acl"),
    *("net/dns_resolver/dns_resolver", "fs/nfs/nfs", "fs/nfs/nfsv4", "fs/nfsd/nfsd"),
)
_INIT = """\
#!/bin/sh
exec >/dev/console 2>&1
set -x
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LD_LIBRARY_PATH={tools}/usr/lib/x86_64-linux-gnu:{tools}/lib/x86_64-linux-gnu
mount -t proc proc /proc
for place in /run /mnt /var; do mount -t tmpfs tmpfs $place; done
mkdir -p -m 1777 /var/tmp /mnt/out /mnt/disk {server} {pod} /run/rpc /var/lib/nfs/v4recovery
mount -t hostfs -o {out} none /mnt/out
mount -t tmpfs -o mode=1777 tmpfs /mnt/disk
ip link set lo up
ln -s {tools}/bin/kmod /run/insmod
for one in {modules}; do /run/insmod $(echo {tools}/usr/lib/uml/modules/*/kernel)/$one.ko; done
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc /run/rpc
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
{tools}/usr/sbin/rpc.mountd -F -N2 -N3 &
{tools}/usr/sbin/rpc.nfsd -N3 -U 2
{tools}/usr/sbin/exportfs -o rw,fsid=0,insecure,no_subtree_check,root_squash 127.0.0.1:/mnt/disk
echo Y >/proc/fs/nfsd/v4_end_grace
for place in {server} {pod}; do
    mount -i -t nfs4 -o {options},addr=127.0.0.1,clientaddr=127.0.0.1,nosharecache 127.0.0.1:/ $place
done
unset LD_LIBRARY_PATH
cd {root}
export HOME=/var/tmp TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={root}/tests/unit
# an interpreter in root's home is read by this right; the files of NFS are still its server's to give
user="setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search"
$user {python} -m pytest -q -p no:cacheprovider -p no:xdist --junitxml /mnt/out/user.xml -k 'not root' tests/nfs/inside.py
{python} -m pytest -q -p no:cacheprovider -p no:xdist --junitxml /mnt/out/root.xml -k root tests/nfs/inside.py
poweroff -f
"""


def results(folder: Path, options: Sequence[str]) -> dict[str, str]:
    """Runs `inside.py` on NFS that is mounted with these options: name of a test -> what went wrong, "" when nothing did."""
    tools, out = _tools(), folder / "out"
    out.mkdir()
    out.chmod(0o777)
    init = folder / "init"
    told = {"tools": tools, "out": out, "server": SERVER, "pod": POD, "root": ROOT, "python": sys.executable}
    init.write_text(_INIT.format(**told, modules=" ".join(_MODULES), options=",".join(options)))
    init.chmod(0o755)
    command = [f"{tools}/usr/bin/linux.uml", "mem=700M", "rootfstype=hostfs", "rootflags=/", "root=/dev/root"]
    command += ["ro", f"init={init}", "con=null", "con0=null,fd:1", "quiet"]
    with (folder / "console").open("w") as console:
        environment = {**os.environ, "TMPDIR": str(folder)}  # where it keeps its memory
        subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            timeout=400,
            env=environment,
        )
    found = [out / "user.xml", out / "root.xml"]
    assert all(one.exists() for one in found), (folder / "console").read_text(errors="replace")[-4000:]
    return {
        case.attrib["name"]: "".join(wrong.attrib["message"] for wrong in case)
        for one in found
        for case in ET.parse(one).iter("testcase")
    }


def _tools() -> Path:
    """Debian's packages, unpacked; fetched once."""
    found = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gdal-mcp-tests" / "nfs-1"
    if not found.is_dir():
        assert shutil.which("apt-get"), "NFS is tried with User Mode Linux, which needs Debian's packages"
        fresh = found.with_name(f"fetching-nfs-{os.getpid()}")
        fresh.mkdir(parents=True)
        subprocess.run(["apt-get", "-qq", "download", *_PACKAGES], cwd=fresh, check=True, capture_output=True)
        for package in fresh.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, fresh], check=True)
            package.unlink()
        fresh.rename(found)
    return found
