"""A kernel with NFS of its own: Debian's User Mode Linux exports a folder and mounts it twice, as two machines would.

The machine's own kernel may lack NFS, and a test must not load modules into it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests import uml

ROOT = Path(__file__).parents[3]
SERVER, POD = "/mnt/server", "/mnt/pod"  # where the two mounts are
_PACKAGES = (
    *("nfs-kernel-server", "libnfsidmap1", "libtirpc3", "libevent-core-2.1-7", "libwrap0", "keyutils"),
)
# in the order in which each finds what it needs
_MODULES = (
    *("net/sunrpc/sunrpc", "fs/nfs_common/grace", "fs/lockd/lockd", "fs/netfs/netfs", "fs/fscache/fscache"),
    *("lib/oid_registry", "net/sunrpc/auth_gss/auth_rpcgss", "fs/nfs_common/nfs_acl"),
    *("net/dns_resolver/dns_resolver", "fs/nfs/nfs", "fs/nfs/nfsv4", "fs/nfsd/nfsd"),
)
_SCRIPT = """\
mkdir -p -m 1777 /mnt/disk {server} {pod} /run/rpc /var/lib/nfs/v4recovery
mount -t tmpfs -o mode=1777 tmpfs /mnt/disk
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
$user {python} -m pytest -q -p no:cacheprovider --junitxml /mnt/out/user.xml -k 'not root' tests/e2e/nfs/inside.py
{python} -m pytest -q -p no:cacheprovider --junitxml /mnt/out/root.xml -k root tests/e2e/nfs/inside.py
"""


def results(folder: Path, options: Sequence[str]) -> dict[str, str]:
    """Runs `inside.py` on NFS that is mounted with these options: name of a test -> what went wrong, "" when nothing did."""
    tools = uml.tools("nfs-1", _PACKAGES)
    told = {"tools": tools, "server": SERVER, "pod": POD, "root": ROOT, "python": sys.executable}
    script = _SCRIPT.format(**told, options=",".join(options))
    return uml.outcomes(*uml.run(folder, tools, _MODULES, script, ("user.xml", "root.xml")))
