"""The structured result of a call that ran. Pure.

Facts (numbers, GDAL's own enumerations, paths that the caller named) are at the top level. Every text from inside a
file or from GDAL is under the one key `untrusted`, which a server in lockdown leaves out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gdal_mcp.calls.activity import ChangedCall
from gdal_mcp.calls.invocation import Invocation, JobResult
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import CallAnswer
from gdal_mcp.toolboxes.untrusted import UNTRUSTED
from sandbox.outcome import Usage
from sandbox.outputs.store import Published, PublishedFile
from sandbox.workspace import WorkspacePath

_DIGEST = len("sha256:") + 12  # characters of an image id, as engines shorten it
# stages of a container that the answer does not wait for, or whose time is part of other stages
_OVERLAPPING = frozenset({"create", "start", "remove"})


def receipt(call: Invocation, done: JobResult, settings: Settings) -> dict[str, Any]:
    """The receipt of a call, as its record stores it: what ran, where, and within which limits.

    `argv` is the exact command inside the container, and `mounts` are the parts of the workspaces that it saw.
    `network` is the container's; `remote` lists the hosts from which the server read data for it. `settings` are the
    library's settings that can change an answer: those of the container, and those that its worker changed for this
    job.
    """
    plan, host, toolbox = call.plan, call.host, call.toolbox
    environment = toolbox.execution.environment(plan.limits, host.image.digest)
    return {
        "call_id": call.call_id,
        "toolbox": toolbox.name,
        "tool_version": done.tool_version or host.image.version,
        "image": host.image.reference,
        "image_digest": host.image.digest,
        "stand_in": host.image.standin,
        "engine": f"{host.info.name} {host.info.version}",
        "tier": host.tier(settings),
        "argv": list(plan.draft.command.argv),
        "mounts": list(plan.mounts),
        "network": "none",
        "remote": list(call.outcome.hosts),
        "plan_digest": plan.digest,
        "limits": {name: float(value) for name, value in asdict(plan.limits).items()},
        "settings": {
            name: environment[name] for name in toolbox.execution.answer_settings if name in environment
        }
        | dict(done.settings),
        "approval": call.authorization.text,
        **cost(done.usage, call.durations),
    }


def cost(usage: Usage, durations: Mapping[str, float]) -> dict[str, Any]:
    """The resources of a call: seconds of each stage, CPU seconds, bytes."""
    own = {"create": usage.create_seconds, "start": usage.start_seconds, "remove": usage.remove_seconds}
    return {
        "pool": usage.pool,
        "seconds": {name: round(value, 4) for name, value in {**durations, **own}.items()},
        "cpu_seconds": usage.cpu_seconds,
        "peak_memory_bytes": usage.peak_memory_bytes,
    }


def _short(full: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a receipt in every answer. Its seconds are the sum of all stages."""
    seconds = sum(value for name, value in full["seconds"].items() if name not in _OVERLAPPING)
    return {
        "call_id": full["call_id"],
        "tool_version": full["tool_version"],
        "image_digest": full["image_digest"][:_DIGEST],
        **({"stand_in": True} if full["stand_in"] else {}),
        **{name: full[name] for name in ("engine", "tier", "pool")},
        "seconds": round(seconds, 3),
        "approval": full["approval"],
        **({name: full[name] for name in ("network", "remote")} if full["remote"] else {}),
    }


def structured(call: Invocation, done: JobResult) -> dict[str, Any]:
    """The result of a call: the tool's own keys first, then the outputs, the texts, and the receipt."""
    toolbox, draft = call.toolbox, call.plan.draft
    target = draft.output.target if draft.output else None
    uri, path = (target.uri, str(target)) if target else (None, None)
    answer = CallAnswer(done.printed, done.parsed, uri, path, done.attached)
    result: dict[str, Any] = dict((draft.printed.present or call.tool.present)(answer))
    texts = result.pop(UNTRUSTED, None)
    if done.return_code is not None:
        result["return_code"] = done.return_code
    if done.published is not None:
        result |= _written(draft, done, done.published)
        surface, arguments = call.entitlements.surface, call.plan.arguments
        if rows := toolbox.answering.next_calls(draft, arguments, result["outputs"], surface):
            result["next"] = rows
        for row in result["outputs"]:
            for check in row["checks"]:
                if suggested_call := toolbox.answering.suggested_call(draft, check, row):
                    check["suggested_call"] = suggested_call
            row["description"] = toolbox.answering.shorten(row["description"])
    known = call.preflight
    result |= known.facts
    written = result["outputs"] if done.published is not None else ()
    if checks := _checks(written, [finding.as_dict() for finding in known.findings], done):
        result["checks"] = checks
    # a draft that presents its own answer includes the texts, or has none
    if draft.printed.present is None or texts is not None:
        texts = _untrusted(done, texts) | dict(known.untrusted)
    if texts:
        result[UNTRUSTED] = texts
    result["receipt"] = _short(call.receipt)
    return result


