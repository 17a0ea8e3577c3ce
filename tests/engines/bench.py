"""The basis of the checks of engines: an engine, an image, folders of the host, and one container after another."""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from sandbox.engine import STDERR, STDOUT, AttachedStreams, Container, ContainerState, Engine
from sandbox.escape.escape import full_job, further
from sandbox.escape.rules import ATTEMPTS, CALLS, SIGHT
from sandbox.isolation.measured import FACTS
from sandbox.isolation.rows import Evidence, Row, failure_summary, judged
from sandbox.labels import OWNER, labels
from sandbox.program import delivered, source, worker_command
from sandbox.protocol import Final, FrameReader, ProtocolBreach, Ready, encode_job
from sandbox.template import STAGING_TARGET, Limits, Mount, SandboxTemplate, SourceOf, host_source
from sandbox.waiting import readable

MIB = 1 << 20
NOBODY = 65534
PATIENCE = 60.0  # seconds for any action of an engine; only an engine that hangs needs all of them
# small limits, so that they are reached quickly; pids leave room for a runtime that counts its own threads
LIMITS = Limits(
    memory_bytes=192 * MIB,
    cpus=1.0,
    pids=64,
    file_bytes=4 * MIB,
    open_files=64,
    scratch_bytes=8 * MIB,
    wall_seconds=PATIENCE,
)
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
IN_WORKSPACE = "the input"  # the contents of `input.txt`


# programs that containers run in addition to the probe; they print their findings as JSON

# uses memory that RLIMIT_DATA does not count, so that only the container's own limit can end it
TAKE_MEMORY = """
import mmap, sys
size = int(sys.argv[1])
held = mmap.mmap(-1, size)
for at in range(0, size, 4096): held[at] = 1
print("held", flush=True)
"""

# sections of the probe that need a folder made for them, and functions that fill it
FURTHER = """
def workspace(text, covered, output):
    def write(path, mode):
        with open(path, mode, encoding="ascii") as file:
            file.write("made inside")
    with open(text, encoding="utf-8") as file:
        said = file.read()
    changes = {
        "create beside": lambda: write(text + "-new", "x"),
        "change": lambda: write(text, "r+"),
        "rename": lambda: os.rename(text, text + "-moved"),
        "remove": lambda: os.unlink(text),
        "create where it is covered": lambda: write(os.path.join(covered, "new"), "x"),
    }
    tried = {name: outcome(change) for name, change in changes.items()}
    return {"text": said, "covered": listed(covered), "changes": tried, "output": outcome(lambda: write(output, "w"))}

def bounds():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    found = {"file": fill(["/tmp/look"], 1 << 40), "scratch": fill([f"/tmp/look-{one}" for one in range(64)], 2 << 20)}
    held = []
    refused = outcome(lambda: held.extend(os.open("/dev/null", os.O_RDONLY) for _ in range(5000)))
    for one in held:
        os.close(one)
    return found | {"open files": [max(held) + 1, refused]}

def fill(paths, most):
    total = 0
    try:
        for path in paths:
            with open(path, "wb", buffering=0) as file:
                while file.tell() < most:
                    total += file.write(bytes(1 << 16))
    except OSError as error:
        return [total, name_of(error.errno)]
    finally:
        for path in filter(os.path.exists, paths):
            os.unlink(path)
    return [total, ""]

SECTIONS |= {"workspace": workspace, "bounds": bounds}
"""

# allocates memory as libraries do
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

