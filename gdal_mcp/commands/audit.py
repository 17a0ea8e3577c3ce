"""`gdal-mcp audit`: verifies or shows the audit log."""

import json

from gdal_mcp.commands.exits import Exit
from gdal_mcp.commands.streams import out, say
from gdal_mcp.ledger.audit import tail, verify
from gdal_mcp.ledger.audit_record import Checkpoint
from gdal_mcp.settings import Settings, SettingsError


def check(settings: Settings, checkpoint: str | None) -> Exit:
    """Prints whether the chain is whole and holds the checkpoint. Raises SettingsError, AuditUnavailable."""
    try:
        kept = Checkpoint.parse(checkpoint) if checkpoint is not None else None
    except ValueError as error:
        raise SettingsError(f"--checkpoint: {error}") from error
    path = settings.state.audit
    found = verify(path, kept)
    where = f" at record {found.first_bad}" if found.first_bad else ""
    verdict = "OK" if found.ok else f"BROKEN{where}: {found.reason}"
    out(f"{path}: {found.records} records, {verdict}; ends at {found.last}")
    return Exit.DONE if found.ok else Exit.FAILED


def show_last(settings: Settings, count: int) -> Exit:
    """Prints the last records, one line of JSON each. Raises AuditUnavailable."""
    path = settings.state.audit
    if not path.exists():
        say(f"there is no log at {path}. Name the --state-dir of the server whose calls it should show.")
        return Exit.FAILED
    for record in tail(path, count):
        out(json.dumps({"seq": record.seq, "time": record.time, **record.event}))
    return Exit.DONE
