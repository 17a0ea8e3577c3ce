"""The program of a container goes in through its stdin, before its job, so that the container's own record stays small.

An engine writes the command of a container to its disk at every step of its life, and hands it from program to program:
eighty kilobytes there cost an eighth of that life. So the command is a few lines that read the program, compare its
SHA-256 with the one that the command names, and run it: what runs is still fixed by the template.
"""

import hashlib
import json
import zlib
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from sandbox.isolation.policy import rlimits
from sandbox.protocol import LENGTH
from sandbox.template import SandboxTemplate

EXIT_OTHER_PROGRAM = 74
# the digest comes from the interpreter itself: hashlib would load OpenSSL first
_LOADER = f"""\
import os, sys, zlib
try: from _sha2 import sha256
except ImportError: from _sha256 import sha256
def take(count):
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece: os._exit(0)
        data += piece
    return data
if sys.argv[2:]:
    import json, resource
    for name, value in json.loads(sys.argv[2]).items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (value, value))
data = take(int.from_bytes(take({LENGTH.size}), "big"))
if sha256(data).hexdigest() != sys.argv[1]: os._exit({EXIT_OTHER_PROGRAM})
program, *sys.argv[1:] = zlib.decompress(data).decode().split("\\0")
del data
exec(compile(program, "program.py", "exec"))
"""


def worker_command(handler: str, *parts: str, idle_seconds: float = 120.0) -> tuple[str, ...]:
    """The command of a container: our worker with a handler's source, both passed as text and never mounted.

    The worker ends by itself when no job came within `idle_seconds` of its being ready. The handler finds `parts` in its
    `sys.argv[3:]`. Linux takes no word of 128 KiB or more.
    """
    return ("python3", "-I", "-c", source("sandbox", "worker.py"), repr(float(idle_seconds)), handler, *parts)


def source(package: str, name: str) -> str:
    """The text of a file that comes with us."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


class Delivery(NamedTuple):
    """A command, and what its container is sent first."""

    command: tuple[str, ...]
    program: bytes


@lru_cache(maxsize=16)
def delivered(words: tuple[str, ...]) -> Delivery:
    """The same program as `python3 ... -c <text> <words>`, sent instead of named. Raises ValueError for other commands."""
    end = words.index("-c") + 1
    if any("\0" in word for word in words[end:]):
        raise ValueError("a program holds no NUL")
    data = zlib.compress("\0".join(words[end:]).encode(), 9)
    command = (*words[:end], _LOADER, hashlib.sha256(data).hexdigest())
    return Delivery(command, LENGTH.pack(len(data)) + data)


def with_rlimits(template: SandboxTemplate, engine_sets: Collection[str]) -> SandboxTemplate:
    """The same container, whose loader lowers the resource limits that its engine does not set, before anything else."""
    missing = {name: value for name, value in rlimits(template.limits).items() if name not in engine_sets}
    if not missing:
        return template
    return replace(template, command=(*template.command, json.dumps(missing)))