# computes with two processes for a second, and reports the processor time that they got
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
CRASH = "import ctypes; ctypes.string_at(0)"  # a fault, because process 1 ignores most signals
LEAVE_A_MARK = "open('/staging/started', 'w').close()"
PRINT_MUCH = """
import os, sys
for number in range(int(sys.argv[1])):
    data = b"%08d" % number * 512
    while data: data = data[os.write(1, data):]
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """The exit of a container and its output; None for a container that disappeared without a trace."""

    state: ContainerState | None
    stdout: bytes
    stderr: bytes

    @property
    def code(self) -> int | None:
        return self.state.exit_code if self.state else None

    @property
    def answer(self) -> Any:
        """The JSON of its last line."""
        assert self.code == 0, f"the program ended with {self.state}: {self.stderr[-300:]!r}"
        return json.loads(self.stdout.splitlines()[-1])


@dataclass
class Bench:
    """`folder` is a host folder that the engine sees at the same path, and whose parents every user may enter.

    `image` is the content id of an image with python3. `gone` creates an engine of the same kind at an address where
    nothing listens.
    """

    engine: Engine
    image: str
    folder: Path
    runtime: str = ""
    gone: Callable[[], Engine] | None = None
    limits: Limits = LIMITS
    user: tuple[int, int] = field(default_factory=lambda: (os.geteuid() or NOBODY, os.getegid() or NOBODY))
    owner: str = field(default_factory=lambda: secrets.token_hex(8))
    source: SourceOf = host_source  # where the engine finds the contents of `folder`

    def __post_init__(self) -> None:
        self.workspace, self.staging = self.folder / "workspace", self.folder / "staging"
        (self.workspace / "covered").mkdir(parents=True)
        self.staging.mkdir()
        (self.workspace / "input.txt").write_text(IN_WORKSPACE, encoding="utf-8")
        (self.workspace / "covered/others.txt").write_text("of another call", encoding="utf-8")
        for folder in (self.workspace, self.staging):
            folder.chmod(0o777)  # the mount decides who may write, not the folder
            if os.geteuid() == 0:
                os.chown(folder, *self.user)

    def template(self, program: str, *arguments: str, **changes: Any) -> SandboxTemplate:
        """The template of a Python program with the workspace, a covered folder in it, and a folder to write to."""
        place = PurePosixPath(self.workspace)
        sandbox_template = SandboxTemplate(
            image=self.image,
            command=("python3", "-I", "-c", program, *arguments),
            user=self.user,
            limits=self.limits,
            mounts=(
                Mount(self.source(self.workspace), place),
                Mount(self.source(self.staging), STAGING_TARGET, read_only=False),
            ),
            masks=(place / "covered",),
            environment=ENVIRONMENT,
            runtime=self.runtime,
        )
        return replace(sandbox_template, **changes)

    def program(self, program: str, *arguments: str) -> SandboxTemplate:
        """Like `template`, with the program sent by stdin (`template.program`)."""
        sent = delivered(("python3", "-I", "-c", program, *arguments))
        return replace(self.template(""), command=sent.command, program=sent.program)

    @contextlib.contextmanager
    def created(self, template: SandboxTemplate) -> Iterator[Container]:
        """A container that is not started; removed at the end."""
        container = self.engine.create(template, labels(self.owner, "conformance", PATIENCE))
        try:
            yield container
        finally:
            container.remove()

    @contextlib.contextmanager
    def started(self, container: Container, until: bytes = b"") -> Iterator[AttachedStreams]:
        """The streams of a container that was started and has printed `until`; closed at the end."""
        with contextlib.closing(container.start()) as wire:
            if until:
                hear(wire, until=until)
            yield wire

    @contextlib.contextmanager
    def waiting(self) -> Iterator[tuple[Container, AttachedStreams]]:
        """A running container that exits with 3 when its stdin ends."""
        with (
            self.created(self.template(WAIT_FOR_THE_END)) as container,
            self.started(container, b"ready") as wire,
        ):
            yield container, wire

    def run(self, program: str, *arguments: str, **changes: Any) -> Ran:
        """One container from its creation to its removal."""
        return self.run_as(self.template(program, *arguments, **changes))

    def run_as(self, template: SandboxTemplate, stdin: bytes = b"") -> Ran:
        """Like `run`, for an unchanged template, with bytes to send."""
        with self.created(template) as container:
            with self.started(container) as wire:
                if stdin:
                    wire.send(stdin, PATIENCE)
                output = hear(wire)
            return Ran(container.wait(PATIENCE), bytes(output[STDOUT]), bytes(output[STDERR]))

    @cached_property
    def evidence(self) -> Evidence:
        """The measurements of one container; made once, because many checks need them.

        The worker gets its job whether or not the container would be accepted, so that an engine that isolates
        nothing fails each check separately.
        """
        job = {
            **full_job(self.engine.info().architecture),
            "workspace": {
                "text": str(self.workspace / "input.txt"),
                "covered": str(self.workspace / "covered"),
                "output": str(STAGING_TARGET / "made.txt"),
            },
            "bounds": {},
        }
        look = source("sandbox.isolation", "probe.py") + further() + FURTHER
        sent = delivered(worker_command(look))
        template = replace(self.template(""), command=sent.command, program=sent.program)
        ran = self.run_as(template, template.program + encode_job(job, PATIENCE))
        try:
            frames = list(FrameReader().feed(ran.stdout))
        except ProtocolBreach as breach:
            raise AssertionError(f"its worker spoke otherwise than asked: {breach}") from breach
        match [frame for frame in frames if isinstance(frame, Ready | Final)]:
            case [Ready(facts), Final(value)]:
                return Evidence(
                    template, facts, value.get("look") or {}, limits_by_node=self.engine.info().limits_by_node
                )
        raise AssertionError(f"the probe did not finish: {ran.state}, {ran.stderr[-300:]!r}")

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return judged((*ATTEMPTS.values(), CALLS, *SIGHT, *FACTS), self.evidence)

    def holds(self, *names: str) -> None:
        """Requires that rows hold: the rows with a name, or those of a kind (`mount` selects every row that begins
        with it).
        """
        for name in names:
            rows = [row for row in self.rows if name in (row.name, row.name.partition(" ")[0])]
            assert rows, f"nothing was found out about: {name}"
            assert all(row.ok for row in rows), failure_summary(rows)

    def ours(self) -> dict[str, dict[str, str]]:
        """The labels of this bench's containers that the engine knows."""
        containers = {leftover.container: dict(leftover.labels) for leftover in self.engine.leftovers()}
        return {
            container: labels for container, labels in containers.items() if labels.get(OWNER) == self.owner
        }


def hear(wire: AttachedStreams, *, until: bytes = b"") -> dict[int, bytearray]:
    """The output on both streams, to their end or until stdout contains `until`."""
    output = {STDOUT: bytearray(), STDERR: bytearray()}
    end = time.monotonic() + PATIENCE
    while (left := end - time.monotonic()) > 0:
        readable([wire], left)
        pieces = wire.receive()
        if pieces is None:
            return output
        for stream, data in pieces:
            output[stream] += data
        if until and until in output[STDOUT]:
            return output
    raise AssertionError(f"the streams did not end within {PATIENCE:.0f} s; heard {dict(output)}")
