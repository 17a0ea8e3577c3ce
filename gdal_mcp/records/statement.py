"""The record of a call as users see it, and as a statement for other programs. Pure.

The statement has the shape of an in-toto statement with a provenance predicate of SLSA 0.2. It is not signed, and
states that its list of materials is not complete: a container may read its whole workspaces.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from gdal_mcp import __version__
from gdal_mcp.records.audit_record import time_text
from gdal_mcp.records.registry import Call

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v0.2"
CALLS: Final = "gdal://calls/"
# name of the digest of a folder, which `sandbox.outputs.store.PublishedFile` defines
FOLDER_DIGEST: Final = "sha256OfListing"


def record(call: Call, steps: Sequence[Call] = ()) -> dict[str, Any]:
    """Everything that is stored about a call, also a failed one. Times are RFC 3339 in UTC, sizes bytes.

    `steps` are the calls of its steps, if it is a workflow's.
    """
    return {
        "id": call.id,
        "tool": call.tool,
        "arguments": dict(call.arguments),
        "arguments_sha256": call.arguments_digest,
        "argv": list(call.argv),
        "image": call.image_reference,
        "image_digest": call.image,
        "tool_version": call.tool_version,
        "catalogue": call.catalogue,
        "tier": call.tier,
        "limits": dict(call.limits),
        "plan": call.plan_digest,
        "approval": call.approval,
        "started": time_text(call.started),
        "finished": time_text(call.finished) if call.finished is not None else None,
        # seconds by the host's clock
        "duration": round(call.finished - call.started, 3) if call.finished is not None else None,
        "outcome": call.outcome,
        "message": call.message,
        "seconds": dict(call.durations),
        "materials": [dict(row) for row in call.inputs],
        "outputs": [dict(row) for row in call.outputs],
        "files": [dict(row) for row in call.files],
        "removed": list(call.removed),
        "answer_sha256": call.printed or None,
        "receipt": dict(call.receipt),
        **({"part_of": call.part_of} if call.part_of else {}),
        **({"steps": [_step(step) for step in steps]} if steps else {}),
    }


def _step(call: Call) -> dict[str, Any]:
    return {"id": call.id, "tool": call.tool, "argv": list(call.argv), "outcome": call.outcome}


def statement(call: Call) -> dict[str, Any]:
    """The statement of a call: what it published as subjects, and how they were made.

    A call that published nothing has no subject.
    """
    materials: list[dict[str, Any]] = []
    if call.image:
        digest = {"sha256": call.image.removeprefix("sha256:")}
        materials.append({"uri": f"oci://{call.image_reference}", "digest": digest})
    for row in call.inputs:
        uri = f"file://{quote(str(row['path']), errors='backslashreplace')}"
        materials.append({"uri": uri, "digest": _digests(row)})
    return {
        "_type": STATEMENT,
        "subject": [{"name": str(row["path"]), "digest": _digests(row)} for row in call.files],
        "predicateType": PREDICATE,
        "predicate": {
            "builder": {"id": f"gdal://server/{__version__}"},
            "buildType": f"gdal://tools/{quote(call.tool, safe='')}",
            "invocation": {
                "configSource": {},
                "parameters": {
                    "tool": call.tool,
                    "arguments": dict(call.arguments),
                    "argv": list(call.argv),
                },
                "environment": {
                    "tool_version": call.tool_version,
                    "catalogue": call.catalogue,
                    "tier": call.tier,
                    "limits": dict(call.limits),
                    "approval": call.approval,
                    "plan": call.plan_digest,
                },
            },
            "metadata": {
                "buildInvocationId": f"{CALLS}{call.id}",
                "buildStartedOn": time_text(call.started),
                "buildFinishedOn": time_text(call.finished) if call.finished is not None else None,
                "completeness": {"parameters": True, "environment": True, "materials": False},
                "reproducible": False,
                "outcome": call.outcome,
            },
            "materials": materials,
        },
    }


def _digests(row: Mapping[str, Any]) -> dict[str, str]:
    """The digests of a material; empty if it has none.

    A folder's digest has a name of its own, because it is not a standard kind.
    """
    if row.get("sha256") is None:
        return {}
    is_folder = row.get("folder") or "files" in row
    return {FOLDER_DIGEST if is_folder else "sha256": str(row["sha256"])}
