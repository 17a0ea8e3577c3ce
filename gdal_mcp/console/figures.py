"""What administrators are told of the server: figures, the state of the audit log, and doctor's table. For threads."""

import time
from typing import Any, Final

from gdal_mcp.app import App
from gdal_mcp.ledger import figures as ledger
from gdal_mcp.ledger.audit import verify

_DAY: Final = 86_400.0  # seconds


def figures(app: App) -> dict[str, Any]:
    """Of the last day and of all that is kept. Raises RegistryUnavailable."""
    return {"since": "24h", **ledger.figures(app.registry.path, app.toolboxes.tools, time.time() - _DAY)}


def checkpoint(app: App) -> dict[str, Any]:
    """Where the audit log ends. Raises AuditUnavailable."""
    at = app.audit.checkpoint()
    return {"path": str(app.audit.path), "records": at.seq, "checkpoint": str(at)}


def verified(app: App) -> dict[str, Any]:
    """What a walk over the whole log finds. Raises AuditUnavailable."""
    found = verify(app.audit.path)
    return {
        "ok": found.ok,
        "records": found.records,
        "reason": found.reason,
        "first_bad": found.first_bad,
        "checkpoint": str(found.last),
    }


def examined(app: App) -> dict[str, Any]:
    from gdal_mcp.operations.examine import examine  # noqa: PLC0415 - where it is asked for

    return examine(app.settings).as_dict()
