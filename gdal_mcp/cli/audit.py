"""`gdal-mcp audit`: verifies or shows the audit log."""

import json
from pathlib import Path

from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.streams import out, say
from gdal_mcp.records.audit import AuditLog, segments, tail
from gdal_mcp.records.audit_files import translate_errors
from gdal_mcp.records.audit_record import AuditRecord, Checkpoint
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.toolboxes.untrusted import shown_text


def check(settings: Settings, checkpoint: str | None) -> Exit:
    """Prints whether the chain is complete and contains the checkpoint. Raises SettingsError, AuditUnavailable."""
    try:
        expected = Checkpoint.parse(checkpoint) if checkpoint is not None else None
    except ValueError as error:
        raise SettingsError(f"--checkpoint: {error}") from error
    path = settings.state.audit
    if _is_missing(path):
        return _no_log(path)
    verification = verify(path, expected)
    where = f" at record {verification.first_bad}" if verification.first_bad else ""
    verdict = "OK" if verification.ok else f"BROKEN{where}: {verification.reason}"
    since = f" from number {verification.first} on" if verification.first > 1 else ""
    out(f"{path}: {verification.records} records{since}, {verdict}; ends at {verification.last}")
    return Exit.DONE if verification.ok else Exit.FAILED


def rotate(settings: Settings) -> Exit:
    """Closes the current log file and continues in a new one. Servers may be running. Raises AuditUnavailable."""
    closed = AuditLog(settings.state.audit).rotate({"program": "gdal-mcp audit rotate"})
    out(f"{closed} is closed. Move it to an archive; `gdal-mcp audit verify` checks the files that are here.")
    return Exit.DONE


def show_last(settings: Settings, count: int, *, as_json: bool) -> Exit:
    """Prints the last records, one line each, as text or JSON. Raises AuditUnavailable."""
    path = settings.state.audit
    if _is_missing(path):
        return _no_log(path)
    for record in tail(path, count):
        text = json.dumps({"seq": record.seq, "time": record.time, **record.event})
        out(text if as_json else _line(record))
    return Exit.DONE


def _is_missing(path: Path) -> bool:
    with translate_errors(path):
        return not (path.exists() or segments(path))


def _no_log(path: Path) -> Exit:
    say(
        f"there is no log at {path}: it was removed, or the server has another folder. Name it with --state-dir."
    )
    return Exit.FAILED


def _line(record: AuditRecord) -> str:
    """One line of text: time, event, call, principal, outcome, and files written."""
    event = record.event
    outputs = event.get("object", {}).get("outputs", ()) if isinstance(event.get("object"), dict) else ()
    subject = event.get("subject")
    parts = (
        record.time,
        event.get("type"),
        event.get("outcome"),
        event.get("tool"),
        event.get("call"),
        subject.get("principal") if isinstance(subject, dict) else None,
        " ".join(map(str, outputs)),
        event.get("message"),
    )
    return "  ".join(shown_text(str(part), 200) for part in parts if part)
