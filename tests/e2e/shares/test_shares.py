"""Workspaces on file systems that people share between machines, each a real mount on a kernel of its own (User Mode Linux)."""

import os
import platform
import sys
from pathlib import Path

import pytest

from tests import uml
from tests.engines.kit import not_tried
from tests.engines.test_rootless import opened

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
ROOT = Path(__file__).parents[3]
USER = 1000
_PACKAGES = ("dosfstools", "diod", "libwrap0", "liblua5.1-0", "libmunge2", "bindfs", "samba", "samba-libs")
# in the order in which each finds what it needs
_MODULES = (
    *("drivers/block/loop", "fs/fat/fat", "fs/fat/vfat"),
    *("fs/nls/nls_cp437", "fs/nls/nls_iso8859-1", "fs/nls/nls_utf8"),
    *("fs/netfs/netfs", "fs/fscache/fscache", "net/9p/9pnet", "net/9p/9pnet_fd", "fs/9p/9p", "fs/fuse/fuse"),
    *("lib/asn1_decoder", "lib/oid_registry", "net/dns_resolver/dns_resolver"),
    *("crypto/hmac", "crypto/sha512_generic", "crypto/cmac", "crypto/ccm"),
    *("fs/smb/common/cifs_arc4", "fs/smb/common/cifs_md4", "fs/smb/client/cifs"),
)
SHARES = ("vfat", "9p", "fuse", "cifs")
_SCRIPT = """\
mount -t devtmpfs devtmpfs /dev
{opened}
mkdir -p /mnt/image /mnt/9p /mnt/cifs /mnt/fuse /mnt/vfat /mnt/of-9p /mnt/of-cifs /mnt/of-fuse /run/smb
for place in /mnt/image /mnt/of-9p /mnt/of-cifs /mnt/of-fuse; do mount -t tmpfs -o mode=1777 tmpfs $place; done
truncate -s 300M /mnt/image/vfat
{tools}/sbin/mkfs.vfat /mnt/image/vfat
losetup /dev/loop0 /mnt/image/vfat
mount -t vfat -o iocharset=iso8859-1,utf8,uid={user},gid={user} /dev/loop0 /mnt/vfat

{tools}/usr/sbin/diod --foreground --no-auth --export /mnt/of-9p --listen 127.0.0.1:5640 2>{out}/diod &
cat >/run/smb/conf <<'END'
[global]
private dir = /run/smb
lock directory = /run/smb
state directory = /run/smb
cache directory = /run/smb
pid directory = /run/smb
ncalrpc dir = /run/smb/rpc
log file = {out}/smbd
map to guest = Bad User
load printers = no
disable spoolss = yes
[share]
path = /mnt/of-cifs
guest ok = yes
read only = no
force user = root
END
{tools}/usr/sbin/smbd --foreground --configfile /run/smb/conf &
{tools}/usr/bin/bindfs -f --map=root/{user} -o allow_other /mnt/of-fuse /mnt/fuse &
until mount -i -t 9p -o trans=tcp,port=5640,version=9p2000.L,aname=/mnt/of-9p,uname=root 127.0.0.1 /mnt/9p; do sleep 0.2; done
# by default the time of a file changes up to a second after it was written, when the client really closes it: such a file counts as changed
options=ip=127.0.0.1,vers=2.1,sec=none,actimeo=0,closetimeo=0,uid={user},gid={user}
until mount -i -t cifs -o $options //127.0.0.1/share /mnt/cifs; do sleep 0.2; done
until grep ' /mnt/fuse ' /proc/mounts; do sleep 0.2; done
unset LD_LIBRARY_PATH
cd {root}
export HOME=/var/tmp TMPDIR=/var/tmp HYPOTHESIS_STORAGE_DIRECTORY=/var/tmp/h PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={root}/tests/unit
for share in {shares}; do
    grep " /mnt/$share " /proc/mounts >>{out}/mounts
    SHARE=/mnt/$share setpriv --reuid {user} --regid {user} --clear-groups \\
        {python} -m pytest -q -p no:cacheprovider --junitxml {out}/$share.xml tests/e2e/shares/inside.py >{out}/$share.log
done
"""


@pytest.mark.timeout(1800)
@pytest.mark.claim("outputs.shares")
def test_a_file_is_replaced_at_once_or_stays(tmp_path: Path, subtests: pytest.Subtests) -> None:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        not_tried("shares", "they need a kernel of their own, which root starts on Debian")
    tools = uml.tools("shares-3", _PACKAGES)
    values = {"tools": tools, "root": ROOT, "python": sys.executable, "out": uml.OUT, "user": USER}
    closed = opened(Path(sys.base_prefix), ROOT, tools)
    script = _SCRIPT.format(**values, shares=" ".join(SHARES), opened=closed)
    files = uml.run(tmp_path, tools, _MODULES, script, [f"{one}.xml" for one in SHARES], "1000M")
    assert len((tmp_path / "out/mounts").read_text().splitlines()) == len(SHARES)
    for share, file in zip(SHARES, files, strict=True):
        found = uml.outcomes(file)
        assert len(found) >= 10
        for name, wrong in found.items():
            with subtests.test(name, share=share):
                assert not wrong
