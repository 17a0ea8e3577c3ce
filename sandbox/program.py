"""Sends a container's program through its stdin, before its job, so that the engine's record of the container stays
small.

An engine writes a container's command to disk at each step of the container's life and passes it from program to
program. With eighty kilobytes in the command, that takes an eighth of the container's life. So the command is a short
loader that reads the program, compares its SHA-256 with the one in the command, and runs it. The template still fixes
what runs.

A program is Python source texts and their arguments. An image's own interpreter can compile the texts once for all
later containers of that image. Only containers load what a container compiled.
"""

import hashlib
import marshal
import zlib
from functools import lru_cache
from importlib import resources
from typing import NamedTuple

from sandbox.protocol import LENGTH

EXIT_OTHER_PROGRAM = 74
# the digest comes from the interpreter itself: hashlib would load OpenSSL
_LOADER = f"""\
import marshal, os, sys, zlib
try: from _sha2 import sha256
except ImportError: from _sha256 import sha256
def take(count):
    data = b""
    while len(data) < count:
        piece = os.read(0, count - len(data))
        if not piece: os._exit(0)
        data += piece
    return data
data = take(int.from_bytes(take({LENGTH.size}), "big"))
if sha256(data).hexdigest() != sys.argv[1]: os._exit({EXIT_OTHER_PROGRAM})
program, *sys.argv[1:] = marshal.loads(zlib.decompress(data))
del data
exec(program)
"""
# `words` are a program's source and arguments; a part of a program is its name, a newline and its source. A part is
# unpacked when it is first used, because most jobs need few parts
COMPILE = """\
import marshal, zlib
def prepare(): pass
def packed(name, text):
    code = zlib.compress(marshal.dumps(compile(text, name, "exec")), 9)
    return compile(f"exec(__import__('marshal').loads(__import__('zlib').decompress({code!r})))", name, "exec")
def compiled(word):
    name, end, text = word.partition("\\n")
    if name.isidentifier() and end: return name, packed(name, text)
    return compile(word, "program.py", "exec") if end else word
def run(job, report):
    data = marshal.dumps([compiled(word) for word in job["words"]])
    report.attach("program", zlib.compress(data, 9))
    return {"code": 0}
"""


def worker_command(handler: str, *parts: str, idle_seconds: float = 120.0) -> tuple[str, ...]:
    """A container's command: our worker with a handler's source, both passed as text and never mounted.

    The worker exits when no job has come `idle_seconds` after it became ready. The handler finds `parts` in
    `sys.argv[3:]`. Linux limits each argument to 128 KiB.
    """
    return ("python3", "-I", "-c", source("sandbox", "worker.py"), repr(float(idle_seconds)), handler, *parts)


def source(package: str, name: str) -> str:
    """The text of a file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


class Delivery(NamedTuple):
    """The loader's command, and the program to send to its stdin."""

    command: tuple[str, ...]
    program: bytes


@lru_cache(maxsize=16)
def delivered(command: tuple[str, ...]) -> Delivery:
    """Moves the program of `python3 ... -c <text> <arguments>` to stdin. Raises ValueError for other commands."""
    # marshal format 2, which every supported interpreter reads
    return compiled(command, zlib.compress(marshal.dumps(program_args(command), 2), 9))


def program_args(command: tuple[str, ...]) -> list[str]:
    """The program of a command: the words after `-c`."""
    return list(command[command.index("-c") + 1 :])


def compiled(command: tuple[str, ...], program: bytes) -> Delivery:
    """The command and the program for stdin. `program` is compressed text, or an image's compiled program."""
    loader = (*command[: command.index("-c") + 1], _LOADER, hashlib.sha256(program).hexdigest())
    return Delivery(loader, LENGTH.pack(len(program)) + program)
