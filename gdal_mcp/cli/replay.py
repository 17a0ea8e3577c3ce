"""`gdal-mcp replay`: repeats a recorded call and compares the results."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import anyio

from gdal_mcp.approvals.model import Terminal
from gdal_mcp.calls.operation import ORDINARY
from gdal_mcp.calls.pipeline import Reply, Request
from gdal_mcp.cli.exits import Exit, exit_of
from gdal_mcp.cli.streams import out_either
from gdal_mcp.errors import ToolError
from gdal_mcp.records.provenance import DIGEST_GRACE, Materials
from gdal_mcp.records.registry import Call
from gdal_mcp.server.app import App, local_user
from gdal_mcp.server.operations.replay import replay_of
from sandbox.errors import PathMissing, PathRefused

CLIENT = "gdal-mcp replay"
_REMOTE_STATE = ("length", "etag", "last_modified")
_ONCE = frozenset({"changed", "moved", "removed"})


def replay_call(app: App, call_id: str, *, as_json: bool) -> Exit:
    """Repeats a call without publishing, and prints whether its outputs are the same.

    Raises PathMissing for a call that is not known, PathRefused for one that cannot be made again, SandboxError when
    the engine is not ready.
    """
    call = _without_manifest(_repeatable(app, call_id))
    event = {
        "call": call.id,
        "subject": {"principal": local_user().id},
        "source": {"server": app.owner.id},
        "tool": call.tool,
    }
    app.audit.append({**event, "type": "replay.started", "outcome": "started"})
    report, error = _replayed(app, call)
    outcome = "OK" if report["same"] else str(error.code) if error else "DIFFERS"
    app.audit.append({**event, "type": "replay.finished", "outcome": outcome, "replay": report})
    out_either(report, _text(call.tool, report, error), as_json=as_json)
    return Exit.FAILED if error is None and not report["same"] else exit_of(error)


def _repeatable(app: App, call_id: str) -> Call:
    call = app.registry.call(call_id)
    if call is None:
        raise PathMissing(f"call {call_id[:64]!r} is not in {app.registry.path}. Name its --state-dir.")
    if call.outcome != "OK":
        raise PathRefused(
            f"call {call.id} ended with {call.outcome or 'nothing yet'}, so there is nothing to compare."
        )
    if any(row.get("kind") in _ONCE for row in call.outputs):
        raise PathRefused(
            f"call {call.id} changed, moved or removed existing files; that cannot be repeated."
        )
    if not call.printed:
        raise PathRefused(
            f"call {call.id} was recorded by an older version, without the data that replay needs."
        )
    return call


def _without_manifest(call: Call) -> Call:
    """A workflow's call without the record that it published: that record contains times, so it differs in every run."""
    manifest = call.arguments.get("manifest") if call.tool == "workflow_run" else None
    if not manifest:
        return call
    name = PurePosixPath(manifest).name
    arguments = {key: value for key, value in call.arguments.items() if key != "manifest"}
    outputs = tuple(row for row in call.outputs if PurePosixPath(row["path"]).name != name)
    files = tuple(row for row in call.files if PurePosixPath(row["path"]).name != name)
    return replace(call, arguments=arguments, outputs=outputs, files=files)


def _replayed(app: App, call: Call) -> tuple[dict[str, Any], ToolError | None]:
    """The result of a replay. `changed` lists differences from the record: what, was, is."""
    changed = list(_changes(app, call))
    ordinary = app.pipeline.operations.get(call.tool, ORDINARY)
    replay = replay_of(call, app.hosting, app.workspaces, ordinary)
    user = local_user()
    # running the command is the approval, because nothing is changed
    approver = Terminal(user.id, assume_yes=True, how=CLIENT)
    request = Request(call.tool, call.arguments, user, CLIENT, approver, operation=replay)
    reply: Reply = anyio.run(partial(app.pipeline.call, request))
    again = app.registry.call(reply.call_id)
    answer = {} if call.outputs else {"answer_same": again is not None and again.printed == call.printed}
    same = reply.error is None and all((*answer.values(), *(verdict.same for verdict in replay.verdicts)))
    report = {
        "call": call.id,
        "replayed_as": reply.call_id,
        "same": same,
        "changed": changed,
        "command_same": again is not None and again.argv == call.argv,
        "outputs": [verdict.as_dict() for verdict in replay.verdicts],
        **answer,
        **(reply.result if reply.error else {}),
    }
    return report, reply.error


