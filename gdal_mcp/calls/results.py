"""The structured result of a call that ran. Pure.

Facts (numbers, GDAL's own enumerations, paths that the caller named) stand at the top level; every text that comes from
inside a file or from GDAL is under the one key `untrusted`, and a server in lockdown leaves that out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from gdal_mcp.calls.context import Done, Ran
from gdal_mcp.plan import Draft
from gdal_mcp.remote.places import label
from gdal_mcp.remote.record import SourceRead
from gdal_mcp.toolbox import Answer
from gdal_mcp.untrusted import UNTRUSTED
from sandbox.outputs.store import Published, PublishedFile
from sandbox.workspace import Located

_DIGEST = len("sha256:") + 12  # of an image, as engines shorten it
# of a container; waited for in other stages, or not at all
_OVERLAPPING = frozenset({"create", "start", "remove"})


class Receipt(BaseModel):
    call_id: str
    toolbox: str
    tool_version: str = Field(description="Version of the library that ran, such as GDAL's")
    image: str = Field(description="Image reference")
    image_digest: str
    stand_in: bool = Field(description="True when the image is a local stand-in for the official one")
    engine: str
    tier: str = Field(
        description="Isolation: `runc` is namespaces and our seccomp profile, `runsc` is gVisor"
    )
    pool: Literal["cold", "warm"]
    argv: list[str] = Field(description="The exact command, as run inside the container")
    mounts: list[str] = Field(description="What of the workspaces the container saw, at its own paths")
    network: Literal["none"] = Field("none", description="Of the container")
    remote: list[dict[str, Any]] = Field(
        default_factory=list, description="Hosts that the server read from for the container"
    )
    plan_digest: str
    limits: dict[str, float]
    seconds: dict[str, float] = Field(description="Duration of each stage in seconds")
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    approval: str = Field(description="How the call was allowed")

    def short(self) -> dict[str, Any]:
        """What every answer says; the call's record has it whole. Seconds are those of all stages together."""
        return {
            "call_id": self.call_id,
            "tool_version": self.tool_version,
            "image_digest": self.image_digest[:_DIGEST],
            **({"stand_in": True} if self.stand_in else {}),
            "engine": self.engine,
            "tier": self.tier,
            "pool": self.pool,
            "seconds": round(
                sum(self.seconds.get(name, 0) for name in self.seconds.keys() - _OVERLAPPING), 3
            ),
            "approval": self.approval,
            **({"network": self.network, "remote": self.remote} if self.remote else {}),
        }


def structured(ran: Ran, receipt: Receipt) -> dict[str, Any]:
    """The tool's own keys first, then what was written, then the texts, then the receipt."""
    planned, done = ran.planned, ran.done
    admitted, draft = planned.admitted, planned.plan.draft
    target = draft.output.target if draft.output else None
    uri, path = (target.uri, str(target)) if target else (None, None)
    answer = Answer(done.printed, done.parsed, uri, path, done.attached)
    present = draft.present or admitted.tool.present
    result: dict[str, Any] = dict(present(answer))
    texts = result.pop(UNTRUSTED, None)
    if done.return_code is not None:
        result["return_code"] = done.return_code
    if done.published is not None:
        result |= _written(draft, done, done.published)
        surface, arguments = admitted.entitlements.surface, planned.plan.arguments
        if rows := admitted.toolbox.next_calls(draft, arguments, result["outputs"], surface):
            result["next"] = rows
        for row in result["outputs"]:
            for check in row["checks"]:
                if mend := admitted.toolbox.mend(draft, check, row):
                    check["mend"] = mend
            row["description"] = admitted.toolbox.shorten(row["description"])
    known = planned.context.preflight
    result |= known.facts
    written = result["outputs"] if done.published is not None else ()
    if checks := _checks(written, [one.as_dict() for one in known.findings], done):
        result["checks"] = checks
    # a draft that presents its answer itself gives the texts with it, or has none
    if draft.present is None or texts is not None:
        texts = _untrusted(done, texts) | dict(known.untrusted)
    if texts:
        result[UNTRUSTED] = texts
    result["receipt"] = receipt.short()
    return result


