"""The files of the audit log that several tests share (the fixture `log`)."""

from pathlib import Path

from gdal_mcp.records.audit import AuditLog

COUNT = 7


def head_of(log: AuditLog) -> Path:
    return log.path.with_suffix(".head")


def lines_of(log: AuditLog) -> list[bytes]:
    return log.path.read_bytes().splitlines(keepends=True)