def _changes(app: App, call: Call) -> Iterator[dict[str, Any]]:
    """Differences between what the call would use now and the record."""
    tool = app.surface.callable.get(call.tool)
    toolbox = app.surface.toolboxes[tool.name] if tool else app.toolboxes.items[0]
    host = app.hosting.ready(toolbox)
    pairs = (
        ("image", call.image, host.image.digest),
        ("tool_version", call.tool_version, host.image.version),
        ("catalogue", call.catalogue, toolbox.version),
    )
    for what, was, now in pairs:
        if was != now:
            yield {"what": what, "was": was, "is": now}
    for row in call.inputs:
        if "remote" in row:
            yield from _remote_change(app, row)
    before = {str(row["path"]): row for row in call.inputs if "remote" not in row}
    sources = []
    for path in (path for path, row in before.items() if not row.get("companion")):
        with suppress(PathRefused):
            located = app.workspaces.input(path)
            if str(located) == path:
                sources.append(located)
    watched = Materials(sources, app.settings.digest_size, toolbox.analysis.companions())
    after = {material.path: material.row() for material in watched.result(patience=DIGEST_GRACE * 60)}
    for path in dict.fromkeys((*before, *after)):
        old, new = (
            {key: row.get(key) for key in ("bytes", "modified", "sha256")} if row else None
            for row in (before.get(path), after.get(path))
        )
        # compared by digest if both have one, else by size and time
        keys = ["sha256"] if old and new and old["sha256"] and new["sha256"] else ["bytes", "modified"]
        if not (old and new) or any(old[key] != new[key] for key in keys):
            yield {"what": "input", "path": path, "was": old, "is": new}


def _remote_change(app: App, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a change of remote data that its server reports. The data is not read again."""
    was = {key: row["remote"].get(key) for key in _REMOTE_STATE}
    if not (was["etag"] or was["last_modified"]):
        return  # several files, or a server without ETag and Last-Modified: the results are compared anyway
    who, deadline = local_user().id, time.monotonic() + DIGEST_GRACE * 60
    try:
        address = app.pipeline.drafting.gateway.address(row["path"], who)
        opened = app.pipeline.drafting.gateway.open(
            [address], principal=who, call_id="replay", deadline=deadline
        )
        with closing(opened) as reading:
            reading.require_found()
            now = {key: getattr(record, key) for record in reading.record() for key in _REMOTE_STATE}
    except ToolError:
        now = {}
    if was != now:
        yield {"what": "remote", "path": row["path"], "was": was, "is": now or None}


def _text(tool: str, report: Mapping[str, Any], error: ToolError | None) -> str:
    lines = [f"call {report['call']} ({tool}) repeated as {report['replayed_as']}; nothing was published"]
    for row in report["changed"]:
        about = f"{row['what']} {row['path']!a}" if "path" in row else row["what"]
        lines.append(f"  changed since: {about}: was {row['was']!a}, is {row['is']!a}")
    if error is not None:
        return "\n".join([*lines, f"  failed: {error}"])
    if not report["command_same"]:
        lines.append("  changed since: the command that the arguments become")
    for row in report["outputs"]:
        why = f" ({row['reason']})" if "reason" in row else ""
        lines.append(f"  {row['verdict'].replace('_', ' ')}: {row['path']!a}{why}")
    if "answer_same" in report:
        lines.append(f"  {'same' if report['answer_same'] else 'differs'}: the answer")
    return "\n".join([*lines, "the same" if report["same"] else "NOT the same"])
