"""Runs one probe container on this host and compares all that can be measured with what is asked of every container.

It differs from a job's container in two points only: it sees /sys, so that the limits that are really in force can be
read, and its program is `sandbox/isolation/probe.py`.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from sandbox.errors import AttestationFailed
from sandbox.isolation.attest import Row, rows
from sandbox.labels import Moment
from sandbox.outcome import Exited
from sandbox.program import delivered, source, worker_command
from sandbox.runner import Job, Runner
from sandbox.template import STAGING_TARGET, SandboxTemplate
from sandbox.waiting import Cancellation

NONCE_FILE = "attestation"


@dataclass(frozen=True, slots=True)
class Attestation:
    """What one probe container measured; `ok` when every row is."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)


def attest(runner: Runner, template: SandboxTemplate, staging: Path, cancel: Cancellation) -> Attestation:
    """Probes a container like `template`, with `staging` (a host folder of its user's) mounted for writing.

    Raises:
        AttestationFailed: a row is not as asked; the message names it.
        SandboxError: the container could not be made or did not answer.
    """
    nonce = secrets.token_hex(16)
    folders = [str(mount.target) for mount in template.mounts if mount.read_only]
    (staging / NONCE_FILE).write_text(nonce, encoding="utf-8")
    sent = delivered(worker_command(source("sandbox.isolation", "probe.py")))
    probing = replace(template, cgroup_visible=True, command=sent.command, program=sent.program)
    request = {"files": [str(STAGING_TARGET / NONCE_FILE)], "folders": folders}
    result = runner.run(Job(f"attest-{nonce[:8]}", probing, request), cancel)
    if not isinstance(result.outcome, Exited) or result.final is None:
        raise AttestationFailed(f"the probe container did not finish: {result.outcome}")
    try:
        effects = tuple(_effects(probing, result.final, nonce))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AttestationFailed(f"the probe container gave an answer of another shape: {error!r}") from error
    found = Attestation((*rows(probing, result.facts), *effects))
    if failing := [row for row in found.rows if not row.ok]:
        said = "; ".join(f"{row.name}: asked {row.asked}, found {row.found}" for row in failing[:5])
        raise AttestationFailed(f"this host does not isolate as asked, so no call is run: {said}")
    return found


def _effects(template: SandboxTemplate, final: Mapping[str, Any], nonce: str) -> Iterator[Row]:
    """What the probe tried and read: effects, where the other rows are settings."""
    read = str(final["read"].get(str(STAGING_TARGET / NONCE_FILE)))
    yield Row(
        "staging is this host's folder",
        "its nonce",
        "its nonce" if read == nonce else read[:40],
        ok=read == nonce,
    )
    same_kernel = str(final["boot"]).strip() == _boot()
    for mount in template.mounts:
        if mount.read_only:
            there = Folder(*final["listed"].get(str(mount.target), (0, 0, "absent")))
            found = there.compared(Folder.at(mount.source.path), same_kernel=same_kernel)
            yield Row(f"{mount.target} is this host's folder", "the same", found, ok=found == "the same")
    for name, found in final["attempts"].items():
        yield Row(
            f"to {name}",
            "refused",
            found if found == "SUCCEEDED" else f"refused ({found})",
            ok=found != "SUCCEEDED",
        )


@dataclass(frozen=True, slots=True)
class Folder:
    """What tells a folder from another; `names` is the SHA-256 over all that it holds."""

    device: int
    inode: int
    names: str

    @classmethod
    def at(cls, path: str) -> Self:
        """As `listing` in `sandbox/isolation/probe.py`."""
        status = Path(path).stat()
        names = os.listdir(os.fsencode(path))  # noqa: PTH208 - in bytes, as names need not be text
        return cls(status.st_dev, status.st_ino, hashlib.sha256(b"/".join(sorted(names))).hexdigest())

    def compared(self, asked: Self, *, same_kernel: bool) -> str:
        """What is seen: `the same`, or what is there instead. Another kernel, as of a virtual machine, has numbers of its
        own: there the names tell, if there are any.
        """
        if same_kernel:
            same = (self.device, self.inode) == (asked.device, asked.inode)
        elif asked.names == _NO_NAMES:
            return "empty, so that it cannot be told from others; put a file into it"
        else:
            same = self.names == asked.names
        return "the same" if same else f"another ({self.names})"[:60]


_NO_NAMES: Final = hashlib.sha256().hexdigest()


def _boot() -> str:
    """Of this host's kernel."""
    return Moment.now().boot
