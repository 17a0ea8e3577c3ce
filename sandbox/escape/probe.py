"""Additional sections of the probe, for `doctor --escape`: everything visible, every system call, every way out.

This file is not a module: its text is appended to that of `sandbox/isolation/probe.py`, whose names it uses.
"""

import fcntl
import mmap
import resource
import stat
import subprocess


def table(text):
    return {name: int(number, 0) for name, _, number in (word.partition("=") for word in text.split())}


ADDRESSES = ("192.0.2.1", "198.51.100.1")  # from networks reserved for documentation, which no host uses
NAMESPACES = table(  # linux/sched.h
    "NEWTIME=0x80 NEWNS=0x20000 NEWCGROUP=0x2000000 NEWUTS=0x4000000 NEWIPC=0x8000000 NEWUSER=0x10000000 "
    "NEWPID=0x20000000 NEWNET=0x40000000"
)
CLONE = {"x86_64": 56, "aarch64": 220}
X32_GETPID = 0x40000000 | 39
GETPID_BY_INTERRUPT = bytes.fromhex("b814000000cd80c3")  # mov eax, 20; int 0x80; ret: the 32-bit system call
PR_GET_NO_NEW_PRIVS = 39
PRCTL = table(  # linux/prctl.h: options that no job needs
    "PR_SET_TSC=26 PR_SET_SECUREBITS=28 PR_SET_MM=35 PR_SET_CHILD_SUBREAPER=36 PR_CAP_AMBIENT=47 "
    "PR_SET_SYSCALL_USER_DISPATCH=59 PR_SCHED_CORE=62"
)
IOCTL = table("TIOCSTI=0x5412 TIOCLINUX=0x541C TIOCSETD=0x5423 FS_IOC_GETFLAGS=0x80086601")
FCNTL = table("F_SETOWN=8 F_SETSIG=10 F_SETLEASE=1024 F_NOTIFY=1026 F_ADD_SEALS=1033")
KERNEL = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/driver", "/sys")
# files that make, or once made, the host run a program or change its state
SETTINGS = """
/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hostname /proc/sys/vm/drop_caches
/proc/sys/fs/binfmt_misc/register /proc/sysrq-trigger /proc/irq/default_smp_affinity /proc/mtrr /proc/acpi/wakeup
/sys/kernel/uevent_helper /sys/power/state /sys/fs/cgroup/release_agent /sys/fs/cgroup/notify_on_release
/sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/release_agent /sys/fs/cgroup/memory/notify_on_release
""".split()
SECRETS = """
/proc/kcore /proc/kallsyms /proc/cmdline /proc/config.gz /proc/modules /proc/keys /proc/interrupts /proc/timer_list
/proc/sched_debug /proc/partitions /proc/diskstats /proc/acpi /proc/scsi /proc/asound /proc/latency_stats
/sys/class/dmi/id/product_uuid /sys/class/dmi/id/product_name /sys/firmware /etc/passwd /etc/group /etc/shadow /root
/dev/kmsg /etc/resolv.conf
""".split()
ENGINES = """
/var/run/docker.sock /run/docker.sock /run/docker/metrics.sock /run/podman/podman.sock
/run/containerd/containerd.sock /run/crio/crio.sock /var/run/cri-dockerd.sock
""".split()
SETUID_PROGRAMS = "su passwd mount umount chsh chfn newgrp".split()


def checked(result):
    """Returns a result of the C library, or raises OSError if it is -1."""
    if result == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def passing(action):
    """Runs an action. Any error except EPERM and ENOSYS counts as success, because the seccomp filter let it pass."""
    try:
        action()
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise


# --- sight: what is visible. Changes nothing, except that a program is written to the folders and removed. ---


def sight(folders):
    return {
        "no_new_privs": libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
        "set-user-id": set_user_id(),
        "security label": security_label(),
        "namespaces": {name: link(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))},
        "uid_map": [line.split() for line in lines("/proc/self/uid_map")],
        "kernel": os.uname().release,
        "secrets": [path for path in SECRETS if readable(path)],
        "sys": listed("/sys"),
        "engines": [path for path in ENGINES if os.path.exists(path)],
        "specials": specials(folders),
        "devices": devices(),
        # writable files of the kernel that do not belong to this process
        "settings": sorted(path for top in KERNEL for path in below(top) if os.access(path, os.W_OK))[:100],
        "local socket": outcome(lambda: local().close()),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "descriptors": descriptors(),
        "mount roots": {row[4]: row[3] for row in mount_rows()},  # the host's paths of what is mounted
        "programs": {path: attempt(lambda path=path: execute(path)) for path in folders},
    }


def link(path):
    try:
        return os.readlink(path)
    except OSError as error:
        return name_of(error.errno)


def listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def set_user_id():
    """The user ids that a set-user-id program of the image runs with; None if the image has no such program."""
    for top in ("/usr/bin", "/bin", "/usr/sbin"):
        for path in (os.path.join(top, name) for name in SETUID_PROGRAMS):
            if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID:
                with subprocess.Popen([path], stdin=-1, stdout=-1, stderr=-1) as process:
                    # Popen returns after exec, so the process is that program
                    rows = dict(line.split(":", 1) for line in lines(f"/proc/{process.pid}/status"))
                    # used if the status of other processes is hidden: the folder of a process in /proc belongs to root
                    # if it changed its user
                    owner = str(os.stat(f"/proc/{process.pid}").st_uid)
                    process.stdin.close()
                return sorted({owner, *rows.get("Uid", "").split()})
    return None


def readable(path):
    """True if the path can be read: at least one byte of a file, or one name in a folder."""
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return bool(os.read(file, 1))
        finally:
            os.close(file)
    except OSError:
        return False


def specials(folders):
    """Sockets and devices in the image and in the engine's mounts, except in /dev and the kernel's own file systems."""
    apart_from = {"/dev", "/proc", "/sys", *folders}
    for row in mount_rows():
        if row[4] != "/" and row[row.index("-") + 1] not in ("overlay", "tmpfs"):
            apart_from.add(row[4])
    null, paths, left = os.stat("/dev/null").st_rdev, [], ["/"]
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                left += [entry.path] if entry.path not in apart_from else []
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                is_mask = entry.stat(follow_symlinks=False).st_rdev == null
                paths += [] if is_mask else [entry.path]
    return sorted(paths)


def devices():
    """The nodes below /dev that can be opened for reading or writing."""

    def opens(path, mode):
        return outcome(lambda: os.close(os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY))) == WORKED

    paths = (path for path in below("/dev") if not os.path.islink(path))
    return sorted(path for path in paths if any(opens(path, mode) for mode in (os.O_RDONLY, os.O_WRONLY)))


def below(start):
    return (os.path.join(top, name) for top, _, names in os.walk(start) for name in names)


def descriptors():
    """Open descriptors, except pipes, /dev/null and files of the image, which libraries may open."""
    root, targets = os.open("/", os.O_PATH), []
    image, mount = os.stat("/").st_dev, mount_of(root)
    for name in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the descriptor that was used for listing is closed already
            status, target = os.fstat(name), link(f"/proc/self/fd/{name}")
            # an overlay over several file systems can show other device numbers for files than for their folders
            of_image = status.st_dev == image or (mount and mount_of(name) == mount)
            if not of_image and not target.startswith(("pipe:", "/dev/null")):
                targets.append(target)
    os.close(root)
    return sorted(targets)


def mount_of(descriptor):
    """The line with the mount id of a descriptor, as a list; empty if the kernel does not report it."""
    return [line for line in lines(f"/proc/self/fdinfo/{descriptor}") if line.startswith("mnt_id:")]


# --- calls: system calls by number ---


def calls(numbers):
    """The result of each system call with zeros as arguments.

    If a call ends the process, its result is the way in which the process ended.
    """
    results, left = {}, list(numbers.items())

    def call_each(report):
        for name, number in left:
            first = 1 if name == "acct" else 0  # zero would switch accounting off if that is allowed
            ctypes.set_errno(0)
            result = libc.syscall(*map(ctypes.c_long, (number, first, 0, 0, 0, 0, 0)))
            report(name, name_of(ctypes.get_errno()) if result == -1 else WORKED)

    while left:
        answers, end = in_child(call_each)
        results |= dict(answers)
        left = left[len(answers) :]
        if left:
            results[left.pop(0)[0]] = end
    return results


# --- additional groups of attempts ---


def network(_folders):
    def connect(address):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect((address, 53))

    return {f"connect to {address}": lambda address=address: connect(address) for address in ADDRESSES}


def local_sockets(_folders):
    return {
        "connect to a file": lambda: passing(lambda: local().connect("/nonexistent/socket")),
        "connect to an abstract name": lambda: passing(lambda: local().connect("\0gdal-mcp-probe")),
        "send to an abstract name": lambda: passing(lambda: local().sendto(b"x", "\0gdal-mcp-probe")),
        "take an abstract name": lambda: local().bind("\0gdal-mcp-probe"),
    }


def local():
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def namespaces(_folders):
    def clone(flag):
        number = CLONE[os.uname().machine]
        if checked(libc.syscall(*map(ctypes.c_long, (number, flag | signal.SIGCHLD, 0, 0, 0, 0)))) == 0:
            os._exit(0)

    actions = {}
    for name, flag in NAMESPACES.items():
        actions[f"unshare {name}"] = lambda flag=flag: checked(libc.unshare(flag))
        if name != "NEWTIME":  # in clone, this bit is part of the signal number
            actions[f"clone {name}"] = lambda flag=flag: clone(flag)
    for name in sorted(os.listdir("/proc/self/ns")):
        own = f"/proc/self/ns/{name}"
        actions[f"setns {name}"] = lambda own=own: checked(libc.setns(os.open(own, os.O_RDONLY), 0))
    return actions


