"""Programs that the checks run inside a container, as texts. They print what they found as JSON."""

# looks around once; every attempt gives the name of its errno, or SUCCEEDED
LOOK = """
import ctypes, errno, json, os, resource, socket, stat, subprocess, sys
root, staging = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)

def attempt(action):
    try: action()
    except OSError as error: return errno.errorcode.get(error.errno, "EUNKNOWN")
    return "SUCCEEDED"

def call(name, *given):
    def action():
        if getattr(libc, name)(*given) < 0: raise OSError(ctypes.get_errno(), name)
    return attempt(action)

def number(one, *given):
    def action():
        if libc.syscall(one, *given) < 0: raise OSError(ctypes.get_errno(), str(one))
    return attempt(action)

def write(path):
    return attempt(lambda: open(path, "x").close())

def read(path):
    try: return open(path, "rb").read(65536).decode("utf-8", "replace")
    except OSError as error: return errno.errorcode.get(error.errno, "EUNKNOWN")

def listed(path):
    try: return sorted(os.listdir(path))
    except OSError as error: return errno.errorcode.get(error.errno, "EUNKNOWN")

def program(path):
    with open(path, "w") as file: file.write("#!/bin/sh\\nexit 0\\n")
    os.chmod(path, 0o755)
    return attempt(lambda: subprocess.run([path], check=True))

def fill(path):
    size = 0
    try:
        with open(path, "wb", buffering=0) as file:
            while True: size += file.write(bytes(1 << 16))
    except OSError as error: return [size, errno.errorcode.get(error.errno, "EUNKNOWN")]
    finally: os.unlink(path)

def many(path):
    total, count, reason = 0, 0, ""
    while reason in ("", "EFBIG") and count < 64:
        try:
            with open(f"{path}-{count}", "wb", buffering=0) as file:
                count += 1
                for _ in range(32): total += file.write(bytes(1 << 16))
        except OSError as error: reason = errno.errorcode.get(error.errno, "EUNKNOWN")
    for one in range(count): os.unlink(f"{path}-{one}")
    return [total, reason]

def open_files():
    held = []
    try:
        while len(held) < 5000: held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error: return [max(held) + 1, errno.errorcode.get(error.errno, "EUNKNOWN")]
    finally:
        for one in held: os.close(one)
    return [len(held), "none"]

def setuid_programs():
    for folder in ("/usr/bin", "/bin", "/usr/sbin"):
        for name in ("su", "passwd", "mount", "umount", "chsh", "chfn", "newgrp"):
            path = f"{folder}/{name}"
            if os.path.exists(path) and os.stat(path).st_mode & stat.S_ISUID: return path

def setuid():
    path = setuid_programs()
    if path is None: return "none in the image"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([path], **pipes) as process:
        rows = dict(line.split(":", 1) for line in open(f"/proc/{process.pid}/status"))
        process.stdin.close()
    return sorted(set(rows["Uid"].split()))

def connect(address):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect((address, 53))

def apart(found):
    # in a child, which what succeeds changes alone
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(found()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(os.read(reading, 65536))

import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
NEW_USER = 0x10000000
print(json.dumps({
    "ids": [*os.getresuid(), *os.getresgid()],
    "groups": os.getgroups(),
    "status": {name: value.split() for name, value in status.items()},
    "no_new_privs": libc.prctl(39, 0, 0, 0, 0),
    "become": apart(lambda: {"uid": attempt(lambda: os.setuid(0)), "gid": attempt(lambda: os.setgid(0)),
               "groups": attempt(lambda: os.setgroups([0]))}),
    "setuid": setuid(),
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]],
    "connect": {address: attempt(lambda address=address: connect(address)) for address in ("192.0.2.1", "198.51.100.1")},
    "sockets": {name: attempt(lambda name=name: socket.socket(getattr(socket, name), socket.SOCK_RAW
                              if name in ("AF_PACKET", "AF_NETLINK") else socket.SOCK_STREAM).close())
                for name in ("AF_INET", "AF_INET6", "AF_PACKET", "AF_NETLINK", "AF_VSOCK", "AF_ALG")},
    "unix_socket": attempt(lambda: socket.socket(socket.AF_UNIX).close()),
    "calls": apart(lambda: {
        "unshare": call("unshare", NEW_USER), "ptrace": call("ptrace", 16, 1, 0, 0),
        "mount": call("mount", b"none", b"/tmp", b"tmpfs", 0, 0), "personality": call("personality", 0x0040000),
        "keyctl": number(250, 0, 0, 0) if os.uname().machine == "x86_64" else number(219, 0, 0, 0),
        "bpf": number(321, 0, 0, 0) if os.uname().machine == "x86_64" else number(280, 0, 0, 0),
        "io_uring_setup": number(425, 1, 0),
        "chroot": attempt(lambda: os.chroot("/tmp")),
        "sethostname": call("sethostname", b"other", 5),
    }),
    "devices": {"node": attempt(lambda: os.mknod("/tmp/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))),
                "listed": sorted(name for name in os.listdir("/dev") if stat.S_ISBLK(os.lstat("/dev/" + name).st_mode))},
    "written": {path: write(path + "/new") for path in ("/", "/etc", "/usr", "/var/tmp", "/run", "/root", "/opt")},
    "shared_memory": write("/dev/shm/new") if os.path.exists("/dev/shm") else "absent",
    "input": read(root + "/input.txt"),
    "workspace": {"create": write(root + "/new"), "change": attempt(lambda: open(root + "/input.txt", "r+").close()),
                  "remove": attempt(lambda: os.unlink(root + "/input.txt")),
                  "rename": attempt(lambda: os.rename(root + "/input.txt", root + "/moved"))},
    "staged": attempt(lambda: open(staging + "/made.txt", "w").write("made inside")),
    "covered": [listed(root + "/covered"), write(root + "/covered/new")],
    "scratch": {"file": fill("/tmp/fill"), "all": many("/tmp/many"), "program": program("/tmp/program")},
    "environment": dict(os.environ),
    "host": {path: read(path) for path in ("/proc/cmdline", "/proc/kallsyms", "/proc/partitions", "/proc/diskstats")},
    "sys": listed("/sys"),
    "settings": attempt(lambda: open("/proc/sys/kernel/core_pattern", "w").close()),
    "processes": [os.getpid(), sorted(int(name) for name in os.listdir("/proc") if name.isdigit())],
    "hostname": os.uname().nodename,
    "folder": os.getcwd(),
    "rlimits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("NOFILE", "FSIZE", "CORE", "DATA", "CPU")},
    "open_files": open_files(),
}))
"""

