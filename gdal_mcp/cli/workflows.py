"""`gdal-mcp run` and `gdal-mcp workflow`: runs workflows from files, and writes workflows from recorded calls."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gdal_mcp.calls.workflows.checked import StepState
from gdal_mcp.calls.workflows.document import (
    Problem,
    WorkflowDocument,
    WorkflowInvalid,
    load,
    read_value,
)
from gdal_mcp.calls.workflows.from_calls import RecordedCall, workflow_of
from gdal_mcp.calls.workflows.junit import START, junit
from gdal_mcp.cli.calls import make_call
from gdal_mcp.cli.exits import Exit, exit_of, exit_of_code
from gdal_mcp.cli.report_files import require_replaceable, write_report
from gdal_mcp.cli.streams import out, out_json, say
from gdal_mcp.errors import Code, ToolError
from gdal_mcp.records.registry import Call
from gdal_mcp.server.app import App
from sandbox.errors import PathMissing


def run_workflow(  # noqa: PLR0913 - one for each option of the command
    app: App,
    file: Path,
    *,
    params: Sequence[str],
    check: bool,
    fresh: bool,
    manifest: str | None,
    report: Path | None,
    assume_yes: bool,
) -> Exit:
    """Runs, or only checks, the workflow in a file and prints the result as JSON.

    The exit code is that of the error, also of a wrong step that the check found, and USAGE if the document or a parameter is not valid.
    Raises SettingsError if the report would replace another file.
    """
    if report is not None:
        require_replaceable(report, START.encode(), "--junit")
    try:
        document = load(file.read_bytes())
        values = parameters_of(document, params)
    except OSError as error:
        say(f"{file} cannot be read: {error.strerror}")
        return Exit.USAGE
    except WorkflowInvalid as error:
        for problem in error.problems:
            say(f"{file}: {problem}")
        return Exit.USAGE
    arguments: dict[str, Any] = {
        "workflow": document.model_dump(mode="json", by_alias=True),
        "parameters": values,
    }
    if not check:
        arguments |= {"fresh": fresh, **({"manifest": manifest} if manifest else {})}
    tool = "workflow_check" if check else "workflow_run"
    reply = make_call(app, tool, arguments, "gdal-mcp run", assume_yes=assume_yes)
    out_json(reply.result)
    failure = reply.result.get("error")
    if report is not None:
        try:
            write_report(report, junit(document.name, reply.result.get("steps", ()), failure))
        except OSError as error:
            say(f"{report} cannot be written: {error.strerror or error}. Name another file.")
            return Exit.FAILED
    if check and reply.error is None:
        return _exit_of_check(reply.result["steps"])
    return Exit.USAGE if _is_usage(reply.error) else exit_of(reply.error)


def workflow_from_calls(app: App, call_ids: Sequence[str], *, name: str) -> Exit:
    """Prints a workflow that repeats recorded calls, as YAML. Raises PathMissing for an unknown call."""
    try:
        document = workflow_of([_recorded_call(app, call_id) for call_id in call_ids], name)
    except WorkflowInvalid as error:
        for problem in error.problems:
            say(str(problem))
        return Exit.USAGE
    value = document.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    out(
        yaml.safe_dump(
            {"workflow": document.workflow, **value}, sort_keys=False, allow_unicode=True, width=120
        ).rstrip()
    )
    return Exit.DONE


def parameters_of(document: WorkflowDocument, params: Sequence[str]) -> dict[str, Any]:
    """The values of `NAME=VALUE` texts, with the types of the document's parameters. Raises WorkflowInvalid."""
    values, problems = {}, []
    for text in params:
        name, equals, value = text.partition("=")
        declared = document.parameters.get(name)
        if not equals or declared is None:
            known = ", ".join(document.parameters) or "none"
            problems.append(Problem(f"--param {text!r}: write NAME=VALUE; the parameters are {known}"))
            continue
        try:
            values[name] = read_value(value, declared.type)
        except ValueError:
            problems.append(Problem(f"--param {text!r}: {value!r} is not a {declared.type}"))
    if problems:
        raise WorkflowInvalid(problems)
    return values


def _exit_of_check(steps: Iterable[Mapping[str, Any]]) -> Exit:
    """The exit code that a run would have: that of the first wrong step."""
    wrong = next((step["error"]["code"] for step in steps if step["state"] == StepState.WRONG), None)
    return Exit.DONE if wrong is None else exit_of_code(Code(wrong))


def _is_usage(error: ToolError | None) -> bool:
    return error is not None and (error.check or {}).get("code") == "workflow_invalid"


def _recorded_call(app: App, call_id: str) -> RecordedCall:
    call = app.registry.call(call_id)
    if call is None or call.outcome != "OK":
        why = "is not in the records" if call is None else f"ended with {call.outcome or 'nothing yet'}"
        raise PathMissing(f"call {call_id[:64]!r} {why}; name calls that succeeded.")
    return recorded_call(call)


def recorded_call(call: Call) -> RecordedCall:
    """The facts about a recorded call that a workflow needs."""
    reads = tuple(str(row["path"]) for row in call.inputs if not row.get("companion"))
    writes = tuple(
        str(row["path"])
        for row in call.outputs
        if row.get("kind") in ("dataset", "table", "array", "file", "folder")
    )
    return RecordedCall(call.id, call.tool, call.arguments, reads, writes)
