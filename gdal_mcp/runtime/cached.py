"""Caches facts about images and hosts in the state folder, for later processes.

Invariants:
* a cached value belongs to a key of everything it depends on; with another key, or damaged, it is made again;
* a failure to write the cache is ignored: the next process makes the value again.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from gdal_mcp.settings.state import put_private
from sandbox.isolation.rows import Row
from sandbox.program import COMPILE, Delivery, compiled, delivered, program_args, worker_command
from sandbox.runner import Job, Runner
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

# seconds for which later processes accept an attestation of an unchanged host
ATTESTATION_SECONDS: Final = 24 * 3600
_DIGEST: Final = 32  # bytes of SHA-256


def cached_attestation(
    path: Path, depends_on: Sequence[Any], prove: Callable[[], tuple[Row, ...]], *, fresh: bool
) -> tuple[Row, ...]:
    """The rows that `prove` returned for the same values within a day, else new ones. `fresh` ignores cached rows."""
    key = hashlib.sha256(json.dumps(depends_on, sort_keys=True, default=str).encode()).hexdigest()
    with suppress(OSError, ValueError, KeyError, TypeError):
        cached = json.loads(path.read_text(encoding="utf-8"))
        recent = cached["key"] == key and 0 <= time.time() - cached["time"] < ATTESTATION_SECONDS
        if recent and not fresh and (rows := tuple(Row(**row) for row in cached["rows"])):
            return rows
    proven = prove()
    text = json.dumps({"key": key, "time": time.time(), "rows": [asdict(row) for row in proven]})
    with suppress(OSError):
        put_private(path, text.encode())
    return proven


def compiled_program(
    runner: Runner, template: SandboxTemplate, command: tuple[str, ...], path: Path, cancel: Cancellation
) -> Delivery:
    """The program, compiled by the interpreter of the template's image once for all containers of this image.

    A container without mounts compiles it, and the compiled program never runs outside a container.
    """
    plain = delivered(command)
    key = hashlib.sha256(f"{template.image} {plain.command}".encode()).digest()
    with suppress(OSError):
        cached = path.read_bytes()
        known, digest, program = cached[:_DIGEST], cached[_DIGEST : 2 * _DIGEST], cached[2 * _DIGEST :]
        # a power cut may have left only half of the file
        if known == key and digest == hashlib.sha256(program).digest():
            return compiled(command, program)
    sent = delivered(worker_command(COMPILE))
    bare = replace(template, command=sent.command, program=sent.program, mounts=(), masks=())
    job = Job(f"compile-{runner.owner}", bare, {"words": program_args(command)})
    bytecode = runner.run(job, cancel).attachments.get("program")
    if not bytecode:  # the image cannot compile it, so its containers run the source text
        return plain
    with suppress(OSError):
        put_private(path, key + hashlib.sha256(bytecode).digest() + bytecode)
    return compiled(command, bytecode)
