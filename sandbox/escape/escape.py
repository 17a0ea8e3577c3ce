"""Tries every harmless way out of a container like a job's, and judges the findings."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sandbox.attestation import probe_report, with_probe
from sandbox.escape.cis import benchmark
from sandbox.escape.rules import ATTEMPTS, CALLS, SIGHT
from sandbox.escape.syscalls import NUMBERS
from sandbox.isolation.measured import FACTS
from sandbox.isolation.probe_rules import WRITABLE
from sandbox.isolation.rows import Evidence, Row, Rule, judged
from sandbox.program import source
from sandbox.runner import Job, Runner
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation


def further() -> str:
    """The text of the probe's additional sections."""
    return source("sandbox.escape", "probe.py")


def try_to_escape(
    runner: Runner, template: SandboxTemplate, attested: Iterable[Row], cancel: Cancellation
) -> tuple[Row, ...]:
    """Tries the harmless ways out of a container like `template`, which mounts a writable staging folder.

    Returns rows; a failed row says what was possible. `attested` are the rows of this host's attestation, which has
    measured the limits in force.

    Raises:
        AttestationFailed: the container is weaker than requested by its own measurements, or did not answer.
        SandboxError: the container could not be created.
    """
    info, trying = runner.engine.info(), with_probe(template, further())
    slot = runner.launch(trying, "escape", cancel)
    result = runner.serve(slot, Job("escape", trying, full_job(info.architecture)), cancel)
    evidence = Evidence(
        template,
        result.facts,
        probe_report(result),
        security_options=info.security_options,
        namespaces={link.name: str(link.readlink()) for link in Path("/proc/self/ns").glob("*")},
        limits_by_node=info.limits_by_node,
        gone=slot.container.state() is None,
    )
    return escape_rows(evidence, attested)


def escape_rows(evidence: Evidence, attested: Iterable[Row] = ()) -> tuple[Row, ...]:
    """All rows of the escape test: measurements, findings and attempts of one container, limits, and the benchmark."""
    rules: tuple[Rule, ...] = (*ATTEMPTS.values(), CALLS, *SIGHT, *FACTS)
    rows = (*judged(rules, evidence), *(row for row in attested if row.group == "limits"))
    return (*rows, *benchmark(rows))


def full_job(architecture: str) -> dict[str, Any]:
    """The probe's job with all sections and attempts. `architecture` is the engine's name for it."""
    return {
        "sight": {"folders": list(WRITABLE)},
        "calls": {"numbers": dict(NUMBERS[architecture])},
        "attempts": {"folders": list(WRITABLE)},
    }
