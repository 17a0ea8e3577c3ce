"""Runs the probe in containers like those of calls, and judges its results by the rules of `sandbox.isolation`.

`attest` proves once per host, image and settings that containers are isolated as configured. Its container differs
from a job's in one point: /sys is visible, so that the limits in force can be read. `prove_folders` only proves that
the mounted folders are the server's own. `sandbox.escape` adds attempts to escape.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sandbox.engine import EngineInfo
from sandbox.errors import AttestationFailed
from sandbox.isolation.measured import FACTS, LIMITS_IN_FORCE, PROCESSES
from sandbox.isolation.probe_rules import CONFINED, FILES, KERNEL, QUICK, WRITABLE
from sandbox.isolation.rows import Evidence, ProbedFolder, Row, failure_summary, judged
from sandbox.mounted import is_share
from sandbox.outcome import Exited, SandboxResult
from sandbox.portable import mount_table
from sandbox.program import delivered, source, worker_command
from sandbox.runner import Job, Runner
from sandbox.template import STAGING_TARGET, SandboxTemplate
from sandbox.waiting import Cancellation

NONCE_FILE: Final = "attestation"


def attest(
    runner: Runner, template: SandboxTemplate, staging: Path | None, cancel: Cancellation
) -> tuple[Row, ...]:
    """Probes a container like `template`, with `staging` (a folder of its user) mounted for writing if given.

    Raises:
        AttestationFailed: a property is weaker than configured; the message names it.
        SandboxError: the container could not be created or did not answer.
    """
    with_limits = replace(template, cgroup_visible=True)
    # only this container shows control groups: on version 1 some engines mount them as a tmpfs that is writable for all
    extra: dict[str, Any] = {"attempts": {"folders": [*WRITABLE, "/sys/fs/cgroup"], "groups": [*QUICK]}}
    if runner.engine.info().limits_by_node:
        extra["processes"] = {"most": template.limits.pids}
    rules = (*FACTS, *LIMITS_IN_FORCE, PROCESSES, *FILES, CONFINED, KERNEL, *QUICK.values())
    writable = {STAGING_TARGET: staging} if staging is not None else {}
    rows = judged(rules, _evidence(runner, with_limits, writable, extra, cancel))
    if failing := failure_summary(rows):
        raise AttestationFailed(f"this host does not isolate as asked, so no call is run: {failing}")
    return rows


def prove_folders(
    runner: Runner, template: SandboxTemplate, writable: Mapping[PurePosixPath, Path], cancel: Cancellation
) -> tuple[Row, ...]:
    """Checks that the mounts of `template` are the folders that this process sees.

    `writable` has the paths of those mounted for writing. Returns the rows, which may include failures. Raises
    SandboxError if the container could not be created or did not answer.
    """
    return judged(FILES, _evidence(runner, template, writable, {}, cancel))


def with_probe(template: SandboxTemplate, further: str = "") -> SandboxTemplate:
    """The same container with the probe as its job. `further` is the text of additional sections."""
    sent = delivered(worker_command(source("sandbox.isolation", "probe.py") + further))
    return replace(template, command=sent.command, program=sent.program)


def fingerprint(package: Traversable | None = None) -> str:
    """SHA-256 of all files of a package, by default `sandbox`. A host is attested again when the code changes.

    All files count, because a list of those that matter for an attestation would have to be maintained.
    """
    digest = hashlib.sha256()
    for name, file in sorted(_files(package or resources.files("sandbox"))):
        data = file.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def _files(folder: Traversable, path: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _files(entry, name)
        elif not name.endswith(".pyc"):
            yield name, entry


def _evidence(
    runner: Runner,
    template: SandboxTemplate,
    writable: Mapping[PurePosixPath, Path],
    extra: Mapping[str, Any],
    cancel: Cancellation,
) -> Evidence:
    """Measures one container. A nonce is written to each writable folder, and the container must find it there."""
    nonces = {}
    for target, place in writable.items():
        nonces[str(target / NONCE_FILE)] = nonce = secrets.token_hex(16)
        (place / NONCE_FILE).write_text(nonce, encoding="ascii")
    folders, shares = {}, set()
    table = (
        mount_table()
    )  # None outside Linux, where device and inode numbers are not comparable with a container's
    for mount in (mount for mount in template.mounts if mount.read_only):
        inside, path = str(mount.target), mount.source.path
        # the same fields as `folder` in `sandbox/isolation/probe.py`
        status = Path(path).stat()
        names = sorted(os.listdir(os.fsencode(path)))  # noqa: PTH208 - in bytes, as names need not be text
        digest = hashlib.sha256(b"/".join(names)).hexdigest()
        folders[inside] = ProbedFolder(status.st_dev, status.st_ino, digest)
        if table and is_share(path, table):
            shares.add(inside)
    files = {"nonces": list(nonces), "folders": list(folders)}
    job = Job(f"attest-{secrets.token_hex(4)}", with_probe(template), {"files": files, **extra})
    result = runner.run(job, cancel)
    info = runner.engine.info()
    known = (nonces, folders, frozenset(shares), comparable_boot(info), info.security_options)
    return Evidence(template, result.facts, probe_report(result), *known, limits_by_node=info.limits_by_node)


def comparable_boot(info: EngineInfo) -> str:
    """The boot id if device and inode numbers are the same here and in a container; else ""."""
    return info.boot if info.same_kernel else ""


def probe_report(result: SandboxResult) -> Mapping[str, Any]:
    """The report of the probe. Raises AttestationFailed if the probe did not finish."""
    if not isinstance(result.outcome, Exited) or result.final is None:
        last_line = result.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300]
        raise AttestationFailed(
            f"the container that examines its isolation did not finish: {result.outcome}. Its last output: {last_line}"
        )
    look = result.final.get("look")
    return look if isinstance(look, Mapping) else {}
