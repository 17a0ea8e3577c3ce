"""What a process sees in its container, the counterpart of `attempts.py`. Standard library only; it changes nothing."""

import contextlib
import errno
import os

SECRETS = (
    *("/proc/kcore", "/proc/kallsyms", "/proc/cmdline", "/proc/config.gz", "/proc/modules", "/proc/keys"),
    *("/proc/interrupts", "/proc/timer_list", "/proc/sched_debug", "/proc/partitions", "/proc/diskstats"),
    *("/proc/acpi", "/proc/scsi", "/proc/asound", "/proc/latency_stats"),
    *("/sys/class/dmi/id/product_uuid", "/sys/class/dmi/id/product_name", "/sys/firmware"),
    *("/etc/passwd", "/etc/group", "/etc/shadow", "/root", "/dev/kmsg", "/etc/resolv.conf"),
)
ENGINES = (
    *("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"),
    *(
        "/run/podman/podman.sock",
        "/run/crio/crio.sock",
        "/var/run/cri-dockerd.sock",
        "/run/docker/metrics.sock",
    ),
)


def looks():
    return {
        "status": status(),
        "apparmor": first_line("/proc/self/attr/current") or first_line("/proc/self/attr/apparmor/current"),
        "namespaces": {name: link(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))},
        "uid_map": [line.split() for line in lines("/proc/self/uid_map")],
        "hostname": os.uname().nodename,
        "kernel": os.uname().release,
        "environment": sorted(os.environ),
        "secrets": [path for path in SECRETS if readable(path)],
        "sys": sorted(os.listdir("/sys")) if os.path.isdir("/sys") else [],
        "engines": [path for path in ENGINES if os.path.exists(path)],
        "specials": specials(),
        "devices": devices(),
        "settings": writable_settings(),
        "interfaces": [line.split(":")[0].strip() for line in lines("/proc/net/dev")[2:]],
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "own": [os.getpid(), os.getppid()],
        "descriptors": descriptors(),
        "mounts": mounts(),
        "cgroup": [line.split(":", 2)[-1] for line in lines("/proc/self/cgroup")],
    }


def lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n").split("\n")
    except OSError:
        return []


def first_line(path):
    return next(iter(lines(path)), "").rstrip("\0")


def link(path):
    try:
        return os.readlink(path)
    except OSError as error:
        return errno.errorcode.get(error.errno, "EUNKNOWN")


def status():
    rows = (line.split(":", 1) for line in lines("/proc/self/status") if ":" in line)
    return {name: value.split() for name, value in rows}


def readable(path):
    """Whether anything can be learnt from it: a first byte, or a name in it."""
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


def specials():
    """Sockets and devices of the image and of what the engine mounted, /dev and the kernel's own file systems apart."""
    apart_from = {"/dev", "/proc", "/sys", "/tmp", "/staging"} | {
        row["target"] for row in mounts() if row["type"] not in ("overlay", "tmpfs") and row["target"] != "/"
    }
    found, left = [], ["/"]
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                left += [entry.path] if entry.path not in apart_from else []
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink() and not masked(entry):
                found.append(entry.path)
    return sorted(found)


def masked(entry):
    """Whether /dev/null lies over it."""
    return entry.stat(follow_symlinks=False).st_rdev == os.stat("/dev/null").st_rdev


def devices():
    """The nodes below /dev that can be opened at all."""
    found = []
    for top, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(top, name)
            if not os.path.islink(path) and any(opens(path, mode) for mode in (os.O_RDONLY, os.O_WRONLY)):
                found.append(path)
    return sorted(found)


def opens(path, mode):
    try:
        os.close(os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY))
    except OSError:
        return False
    return True


def writable_settings():
    """Files of /proc and /sys that are the kernel's, not this process's, and may be written."""
    found = []
    for start in ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/driver", "/sys"):
        for top, _, names in os.walk(start):
            found += [
                os.path.join(top, name) for name in names if os.access(os.path.join(top, name), os.W_OK)
            ]
    return sorted(found)[:100]


def descriptors():
    """What is open and is neither a pipe, nor /dev/null, nor a file of the image, as libraries open them."""
    image, found = os.stat("/").st_dev, []
    for name in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the one that lists them is closed by now
            status, target = os.fstat(name), link(f"/proc/self/fd/{name}")
            if status.st_dev != image and not target.startswith(("pipe:", "/dev/null")):
                found.append(target)
    return sorted(found)


def mounts():
    """Rows of /proc/self/mountinfo; `root` and `source` are the host's words for what is mounted."""
    rows = []
    for line in lines("/proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        parts, (kind, source, *_) = left.split(" "), right.split(" ")
        rows.append(
            {
                "root": parts[3],
                "target": parts[4],
                "options": parts[5].split(","),
                "type": kind,
                "source": source,
            }
        )
    return rows
