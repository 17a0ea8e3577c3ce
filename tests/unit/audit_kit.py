"""What the tests of the audit log share: a log of a few records, and its files."""

from pathlib import Path

import pytest

from gdal_mcp.ledger.audit import AuditLog

COUNT = 7


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    """A log of COUNT records."""
    log = AuditLog(tmp_path / "state" / "audit.jsonl")
    for number in range(COUNT):
        log.append({"type": "call.finished", "outcome": "ok", "object": f"file-{number}.tif"})
    return log


def head_of(log: AuditLog) -> Path:
    return log.path.with_suffix(".head")


def lines_of(log: AuditLog) -> list[bytes]:
    return log.path.read_bytes().splitlines(keepends=True)
