"""The question about a plan: its parts as data for the console, and as plain text for everything else. Pure.

The effects come before the parts that can be long, and every value is on one line, so that none can hide or forge
another.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from gdal_mcp.approvals.code import code_lines, describe_code
from gdal_mcp.approvals.model import Approval
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.invoked import cite
from gdal_mcp.plan import Draft, Plan
from gdal_mcp.records.audit_record import time_text
from gdal_mcp.remote.places import by_host, label, local
from gdal_mcp.toolboxes.untrusted import shown_text
from sandbox.workspace import WorkspacePath

MAX_LISTED: Final = 20  # paths of one kind that are shown
MAX_COMMAND: Final = 2000  # characters of the command that are shown


@dataclass(frozen=True, slots=True)
class Forecast:
    """The facts about a call before it runs."""

    estimate: Mapping[str, int | None] | None = None
    checks: Sequence[Mapping[str, Any]] = ()  # warnings about the call
    size_of: Callable[[WorkspacePath], int] = lambda _located: 0  # bytes of remote data, as far as known
    # descriptions of files that would be replaced or deleted
    kind_of: Callable[[WorkspacePath], str] = lambda _located: ""
    becomes: str = ""  # description of the first output
    client: str = ""  # name that the client gives itself


def parts(
    plan: Plan,
    reason: str,
    where: Mapping[str, object],
    forecast: Forecast = Forecast(),
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything that a person needs to decide, as JSON values. Sizes are bytes, times seconds since the epoch.

    `where` has the image, its digest, the isolation tier, and whether the image is a stand-in. `before` are the parts
    of the question that the same person approved last for this tool.
    """
    draft, last = plan.draft, before or {}
    code = last["code"]["text"] if last.get("code") else None
    return {
        "title": title(draft),
        "client": shown_text(forecast.client, 100),
        "sentence": sentence(plan, forecast.client),
        "reason": reason,
        "tool": plan.tool,
        "principal": plan.principal,
        "effect": str(plan.effect),
        "command": [shown_text(word, MAX_COMMAND) for word in draft.display_command[:200]],
        "steps": [
            {"id": name, "command": shown_text(command, MAX_COMMAND)} for name, command in draft.review.steps
        ],
        "code": describe_code(draft.review.code, code) if draft.review.code else None,
        **_effects(draft, forecast),
        "hidden": _hidden(plan.hidden, last.get("hidden")) if plan.hidden else None,
        "checks": [dict(check) for check in forecast.checks],
        "estimate": dict(forecast.estimate) if forecast.estimate else None,
        "time": draft.review.time,
        "limits": asdict(plan.limits),
        "where": {**where, "network": "none", "mounts": _list_mounts(plan)},
        "plan": plan.digest,
    }


def _effects(draft: Draft, forecast: Forecast) -> dict[str, Any]:
    """The files that the call would write, move, remove and read."""

    def list_files(places: Iterable[WorkspacePath]) -> dict[str, Any]:
        return _some([_existing_file(located, forecast) for located in places])

    writes = [
        {
            "path": _name(output.target),
            "changes": output.update,
            "becomes": shown_text(forecast.becomes, 200) if output is draft.output else "",
            "replaces": list_files(output.replaces),
            "may_replace": list_files(output.shared),
        }
        for output in draft.outputs
    ]
    moves = [
        {"from": _name(transfer.source), "to": _name(transfer.target)} for transfer in draft.files.transfers
    ]
    reads = [
        {"path": _name(located), "bytes": located.identity.size if located.identity else 0}
        for located in local(draft.inputs)
    ]
    remote = by_host(draft.inputs, forecast.size_of)
    return {
        "writes": _some(writes),
        "moves": _some(moves),
        "removes": list_files(draft.files.removes),
        "reads": _some(reads),
        "remote": [{**row, "reads": _some([shown_text(text) for text in row["reads"]])} for row in remote],
    }


def _existing_file(located: WorkspacePath, forecast: Forecast) -> dict[str, Any]:
    """An existing file that the call would change, replace or remove."""
    identity = located.identity
    return {
        "path": _name(located),
        "bytes": identity.size if identity else None,
        "modified": identity.modified if identity else None,
        "kind": shown_text(forecast.kind_of(located), 100),
    }


def _list_mounts(plan: Plan) -> list[str]:
    mounts = _some([shown_text(mount) for mount in plan.mounts])
    return [*mounts["shown"], *(line.strip() for line in _more(mounts))]


def _hidden(seal: str, last: Mapping[str, Any] | None) -> dict[str, str]:
    """The sentence on the parts of addresses that are never shown. `seal` identifies them without revealing them."""
    sentence = "Parts of these addresses, such as keys and signatures, are not shown. The approval covers them as they are."
    if last is not None:
        same = "the same as in" if last["seal"] == seal else "NOT the same as in"
        sentence += f" They are {same} the call of this tool that was approved last."
    return {"seal": seal, "told": sentence}


def title(draft: Draft) -> str:
    """The effect in a few words, losses first: `Delete zones.shp, 4 files`."""
    replaced = [old for output in draft.outputs for old in output.replaces]
    gone = {str(old) for old in replaced}
    new = [output.target for output in draft.outputs if str(output.target) not in gone]
    does = [
        (f"{verb} {shown_text(places[0].name or str(places[0]), 100)}", len(places))
        for verb, places in (
            ("delete", list(draft.files.removes)),
            ("replace", replaced),
            ("move", [transfer.source for transfer in draft.files.transfers]),
            ("write", new),
        )
        if places
    ]
    actions = [f"{what}, {count} files" if count > 1 else what for what, count in does]
    if draft.review.code:
        actions.append(f"run {len(draft.review.code.splitlines())} lines of code")
    text = " and ".join(actions) or f"read {_counted(list(draft.inputs))}"
    return f"{text[:1].upper()}{text[1:]}"