def mounts(_folders):
    return {
        "mount a tmpfs": lambda: checked(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
        "remount / for writing": lambda: checked(libc.mount(None, b"/", None, 0x20, None)),  # MS_REMOUNT
        "unmount /proc": lambda: checked(libc.umount2(b"/proc", 2)),  # MNT_DETACH
        "chroot": lambda: os.chroot("/tmp"),
    }


def kernel_settings(_folders):
    return {path: lambda path=path: os.close(os.open(path, os.O_WRONLY)) for path in SETTINGS}


def nodes(folders):
    """Attempts to create special files, and links to files elsewhere."""

    def removed(make, path):
        make(path)
        os.unlink(path)

    def device(kind, path):
        os.mknod(path, kind | 0o600, os.makedev(1, 3))

    kinds = {
        "a character device": lambda path: device(stat.S_IFCHR, path),
        "a block device": lambda path: device(stat.S_IFBLK, path),
        "a socket": lambda path: device(stat.S_IFSOCK, path),
        "a pipe": os.mkfifo,
        "a symbolic link": lambda path: os.symlink("/etc/passwd", path),
        "a second name of an image's file": lambda path: os.link("/etc/passwd", path),
    }
    return {
        f"{name} in {top}": lambda make=make, top=top: removed(make, own_name(top))
        for top in folders
        for name, make in kinds.items()
    }


def programs(_folders):
    return {
        "run one from /tmp": lambda: execute("/tmp"),
        "load code from /tmp": load_code,
        "run one from memory": lambda: os.close(os.memfd_create("x")),
    }


def execute(top):
    """Writes a program and runs it in a child. Raises OSError if the program did not run."""
    path = own_name(top)
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(path, 0o700)
    try:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                os.execv(path, [path])  # replaces the child if it succeeds
            os._exit(errno.EACCES)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.unlink(path)
    if code:
        raise OSError(errno.EACCES, "not run")


def load_code():
    path = own_name("/tmp")
    with open(path, "w+b") as file:
        os.unlink(path)
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()


def requests(_folders):
    """Attempts to make system calls with arguments that the filter refuses, although it allows other arguments."""
    own = os.open("/proc/self/stat", os.O_RDONLY)  # a descriptor that is used for nothing else
    actions = {
        name: lambda option=option: checked(libc.prctl(option, 0, 0, 0, 0)) for name, option in PRCTL.items()
    }
    actions |= {
        name: lambda request=request: fcntl.ioctl(own, request, bytes(8)) for name, request in IOCTL.items()
    }
    actions |= {name: lambda command=command: fcntl.fcntl(own, command, 0) for name, command in FCNTL.items()}
    return {name: lambda action=action: passing(action) for name, action in actions.items()}


def limits(_folders):
    actions = {}
    for name, which in vars(resource).items():
        if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE":  # another name of NOFILE
            soft, hard = resource.getrlimit(which)
            if hard != resource.RLIM_INFINITY:
                actions[name] = lambda which=which, pair=(soft, hard + 1): set_limit(which, pair)
    return actions


def set_limit(which, pair):
    try:
        resource.setrlimit(which, pair)
    except ValueError as error:  # Python raises ValueError for this refusal
        raise OSError(errno.EPERM, "refused") from error


def crashes(_folders):
    def dump():
        """Succeeds if the kernel writes a core dump, or passes it to a program on the host (core_pattern)."""
        os.chdir("/tmp")
        child = os.fork()
        if child == 0:
            os.abort()
        if not os.WCOREDUMP(os.waitpid(child, 0)[1]):
            raise OSError(errno.EPERM, "not dumped")

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return {"have one dumped": dump, "allow dumps": lambda: set_limit(resource.RLIMIT_CORE, (0, hard))}


def other_architectures(_folders):
    """Attempts to make system calls of other architectures, which only the kernel of x86_64 supports."""

    def by_interrupt():
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(GETPID_BY_INTERRUPT)
        result = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        if result < 0:
            raise OSError(-result, "refused")

    if os.uname().machine != "x86_64":
        return {}
    return {"x32": lambda: checked(libc.syscall(ctypes.c_long(X32_GETPID))), "32-bit": by_interrupt}


GROUPS = (
    *(local_sockets, kernel_settings, other_architectures, sockets, network, namespaces, mounts, writing),
    *(nodes, programs, requests, identities, limits, crashes),
)


SECTIONS = {section.__name__: section for section in (files, sight, calls, attempts, processes)}
