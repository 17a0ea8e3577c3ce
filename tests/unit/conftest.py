"""Fixtures that several unit tests share."""

from pathlib import Path

import pytest

from gdal_mcp.records.audit import AuditLog
from tests.unit.records.audit_kit import COUNT


@pytest.fixture
def root(workspace: Path) -> Path:
    """An empty folder for a workspace."""
    return workspace


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    """An audit log of COUNT records."""
    log = AuditLog(tmp_path / "state" / "audit.jsonl")
    for number in range(COUNT):
        log.append({"type": "call.finished", "outcome": "ok", "object": f"file-{number}.tif"})
    return log


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The backend of tests that are coroutines."""
    return "asyncio"