# takes memory that no RLIMIT_DATA counts, so that only the container's own limit can end it
TAKE_MEMORY = """
import mmap, sys
size = int(sys.argv[1])
held = mmap.mmap(-1, size)
for at in range(0, size, 4096): held[at] = 1
print("held", flush=True)
"""

# asks for memory as GDAL does
ASK_MEMORY = """
import json, sys
try: held = bytearray(int(sys.argv[1]))
except MemoryError: print(json.dumps("refused"))
else: print(json.dumps("given"))
"""

# starts processes until it is refused, or until there are too many
FORK = """
import json, os, signal
children, reason = [], "none"
for _ in range(400):
    try: child = os.fork()
    except OSError as error:
        reason = str(error.errno)
        break
    if child == 0:
        signal.pause()
        os._exit(0)
    children.append(child)
for one in children: os.kill(one, signal.SIGKILL)
for one in children: os.waitpid(one, 0)
print(json.dumps([len(children), reason]))
"""

# computes with two processes for a second; the processor time that they got
COMPUTE = """
import json, os, time
def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass
child = os.fork()
compute(1.0)
if child == 0: os._exit(0)
os.waitpid(child, 0)
print(json.dumps(sum(os.times()[:4])))
"""

SPEAK = "import os, sys; os.write(1, b'out'); os.write(2, b'err'); os._exit(int(sys.argv[1]))"
WAIT_FOR_THE_END = "import os; os.write(1, b'ready'); os.read(0, 1); os._exit(3)"
REPEAT = """
import os
while data := os.read(0, 65536):
    while data: data = data[os.write(1, data):]
"""
CRASH = "import ctypes; ctypes.string_at(0)"  # a fault, as process 1 is deaf to most signals
LEAVE_A_MARK = "open('/staging/started', 'w').close()"
PRINT_MUCH = """
import os, sys
for number in range(int(sys.argv[1])):
    data = b"%08d" % number * 512
    while data: data = data[os.write(1, data):]
"""
