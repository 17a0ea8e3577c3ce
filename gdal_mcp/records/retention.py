"""Applies the settings for how long records are kept: calls by age, and files of the audit log by size.

Nothing is removed unless the operator configures it. Nothing of the audit log is ever removed: its files are closed,
and an operator moves them to an archive.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from gdal_mcp.records.audit import AuditLog
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.registry import Registry, RegistryUnavailable
from gdal_mcp.settings import Settings

_DAY: Final = 86_400.0  # seconds
_PAUSE: Final = 3600.0  # seconds
_BATCH: Final = 500  # rows per transaction, because other writers wait for it

_log = structlog.get_logger()


@contextmanager
def apply_hourly(settings: Settings, registry: Registry, audit: AuditLog, server: str) -> Iterator[None]:
    """Applies the settings now and every hour, in a thread, while the body runs. Starts no thread if the settings
    require nothing.
    """
    if not (settings.keep_days or settings.audit_size):
        yield
        return
    ended = threading.Event()

    def work() -> None:
        while True:
            try:
                apply(settings, registry, audit, server)
            except (AuditUnavailable, RegistryUnavailable) as error:
                _log.warning("retention_failed", reason=str(error))
            if ended.wait(_PAUSE):
                return

    thread = threading.Thread(target=work, name="retention")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def apply(settings: Settings, registry: Registry, audit: AuditLog, server: str) -> None:
    """Removes records that are older than the settings allow, and closes an audit log that is too large.

    Both are recorded in the audit log first. Raises AuditUnavailable, RegistryUnavailable.
    """
    source = {"server": server}
    if settings.audit_size and audit.size() > settings.audit_size:
        _log.info("audit_rotated", segment=audit.rotate(source).name)
    if not settings.keep_days:
        return
    before = time.time() - settings.keep_days * _DAY
    while count := registry.prune(before, _BATCH):
        audit.append(
            {"type": "records.pruned", "outcome": "OK", "count": count, "before": before, "source": source}
        )