def _written(draft: Draft, done: Done, published: Published) -> dict[str, Any]:
    """Every output as it was re-opened in the container, and every file that was published, replaced or removed."""
    described = zip(draft.outputs, done.outputs, strict=False)
    facts: dict[str, Any] = {
        "outputs": [
            {
                "path": str(output.target),
                "description": dict(one.facts),
                "checks": [dict(check) for check in one.checks],
            }
            for output, one in described
        ],
    }
    if {file.located.path for file in published.files} != {one.target.path for one in draft.outputs}:
        # their digests are in the call's record
        facts["files"] = [
            {key: value for key, value in file_row(file).items() if key != "sha256"}
            for file in published.files
        ]
    if published.replaced:
        facts["replaced"] = [_replaced(one, draft, done, published) for one in published.replaced]
    if published.moved:
        facts["moved"] = [{"from": str(one.source), "to": str(one.target)} for one in published.moved]
    if published.removed:
        facts["removed"] = [str(one) for one in published.removed]
    return facts


def _checks(
    outputs: Sequence[dict[str, Any]], findings: list[dict[str, Any]], done: Done
) -> list[dict[str, Any]]:
    """Those of the call. Each code is told once: as it was foretold, else by the output, else as the library said it."""
    foretold = {one["code"] for one in findings}
    for row in outputs:
        row["checks"] = [one for one in row["checks"] if one["code"] not in foretold]
    seen = foretold | {one["code"] for row in outputs for one in row["checks"]}
    return [*findings, *(dict(one) for one in done.checks if one["code"] not in seen)]


def _replaced(old: Located, draft: Draft, done: Done, published: Published) -> dict[str, Any]:
    """A file that gave way, with what it held and what the new one holds, as far as that is known."""
    row: dict[str, Any] = {"path": str(old)}
    before: dict[str, Any] = {"bytes": old.identity.size} if old.identity else {}
    size = next((one.size for one in published.files if str(one.located) == str(old)), None)
    after: dict[str, Any] = {} if size is None else {"bytes": size}
    for output, found in zip(draft.outputs, done.outputs, strict=False):
        if str(output.target) == str(old) and found.before:
            before, after = {**before, **found.before}, {**after, **found.amounts}
    return {**row, **({"before": before} if before else {}), **({"after": after} if after else {})}


def _untrusted(done: Done, texts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The report or text as it was printed, or the texts that a tool made of it; names by output, and messages."""
    printed = {"report": done.parsed} if done.parsed is not None else {"text": done.printed}
    parts = {
        key: text for key, text in (printed if texts is None else texts).items() if text not in ("", None)
    }
    names = [dict(one.names) for one in done.outputs]
    if any(names):
        parts["names"] = names
    if done.messages:
        parts["messages"] = list(done.messages)
    if done.stderr:
        parts["stderr"] = done.stderr
    return parts


def file_row(file: PublishedFile) -> dict[str, Any]:
    """A published file or folder: bytes and digest as in `sandbox.outputs.store.PublishedFile`."""
    row = {"path": str(file.located), "bytes": file.size, "sha256": file.sha256}
    return {**row, "files": len(file.parts)} if file.located.is_folder else row


def place_row(located: Located) -> Mapping[str, Any]:
    return {"path": label(located), "bytes": located.identity.size if located.identity else None}


def remote_row(read: SourceRead) -> Mapping[str, Any]:
    """What was read over the network, as a material: parts of a file, so without a digest of it."""
    told = {"bytes": read.length, "modified": read.last_modified, "sha256": None, "reason": "read in parts"}
    return {"path": read.address, **told, "remote": read.as_dict()}
