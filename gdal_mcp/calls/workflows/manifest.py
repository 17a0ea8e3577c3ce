"""The state of a run, and its record: a file published with the outputs, and the rows of the answer. Pure except for
digests of inputs.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.calls.workflows.checked import CheckedStep, CheckedWorkflow
from gdal_mcp.calls.workflows.store import StepResult
from gdal_mcp.plan import Output
from gdal_mcp.records.provenance import Materials
from gdal_mcp.runtime.image import Image
from gdal_mcp.toolboxes.untrusted import UNTRUSTED

MANIFEST: Final = 1  # the version of the manifest


@dataclass
class Run:
    """The results of one run so far; stored with the draft of its call."""

    checked: CheckedWorkflow
    fresh: bool
    manifest: Output | None = None
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))
    results: dict[str, StepResult] = field(default_factory=dict)
    reused: set[str] = field(default_factory=set)
    cached: set[str] = field(default_factory=set)  # steps whose result a later run can use
    folder_lock: ExitStack = field(default_factory=ExitStack)  # marks the run's folder as used


def manifest(run: Run, call: Invocation, images: Mapping[str, Image]) -> dict[str, Any]:
    """The record of a run: inputs, steps and outputs, with their digests.

    `images` has the image of each toolbox that the steps use, by the toolbox's name. Paths are relative to their
    workspace, because the file may leave this machine.
    """
    workflow = run.checked.workflow
    roots = [f"{workspace.root}/" for workspace in call.entitlements.workspaces.items]
    return {
        "manifest": MANIFEST,
        "workflow": workflow.document.model_dump(mode="json", by_alias=True),
        "parameters": dict(workflow.values),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "call": call.call_id,
        "approval": call.authorization.text,
        "inputs": [
            {
                "path": _relative(str(located), roots),
                "sha256": Materials.digest(located) if located.identity else None,
            }
            for located in call.plan.draft.inputs
        ],
        "steps": [
            {**_manifest_step(step, run, roots), **_software(step, call, images)}
            for step in run.checked.steps
        ],
        "outputs": [
            {
                "path": _relative(str(publishing.output.target), roots),
                "step": publishing.source.step,
                "sha256": run.results[publishing.source.step].digests[publishing.source.number],
            }
            for publishing in run.checked.publishes
        ],
        "image": _image_row(call.host.image),
    }


def _image_row(image: Image) -> dict[str, str]:
    return {"reference": image.reference, "digest": image.digest, "version": image.version}


def _software(step: CheckedStep, call: Invocation, images: Mapping[str, Image]) -> dict[str, Any]:
    """The toolbox and the image of a step.

    They are also right for a reused result, because both are part of a step's key.
    """
    if step.toolbox not in images:
        return {}
    versions = {toolbox.name: toolbox.version for toolbox in call.entitlements.surface.toolboxes.values()}
    return {
        "toolbox": {"name": step.toolbox, "version": versions[step.toolbox]},
        "image": _image_row(images[step.toolbox]),
    }


def _relative(text: str, roots: Sequence[str]) -> str:
    for root in roots:
        text = text.replace(root, "")
    return text


def _manifest_step(step: CheckedStep, run: Run, roots: Sequence[str]) -> dict[str, Any]:
    result = run.results[step.id]
    return {
        "id": step.id,
        "tool": step.tool,
        "command": _relative(step.command, roots),
        "call": result.call,
        "key": step.key or None,
        "used_again": step.id in run.reused,
        "state": str(step.state),
        "checks": [dict(check) for check in (*step.checks, *result.checks)],
        "transformations": [dict(transformation) for transformation in result.transformations],
        "outputs": [dict(facts) for facts in result.facts],
    }


def step_rows(run: Run) -> dict[str, Any]:
    """The steps in the answer of `workflow_run`: the call of each, whether its result was reused, and the warnings about
    its result.
    """
    rows = [
        {
            "id": step.id,
            "call_id": run.results[step.id].call,
            **({"used_again": True} if step.id in run.reused else {}),
            **({"checks": [dict(row) for row in checks]} if (checks := run.results[step.id].checks) else {}),
        }
        for step in run.checked.steps
    ]
    return {"steps": rows, UNTRUSTED: {}}
