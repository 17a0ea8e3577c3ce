"""The file systems of workspaces, each mounted in a separate kernel (User Mode Linux).

This machine's kernel may lack them, and a test must not load modules into it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests import uml

USER: Final = 1000
_PACKAGES: Final = (
    *("dosfstools", "exfat-fuse", "exfatprogs", "libfuse2", "btrfs-progs", "liblzo2-2"),
    *("xfsprogs", "libinih1", "liburcu8", "libdevmapper1.02.1", "libedit2", "libicu72", "libbsd0"),
    *("diod", "libwrap0", "liblua5.1-0", "libmunge2", "bindfs", "samba", "samba-libs"),
    *("nfs-kernel-server", "libnfsidmap1", "libtirpc3", "libevent-core-2.1-7", "keyutils"),
)
# in the order of their dependencies
MODULES: Final = (
    *("drivers/block/loop", "fs/fat/fat", "fs/fat/vfat", "fs/overlayfs/overlay"),
    *("fs/nls/nls_cp437", "fs/nls/nls_iso8859-1", "fs/nls/nls_utf8"),
    *("fs/netfs/netfs", "fs/fscache/fscache", "net/9p/9pnet", "net/9p/9pnet_fd", "fs/9p/9p", "fs/fuse/fuse"),
    *("lib/asn1_decoder", "lib/oid_registry", "net/dns_resolver/dns_resolver"),
    *("crypto/hmac", "crypto/sha512_generic", "crypto/cmac", "crypto/ccm"),
    *("fs/smb/common/cifs_arc4", "fs/smb/common/cifs_md4", "fs/smb/client/cifs"),
    *("net/sunrpc/sunrpc", "fs/nfs_common/grace", "fs/lockd/lockd", "net/sunrpc/auth_gss/auth_rpcgss"),
    *("fs/nfs_common/nfs_acl", "fs/nfs/nfs", "fs/nfs/nfsv4", "fs/nfsd/nfsd"),
)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Commands that mount it at `/mnt/NAME`; `other` is a second mount of it, like that of another machine."""

    name: str
    commands: str
    other: str = ""

    @property
    def place(self) -> str:
        return f"/mnt/{self.name}"


def _disk(name: str, make: str, mount: str, megabytes: int = 300) -> FileSystem:
    """A file system in a file, on a loop device."""
    return FileSystem(
        name,
        f"""\
truncate -s {megabytes}M /mnt/image/{name}
{make} /mnt/image/{name}
{mount.format(device=f"$(losetup --find --show /mnt/image/{name})", place=f"/mnt/{name}")}
chmod 1777 /mnt/{name}
""",
    )


