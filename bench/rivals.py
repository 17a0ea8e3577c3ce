"""What calls are compared with: `docker run` of the same argv, and the plain process in the same root file system."""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.arena import Arena, NotMeasurable
from sandbox.engine import EngineInfo
from sandbox.engines.docker_spec import create_body
from sandbox.template import SandboxTemplate

# Runs each command that comes as a line of JSON and says how long it took: the clock is inside the container, so neither
# the engine nor its client is in the figure.
_LOOP = """
import json, subprocess, sys, time
for line in sys.stdin:
    job = json.loads(line)
    begun = time.perf_counter()
    done = subprocess.run(job["argv"], env=job["env"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    took = time.perf_counter() - begun
    said = done.stdout[-500:].decode("utf-8", "replace")
    print(json.dumps({"seconds": took, "code": done.returncode, "said": said}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Plain:
    """Starts plain processes inside one long-lived container without seccomp, limits or read-only mounts."""

    process: "subprocess.Popen[str]"

    def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> float:
        """The seconds from the start of the process to its end. Raises NotMeasurable when it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"argv": list(argv), "env": dict(environment)}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"code": "the container ended", "said": ""}')
        if answer["code"] != 0:
            raise NotMeasurable(f"{' '.join(argv)} ended with {answer['code']}: {answer['said']}")
        return float(answer["seconds"])


@contextmanager
def plain(arena: Arena, user: tuple[int, int], cpus: float) -> Iterator[Plain]:
    """Plain processes on the same CPUs as a call gets."""
    flags = ["--interactive", "--network", "none", "--security-opt", "seccomp=unconfined", f"--cpus={cpus:g}"]
    flags += ["--user", f"{user[0]}:{user[1]}", *_own_place(arena.workspace), *_own_place(arena.scratch)]
    words = [
        arena.program,
        "run",
        "--rm",
        *flags,
        "--entrypoint",
        "python3",
        arena.image.id,
        "-I",
        "-c",
        _LOOP,
    ]
    with subprocess.Popen(
        words, env=arena.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Plain(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _own_place(folder: Path) -> tuple[str, str]:
    return "--volume", f"{folder}:{folder}"


def usual_flags(arena: Arena) -> tuple[str, ...]:
    """What a careful person types: the folders mounted, their own user. Without network where the engine has none to give."""
    flags = (*_own_place(arena.workspace), *_own_place(arena.scratch))
    try:
        arena.run_program("run", "--rm", "--entrypoint", "true", arena.image.id)
    except NotMeasurable:
        return ("--network", "none", *flags)
    return flags


@contextmanager
def hardened_flags(template: SandboxTemplate, info: EngineInfo) -> Iterator[tuple[str, ...]]:
    """The create body of a call as flags, as far as the client can say it: not the masked paths, not the missing loopback."""
    body = create_body(template, info, {})
    host = body["HostConfig"]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
        profile.write(host["SecurityOpt"][1].partition("=")[2])
        profile.flush()
        options: list[tuple[str, Any]] = [
            *(("env", f"{name}={value}") for name, value in template.environment.items()),
            *(("tmpfs", f"{place}:{how}") for place, how in host["Tmpfs"].items()),
            *(("mount", _mount(row)) for row in host["Mounts"]),
            *(("ulimit", f"{row['Name']}={row['Soft']}:{row['Hard']}") for row in host["Ulimits"]),
            *(("user", body["User"]), ("workdir", body["WorkingDir"]), ("hostname", body["Hostname"])),
            *(("network", "none"), ("ipc", "none"), ("dns", "127.0.0.1"), ("cap-drop", "ALL")),
            *(("security-opt", host["SecurityOpt"][0]), ("security-opt", f"seccomp={profile.name}")),
            *(("memory", host["Memory"]), ("memory-swap", host["MemorySwap"])),
            *(("cpus", template.limits.cpus), ("pids-limit", host["PidsLimit"]), ("log-driver", "none")),
            *([("runtime", template.runtime)] if template.runtime else []),
        ]
        yield ("--read-only", "--no-healthcheck", *(f"--{name}={value}" for name, value in options))


def _mount(row: Mapping[str, Any]) -> str:
    options = ["type=bind", f"source={row['Source']}", f"target={row['Target']}", "bind-propagation=rprivate"]
    return ",".join([*options, *(["readonly"] if row["ReadOnly"] else [])])


def docker_run(arena: Arena, flags: Sequence[str], argv: Sequence[str]) -> None:
    """One `docker run --rm` of the argv, to its end. Raises NotMeasurable when it fails."""
    arena.run_program("run", "--rm", *flags, "--entrypoint", argv[0], arena.image.id, *argv[1:])