def sentence(plan: Plan, client: str = "") -> str:
    """One line that says who requests what.

    A call comes from an assistant: its client is named before the person whose permissions it has.
    """
    effect, principal = title(plan.draft), shown_text(plan.principal, 200)
    who = f"{shown_text(client, 100)}, for {principal}," if client else principal
    return f"{who} asks to {effect[:1].lower()}{effect[1:]}, with {plan.tool}."


def question_text(details: Mapping[str, Any]) -> str:
    lines = [f"Run {details['tool']}? Asked because {details['reason']}.", details["sentence"], ""]
    lines += _block(cite("Deletes (kept, `gdal-mcp undo` restores):"), details["removes"], _lost)
    lines += _block("Moves:", details["moves"], lambda move: f"{move['from']} -> {move['to']}")
    for output in details["writes"]["shown"]:
        verb = "Changes a copy of, then replaces" if output["changes"] else "Writes"
        lines += [
            f"{verb}:",
            f"  {output['path']}{f' ({becomes})' if (becomes := output['becomes']) else ''}",
        ]
        lines += _block("May replace, as it may belong to it:", output["may_replace"], _lost)
        replaced = _block(cite("Replaces (kept, `gdal-mcp undo` restores):"), output["replaces"], _lost)
        lines += replaced or ["Replaces nothing."]
    lines += _more(details["writes"])
    lines += _block("Reads:", details["reads"], lambda file: f"{file['path']} ({_size(file['bytes'])})")
    for source in details["remote"]:
        size = f", {_size(source['bytes'])} in all" if source["bytes"] else ""
        title = f"Reads over the network, by {source['read_by']}, from {shown_text(source['host'])}{size}:"
        lines += _block(title, source["reads"], str)
    lines += [details["hidden"]["told"]] if details["hidden"] else []
    lines += [_warning(check) for check in details["checks"]]
    if details.get("steps"):
        lines += ["Steps:"]
        rows = enumerate(details["steps"], 1)
        lines += [f"  {number}. {step['id']}: {step['command']}" for number, step in rows]
    if details["code"]:
        lines += code_lines(details["code"])
    if not details.get("steps"):
        lines += ["Command:", f"  {shown_text(shlex.join(details['command']), MAX_COMMAND)}"]
    if details["estimate"] and (count := details["estimate"]["output_bytes"]):
        lines.append(f"Expected output: about {_size(count)}, by a rough estimate.")
    lines += [details["time"]] if details.get("time") else []
    limits, where = details["limits"], details["where"]
    lines += [
        "The container can read, and cannot change:",
        *(f"  {mount}" for mount in where["mounts"]),
    ]
    what = "Each step" if details.get("steps") else "It"
    lines.append(
        f"{what} runs in its own container ({where['tier']}) without network, with {_size(limits['memory_bytes'])} of memory, "
        f"{limits['cpus']:g} CPUs and {limits['wall_seconds']:g} s at most, and is then destroyed."
    )
    return "\n".join(lines)


def _some(values: list[Any]) -> dict[str, Any]:
    """The first items, and the number of the others."""
    return {"shown": values[:MAX_LISTED], "more": max(0, len(values) - MAX_LISTED)}


def _block(title: str, some: Mapping[str, Any], line: Any) -> list[str]:
    if not some["shown"]:
        return []
    return [title, *(f"  {line(row)}" for row in some["shown"]), *_more(some)]


def _more(some: Mapping[str, Any]) -> list[str]:
    return [f"  and {some['more']} more"] if some["more"] else []


def _warning(check: Mapping[str, Any]) -> str:
    """A warning of the check. `step` is that of a workflow; its id has only lower-case letters, digits and _."""
    step = f" of step {check['step']}" if "step" in check else ""
    return f"Check {check['code']}{step}: {check['message']} {check['suggestion']}"


def _lost(file: Mapping[str, Any]) -> str:
    """A file that would be replaced or deleted: description, size, date."""
    at = f", {time_text(file['modified'])[:16].replace('T', ' ')} UTC" if file["modified"] is not None else ""
    size = _size(file["bytes"]) if file["bytes"] is not None else ""
    return f"{file['path']} ({', '.join(filter(None, (file['kind'], size)))}{at})"


def _counted(places: list[WorkspacePath]) -> str:
    names = [shown_text(located.name or str(located), 100) for located in places[:2]]
    more = len(places) - len(names)
    return " and ".join(names) + (f" and {more} more" if more > 0 else "")


def _name(located: WorkspacePath) -> str:
    return shown_text(label(located))


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def unanswered_error(plan: Plan, row: Approval, url: str | None, command: str) -> ToolError:
    """The error of a call that nobody approved in time: what to show the person, and that it can be sent again."""
    details = {
        "call_id": plan.call_id,
        "approval": row.id,
        "digest": plan.digest,
        "summary": row.summary,
        "ways": list(row.ways),
        "console": url,
        "command": command,
        "expires": row.expires,
    }
    return ToolError(
        Code.DENIED,
        Stage.APPROVAL,
        "the call is waiting for a person's approval.",
        "Show the person `requiresConfirmation`. After the approval, send the same call again.",
        confirmation=details,
    )


def workspaces_written(draft: Draft) -> tuple[str, ...]:
    """The workspaces that a draft writes to, as texts."""
    return tuple(sorted(str(root) for root in draft.touched))