_EXFAT = "{{tools}}/sbin/mount.exfat-fuse -o uid={{user}},gid={{user}},umask=022 {device} {place}"
_9P = """\
{tools}/usr/sbin/diod --foreground --no-auth --export /mnt/of-9p --listen 127.0.0.1:5640 2>{out}/diod &
retry mount -i -t 9p -o trans=tcp,port=5640,version=9p2000.L,aname=/mnt/of-9p,uname=root 127.0.0.1 /mnt/9p
"""
_SMB = """\
mkdir /run/smb
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
options=ip=127.0.0.1,vers=2.1,sec=none,uid={user},gid={user}
retry mount -i -t cifs -o $options //127.0.0.1/share /mnt/cifs
"""
_NFS = """\
mkdir -p -m 1777 /run/rpc /var/lib/nfs/v4recovery
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc /run/rpc
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
{tools}/usr/sbin/rpc.mountd -F -N2 -N3 &
{tools}/usr/sbin/rpc.nfsd -N3 -U 2
{tools}/usr/sbin/exportfs -o rw,fsid=0,insecure,no_subtree_check,root_squash 127.0.0.1:/mnt/of-nfs
echo Y >/proc/fs/nfsd/v4_end_grace
for place in /mnt/nfs /mnt/nfs-other; do
    mount -i -t nfs4 -o nfsvers=4.2,hard,addr=127.0.0.1,clientaddr=127.0.0.1,nosharecache 127.0.0.1:/ $place
done
"""
_BINDFS = "{{tools}}/usr/bin/bindfs -f {options} -o allow_other /mnt/of-{name} /mnt/{name} &\nretry grep ' /mnt/{name} ' /proc/mounts\n"
_OVERLAY = """\
mkdir /mnt/of-overlay/lower /mnt/of-overlay/upper /mnt/of-overlay/work
mount -t overlay -o lowerdir=/mnt/of-overlay/lower,upperdir=/mnt/of-overlay/upper,workdir=/mnt/of-overlay/work overlay /mnt/overlay
chmod 1777 /mnt/overlay
"""
# without the option `metadata`, Windows Subsystem for Linux shows every file as owned by the user and open to
# everybody, and ignores chmod
_WSL = "--chmod-ignore --chown-ignore --force-user={user} --force-group={user} --perms=0777"
FILE_SYSTEMS: Final = {
    file_system.name: file_system
    for file_system in (
        _disk("ext4", "/usr/sbin/mkfs.ext4 -q", "mount -t ext4 {device} {place}"),
        _disk("xfs", "{tools}/sbin/mkfs.xfs -q", "mount -t xfs {device} {place}"),
        _disk("btrfs", "{tools}/sbin/mkfs.btrfs -q", "mount -t btrfs {device} {place}"),
        FileSystem("tmpfs", "mount -t tmpfs -o mode=1777 tmpfs /mnt/tmpfs\n"),
        FileSystem("overlay", _OVERLAY),
        _disk(
            "vfat",
            "{tools}/sbin/mkfs.vfat",
            "mount -t vfat -o iocharset=iso8859-1,utf8,uid={{user}},gid={{user}} {device} {place}",
        ),
        _disk("vfat-root", "{tools}/sbin/mkfs.vfat", "mount -t vfat {device} {place}"),
        _disk("exfat", "{tools}/usr/sbin/mkfs.exfat", _EXFAT),
        FileSystem("9p", _9P),
        FileSystem("fuse", _BINDFS.format(name="fuse", options="--map=root/{user}")),
        FileSystem("cifs", _SMB),
        FileSystem("nfs", _NFS, other="/mnt/nfs-other"),
        FileSystem("wsl", _BINDFS.format(name="wsl", options=_WSL)),
    )
}

CLOSED_TO_ROOT: Final = ("nfs", "vfat-root")  # root cannot give a folder to another user there
PUBLISHED_ON: Final = tuple(name for name in FILE_SYSTEMS if name not in {"vfat-root", "wsl"})
# which can swap two names atomically; on the others a call that would replace a file is refused, as docs/hosts.toml says
REPLACED_ON: Final = ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "vfat")


def tools() -> Path:
    return uml.tools("shares-4", _PACKAGES)


def mounted(names: Iterable[str]) -> str:
    """Commands that mount these file systems. They contain the fields `tools`, `out` and `user`."""
    chosen = [FILE_SYSTEMS[name] for name in names]
    places = " ".join(
        place
        for file_system in chosen
        for place in (file_system.place, file_system.other, f"/mnt/of-{file_system.name}")
    )
    return "\n".join(
        (
            'retry() {{ for i in $(seq 300); do "$@" && return; sleep 0.2; done; }}',
            "mount -t devtmpfs devtmpfs /dev",
            f"mkdir -p /mnt/image {places}",
            f"for one in image {' '.join(f'of-{file_system.name}' for file_system in chosen)}; do mount -t tmpfs -o mode=1777 tmpfs /mnt/$one; done",
            *(file_system.commands for file_system in chosen),
            f'for one in {" ".join(names)}; do grep " /mnt/$one " /proc/mounts | tail -1 >>{{out}}/mounts; done',
        )
    )
