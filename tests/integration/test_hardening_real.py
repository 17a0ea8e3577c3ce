"""What a container made from the create body can and cannot do, seen from inside, on the real engine."""

import errno
import io
import json
import os
import struct
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from textwrap import dedent

import docker
import pytest

from sandbox.hardening import HOSTNAME, EngineFacts, create_body, differences
from sandbox.seccomp import rules
from sandbox.template import Limits, Mount, SandboxTemplate

pytestmark = pytest.mark.engine

USER = (os.getuid() or 65534, os.getgid() or 65534)
WORKSPACE, STAGING = PurePosixPath("/workspace"), PurePosixPath("/staging")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
LIMITS = Limits(memory_bytes=256 << 20, cpus=1.0, pids=20, file_bytes=4 << 20, open_files=64, scratch_bytes=16 << 20)
SECRET = "another call's output"  # noqa: S105
FRAME = struct.Struct(">BxxxI")  # the engine's framing of an attached stream: which stream, how long


@dataclass(frozen=True)
class Ended:
    code: int
    text: str  # stdout and stderr together
    out_of_memory: bool

    @property
    def answer(self):
        return json.loads(self.text.splitlines()[-1])


class Box:
    """Makes containers from create bodies, with a read-only workspace, a mask and a staging folder."""

    def __init__(self, api, image, root):
        self.api, self.root = api, root
        info = api.info()
        version = tuple(int(part) for part in api.api_version.split("."))
        options = tuple(info["SecurityOptions"])
        self.facts = EngineFacts(version, info["Architecture"], info.get("CgroupVersion") or "1", options)
        for folder in ("ws/.gdal-mcp/others", "staging"):
            (root / folder).mkdir(parents=True)
        (root / "ws/.gdal-mcp/others/out.txt").write_text(SECRET)
        (root / "ws/input.txt").write_text("input")
        for folder in (root, root / "ws", root / "staging"):
            folder.chmod(0o755)
        if os.getuid() == 0:
            os.chown(root / "staging", *USER)
        self.template = SandboxTemplate(
            image=image,
            command=("true",),
            user=USER,
            limits=LIMITS,
            mounts=(Mount(str(root / "ws"), WORKSPACE), Mount(str(root / "staging"), STAGING, read_only=False)),
            masks=(WORKSPACE / ".gdal-mcp",),
            environment=ENVIRONMENT,
        )

    def body(self, *command, image_environment=(), **changes):
        template = replace(self.template, command=command, **changes)
        return create_body(template, self.facts, {"purpose": "test"}, image_environment)

    def python(self, code, **changes):
        return self.run(self.body("python3", "-I", "-c", dedent(code), **changes))

    def run(self, body):
        container = self.api.create_container_from_config(body)["Id"]
        try:
            text = self._stream(container)
            code = self.api.wait(container)["StatusCode"]
            state = self.api.inspect_container(container)["State"]
            return Ended(code, text.decode(errors="replace"), state["OOMKilled"])
        finally:
            self.api.remove_container(container, force=True, v=True)

    def inspected(self, body):
        container = self.api.create_container_from_config(body)["Id"]
        try:
            return self.api.inspect_container(container)
        finally:
            self.api.remove_container(container, force=True, v=True)

    def _stream(self, container):
        asked = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        with closing(self.api.attach_socket(container, asked)) as stream:
            self.api.start(container)
            raw = b"".join(iter(lambda: stream.read(65536) or b"", b""))
            stream._response.close()
        text, at = b"", 0
        while at < len(raw):
            _, length = FRAME.unpack_from(raw, at)
            text += raw[at + FRAME.size : at + FRAME.size + length]
            at += FRAME.size + length
        return text


@pytest.fixture(scope="module")
def api():
    with closing(docker.APIClient()) as client:
        yield client


@pytest.fixture(scope="module")
def box(api, image_id, tmp_path_factory):
    return Box(api, image_id, tmp_path_factory.mktemp("box"))


# --- one container that looks around ---

LOOK = """
import json, os, resource, socket
def lines(path):
    with open(path) as file: return file.read().splitlines()
def attempt(what):
    try: what(); return 0
    except OSError as error: return error.errno
def writes(path):
    def write():
        with open(path, "w") as file: file.write("x")
    return attempt(write)
def program(path):
    with open(path, "w") as file: file.write("#!/bin/sh\\n")
    os.chmod(path, 0o755)
    return attempt(lambda: os.execv(path, [path]))
found = {
    "status": dict(line.split(":", 1) for line in lines("/proc/self/status")),
    "environment": dict(os.environb and {k.decode(): v.decode() for k, v in os.environb.items()}),
    "groups": os.getgroups(),
    "mounts": [(row.split()[4], row.split()[5].split(",")) for row in lines("/proc/self/mountinfo")],
    "sources": [row.split(" - ")[1].split()[0] + " " + row.split()[4] for row in lines("/proc/self/mountinfo")],
    "sys": os.listdir("/sys"),
    "mask": os.listdir("/workspace/.gdal-mcp"),
    "workspace": os.listdir("/workspace"),
    "interfaces": [row.split(":")[0].strip() for row in lines("/proc/net/dev")[2:]],
    "addresses": lines("/proc/net/if_inet6"),
    "routes": lines("/proc/net/route")[1:],
    "hostname": socket.gethostname(),
    "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("CORE","CPU","DATA","FSIZE","NOFILE")},
    "writes": {path: writes(path) for path in %(paths)r},
    "exec": program("/tmp/program"),
    "masked": {path: attempt(lambda: open(path, "rb").read(1) or os.strerror(0) and 1/0) if 0 else open(path, "rb").read() == b"" for path in ("/proc/kallsyms", "/proc/interrupts", "/proc/cmdline") if os.path.exists(path)},
    "cwd": os.getcwd(),
    "pid": os.getpid(),
    "terminals": os.listdir("/dev/pts"),
}
print(json.dumps(found))
"""