def _written(draft: Draft, done: JobResult, published: Published) -> dict[str, Any]:
    """Every output as the container opened it again, and every file that was published, replaced or removed."""
    facts: dict[str, Any] = {
        "outputs": [
            {
                "path": str(output.target),
                "description": dict(described.facts),
                "checks": [dict(check) for check in described.checks],
            }
            for output, described in zip(draft.outputs, done.outputs, strict=False)
        ],
    }
    if {file.located.path for file in published.files} != {output.target.path for output in draft.outputs}:
        # the digests are in the call's record
        facts["files"] = [
            {key: value for key, value in file_row(file).items() if key != "sha256"}
            for file in published.files
        ]
    if published.replaced:
        facts["replaced"] = [_replaced(located, draft, done, published) for located in published.replaced]
    if published.moved:
        facts["moved"] = [
            {"from": str(transfer.source), "to": str(transfer.target)} for transfer in published.moved
        ]
    if published.removed:
        facts["removed"] = [str(located) for located in published.removed]
    return facts


def _checks(
    outputs: Sequence[dict[str, Any]], findings: list[dict[str, Any]], done: JobResult
) -> list[dict[str, Any]]:
    """The checks of the call, without repeats.

    A check of an output that repeats one from before the run is left out, and so is a check from the library's
    messages that repeats another one.
    """
    for row in outputs:
        row["checks"] = [check for check in row["checks"] if not _is_repeated(check, findings)]
    known = [*findings, *(check for row in outputs for check in row["checks"])]
    return [*findings, *(dict(check) for check in done.checks if not _is_repeated(check, known))]


def _is_repeated(check: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> bool:
    """True if a check repeats another one for the same place.

    A check without a place is about the call as a whole. Two checks with places of different kinds, such as an input
    and a layer, are different.
    """
    mine = _place(check)
    for other in known:
        theirs = _place(other)
        shared = mine.keys() & theirs.keys()
        is_same = not mine or not theirs or (shared and all(mine[key] <= theirs[key] for key in shared))
        if other["code"] == check["code"] and is_same:
            return True
    return False


def _place(check: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    """The numbers of the input, step, layer and band of a check, as far as it has them."""
    place = {key: frozenset({check[key]}) for key in ("step", "layer", "band") if key in check}
    inputs = check.get("inputs", [check["input"]] if "input" in check else [])
    return {**place, "input": frozenset(inputs)} if inputs else place


def _replaced(old: WorkspacePath, draft: Draft, done: JobResult, published: Published) -> dict[str, Any]:
    """A replaced file, with the amounts in it and in the new file, as far as they are known."""
    before: dict[str, Any] = {"bytes": old.identity.size} if old.identity else {}
    size = next((file.size for file in published.files if str(file.located) == str(old)), None)
    after: dict[str, Any] = {} if size is None else {"bytes": size}
    for output, described in zip(draft.outputs, done.outputs, strict=False):
        if str(output.target) == str(old) and described.before:
            before, after = {**before, **described.before}, {**after, **described.amounts}
    return {"path": str(old), **({"before": before} if before else {}), **({"after": after} if after else {})}


def _untrusted(done: JobResult, texts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The untrusted texts of a result: the printed report or text, names by output, and messages.

    `texts` are those that a tool made from the report, in its place.
    """
    printed = {"report": done.parsed} if done.parsed is not None else {"text": done.printed}
    parts = {
        key: text for key, text in (printed if texts is None else texts).items() if text not in ("", None)
    }
    names = [dict(described.names) for described in done.outputs]
    if any(names):
        parts["names"] = names
    if done.messages:
        parts["messages"] = list(done.messages)
    if done.stderr:
        parts["stderr"] = done.stderr
    return parts


def file_row(file: PublishedFile) -> dict[str, Any]:
    """A published file or folder, with bytes and digest as in `sandbox.outputs.store.PublishedFile`."""
    row = {"path": str(file.located), "bytes": file.size, "sha256": file.sha256}
    return {**row, "files": len(file.parts)} if file.located.is_folder else row


def changed_by(principal: str, call_id: str, done: JobResult | None) -> ChangedCall:
    """The files that a call changed, however it ended."""
    published = done.published if done else None
    if published is None:
        return ChangedCall(principal, call_id)
    moved = [located for transfer in published.moved for located in (transfer.source, transfer.target)]
    places = [*(file.located for file in published.files), *published.replaced, *published.removed, *moved]
    return ChangedCall(principal, call_id, tuple(dict.fromkeys(located.uri for located in places)))
