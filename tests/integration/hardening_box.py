"""Containers from create bodies on the real engine, for the tests that look at them from inside."""

import json
import os
import struct
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from textwrap import dedent

import docker

from sandbox.engines.discovery import connect
from sandbox.engines.docker import DockerEngine
from sandbox.engines.docker_spec import create_body
from sandbox.template import Limits, Mount, SandboxTemplate, host_source

USER = (os.getuid() or 65534, os.getgid() or 65534)
WORKSPACE, STAGING = PurePosixPath("/workspace"), PurePosixPath("/staging")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
LIMITS = Limits(
    memory_bytes=256 << 20, cpus=0.5, pids=20, file_bytes=4 << 20, open_files=64, scratch_bytes=16 << 20
)
FRAME = struct.Struct(">BxxxI")  # the engine's framing of an attached stream: which stream, how long


@dataclass(frozen=True)
class Ended:
    code: int
    text: str  # stdout and stderr together
    out_of_memory: bool

    @property
    def answer(self):
        assert self.code == 0, self.text
        return json.loads(self.text.splitlines()[-1])


class Box:
    """Makes containers from create bodies, with a read-only workspace, a mask and a staging folder."""

    def __init__(self, api, image, root):
        self.api, self.staging = api, root / "staging"
        with closing(connect()) as client:
            self.facts = DockerEngine(client).info()
        _prepare(root)
        self.template = SandboxTemplate(
            image=image,
            command=("true",),
            user=USER,
            limits=LIMITS,
            mounts=(
                Mount(host_source(root / "ws"), WORKSPACE),
                Mount(host_source(self.staging), STAGING, read_only=False),
            ),
            masks=(WORKSPACE / ".gdal-mcp",),
            environment=ENVIRONMENT,
        )

    def body(self, *command, image_environment=(), **changes):
        template = replace(self.template, command=command, **changes)
        return create_body(template, self.facts, {"purpose": "test"}, image_environment)

    def python(self, code, *arguments, **changes):
        return self.run(self.body("python3", "-I", "-c", dedent(code), *arguments, **changes))

    def program(self, name, *arguments, **changes):
        """One of the programs beside this file."""
        return self.python((Path(__file__).parent / "inside" / name).read_text(), *arguments, **changes)

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
        stream = self.api.attach_socket(container, asked)
        with (
            closing(stream._sock),
            closing(stream),
        ):  # the SDK leaves the connection open when only one is closed
            self.api.start(container)
            raw = b"".join(iter(lambda: stream.read(65536), b""))
        text, at = b"", 0
        while at < len(raw):
            length = FRAME.unpack_from(raw, at)[1]
            text += raw[at + FRAME.size : at + FRAME.size + length]
            at += FRAME.size + length
        return text


def _prepare(root):
    (root / "ws/.gdal-mcp/others").mkdir(parents=True)
    (root / "staging").mkdir()
    (root / "ws/input.txt").write_text("input")
    for folder in ("ws", "staging"):
        (root / folder).chmod(0o755)
    if os.getuid() == 0:
        os.chown(root / "staging", *USER)


@contextmanager
def open_box(image, root):
    with closing(docker.APIClient()) as api:
        yield Box(api, image, root)
