"""The structured result of a call that ran. Pure.

Facts (numbers, GDAL's own enumerations, paths that the caller named) stand at the top level; every text that comes from
inside a file or from GDAL is under the one key `untrusted`, and a server in lockdown leaves that out.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gdal_mcp.calls.execution import Done
from gdal_mcp.gdal.answers.described import Described
from gdal_mcp.gdal.answers.next_steps import Step, next_steps
from gdal_mcp.gdal.catalogue.load import catalogue
from gdal_mcp.gdal.discovery.entries import tool_name
from gdal_mcp.gdal.preflight.checks import Finding
from gdal_mcp.plan import Draft, Plan
from gdal_mcp.tools.algorithm import may_write
from gdal_mcp.tools.model import Answer, Receipt, Tool
from sandbox.outputs.store import Published, PublishedFile
from sandbox.workspace import Located


@dataclass(frozen=True, slots=True)
class Ran:
    """A call that ran. `served` are the algorithms that the server has, `tools` its tools: no other is named as a next step."""

    tool: Tool
    plan: Plan
    done: Done
    receipt: Receipt
    findings: Sequence[Finding] = ()
    served: Container[str] = frozenset()
    tools: Container[str] = frozenset()


def structured(ran: Ran) -> dict[str, Any]:
    """The tool's own keys first, then what was written, then the texts, then the receipt."""
    draft, done = ran.plan.draft, ran.done
    target = draft.output.target if draft.output else None
    answer = Answer(
        done.printed, done.parsed, target.uri if target else None, str(target) if target else None
    )
    present = draft.present or ran.tool.present
    result: dict[str, Any] = dict(present(answer))
    if done.return_code is not None:
        result["return_code"] = done.return_code
    if done.published is not None:
        result |= _written(draft, done, done.published)
        inputs = [str(located) for name, located in draft.named or () if name == "input"]
        steps = next_steps(draft.algorithm, result["outputs"], inputs, ran.served)
        if rows := [row for step in steps if (row := _next(step, ran.tools))]:
            result["next"] = rows
    if ran.findings:
        result["warnings"] = [one.as_dict() for one in ran.findings]
    if draft.present is None and (untrusted := _untrusted(done)):
        result["untrusted"] = untrusted
    result["receipt"] = ran.receipt.model_dump(mode="json")
    return result


def _next(step: Step, tools: Container[str]) -> dict[str, Any] | None:
    """A next call as this server takes it: by the algorithm's own tool, else by the one that runs any algorithm."""
    arguments: dict[str, Any] = dict(step.arguments)
    tool = tool_name(step.algorithm)
    if tool not in tools:
        tool = "gdal_write" if may_write(catalogue().algorithms[step.algorithm]) else "gdal_read"
        arguments = {"algorithm": step.algorithm, "arguments": arguments}
    if tool not in tools:
        return None
    return {"tool": tool, "reason": step.reason, "arguments": arguments}


def _written(draft: Draft, done: Done, published: Published) -> dict[str, Any]:
    """Every output as it was re-opened in the container, and every file that was published, replaced or taken away."""
    described = zip(draft.outputs, done.outputs, strict=False)
    told: dict[str, Any] = {
        "outputs": [_output(output.target, one) for output, one in described],
        "files": [file_row(file) for file in published.files],
        "replaced": [str(one) for one in published.replaced],
    }
    if published.moved:
        told["moved"] = [{"from": str(one.source), "to": str(one.target)} for one in published.moved]
    if published.removed:
        told["removed"] = [str(one) for one in published.removed]
    return told


def _output(target: Located, described: Described) -> dict[str, Any]:
    return {
        "path": str(target),
        "uri": target.uri,
        "description": dict(described.facts),
        "checks": [dict(check) for check in described.checks],
    }


def _untrusted(done: Done) -> dict[str, Any]:
    """Only what there is: names in the data by output, GDAL's report or text, its messages."""
    parts: dict[str, Any] = {}
    if done.parsed is not None:
        parts["report"] = done.parsed
    elif done.printed:
        parts["text"] = done.printed
    names = [dict(one.names) for one in done.outputs]
    if any(names):
        parts["names"] = names
    if done.messages:
        parts["messages"] = list(done.messages)
    if done.stderr:
        parts["stderr"] = done.stderr
    return parts


def file_row(file: PublishedFile) -> dict[str, Any]:
    """A published file or folder: bytes and digest as in `sandbox.outputs.inspection.Sealed`."""
    row = {"path": str(file.located), "bytes": file.size, "sha256": file.sha256}
    return {**row, "files": len(file.parts)} if file.located.is_folder else row


def place_row(located: Located) -> Mapping[str, Any]:
    return {"path": str(located), "bytes": located.identity.size if located.identity else None}
