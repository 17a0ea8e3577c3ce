"""Runs `attempts.py` in one container exactly like a job's, and has what it found judged."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandbox.engine import EngineInfo
from sandbox.errors import AttestationFailed
from sandbox.isolation.rows import FOLDERS, Row, Tried, rows
from sandbox.outcome import Exited
from sandbox.program import delivered, source, worker_command
from sandbox.runner import Job, Runner
from sandbox.syscalls import NUMBERS
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

PACKAGE = "sandbox.isolation"
Inspect = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Escape:
    """What one container could not do; `ok` when nothing got out."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        return all(row.verdict != "failed" for row in self.rows)


def request(architecture: str) -> dict[str, Any]:
    """The job of `attempts.py` on a machine of that architecture, in the engine's word."""
    return {"numbers": dict(NUMBERS[architecture]), "folders": list(FOLDERS)}


def try_to_escape(
    runner: Runner, template: SandboxTemplate, inspect: Inspect, cancel: Cancellation
) -> Escape:
    """Tries the harmless ways out of a container like `template`, which mounts a staging folder for writing.

    Raises:
        AttestationFailed: the container is weaker than asked by its own measure, or did not answer.
        SandboxError: the container could not be made.
    """
    sent = delivered(worker_command(source(PACKAGE, "attempts.py"), source(PACKAGE, "looks.py")))
    trying = replace(template, command=sent.command, program=sent.program)
    info = runner.engine.info()
    slot = runner.launch(trying, "escape", cancel)
    try:
        inspected = inspect(slot.container)
    except BaseException:
        slot.remove()
        raise
    result = runner.serve(slot, Job("escape", trying, request(info.architecture)), cancel)
    if not isinstance(result.outcome, Exited) or result.final is None:
        raise AttestationFailed(f"the container that tries to get out did not finish: {result.outcome}")
    return judged(trying, result.final, inspected, info)


def judged(
    template: SandboxTemplate, answer: Mapping[str, Any], inspected: Mapping[str, Any], info: EngineInfo
) -> Escape:
    """The rows of one container's answer and inspection."""
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}  # noqa: PTH115, PTH208
    return Escape(rows(Tried(template, answer, inspected, info.security_options, own)))
