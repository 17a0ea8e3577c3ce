"""Retention: the audit log continues as one chain over several files, and only records that are no longer needed are
removed.
"""

import os
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.approvals.model import Approval
from gdal_mcp.approvals.store import Approvals
from gdal_mcp.records import audit as module
from gdal_mcp.records.audit import AuditLog, segments
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.records.figures import figures
from gdal_mcp.records.registry import WAITING, Artifact, Call, Registry
from gdal_mcp.records.retention import apply
from gdal_mcp.settings import load_settings

DAY = 86_400.0


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    audit_log = AuditLog(tmp_path / "state" / "audit.jsonl")
    for number in range(5):
        audit_log.append({"type": "x", "number": number})
    return audit_log


def rotated(log: AuditLog, times: int = 2) -> tuple[Path, ...]:
    for number in range(times):
        log.rotate({"server": "s"})
        for record in range(3):
            log.append({"type": "y", "number": [number, record]})
    return segments(log.path)


@pytest.mark.claim("audit.tamper-evident")
def test_closed_and_open_files_form_one_chain(log: AuditLog):
    before = log.checkpoint()
    first, second = rotated(log)
    report = verify(log.path, before)
    assert (report.ok, report.first, report.records) == (True, 1, 5 + 2 * 4)
    assert report.last == log.checkpoint()
    assert (first.stat().st_mode & 0o777, log.path.stat().st_mode & 0o777) == (0o600, 0o600)
    # a changed byte of a closed file, a missing closed file, and two swapped files are noticed
    first_bytes = first.read_bytes()
    first.write_bytes(first_bytes.replace(b'"number":2', b'"number":3'))
    assert not verify(log.path).ok
    first.write_bytes(first_bytes)
    second_bytes = second.read_bytes()
    second.unlink()
    assert not verify(log.path).ok
    second.write_bytes(first_bytes)
    first.write_bytes(second_bytes)
    assert not verify(log.path).ok


def test_only_checkpoints_in_archived_files_count_as_missing(log: AuditLog, tmp_path: Path):
    end = log.checkpoint()
    before = module.tail(log.path, 3)[0].checkpoint
    first, second = rotated(log)
    archive = tmp_path / "archive"
    archive.mkdir()
    first.rename(archive / first.name)
    report = verify(log.path)
    assert (report.ok, report.first, report.records) == (True, 6, 2 * 4)
    assert not verify(log.path, before).ok
    assert verify(log.path, end).ok  # the next record contains its hash
    second.rename(archive / second.name)
    assert verify(log.path).ok
    for file in archive.iterdir():
        file.rename(log.path.with_name(file.name))
    assert verify(log.path, before).ok
    assert log.append({"type": "z"}).seq == 14


@pytest.mark.claim("audit.tamper-evident")
def test_truncated_beginning_is_not_a_rotation(log: AuditLog):
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(lines[2:]))
    assert not verify(log.path).ok


@pytest.mark.claim("audit.survives")
@pytest.mark.parametrize("at", ["link", "replace_file", "write_head"])
def test_crash_during_rotation_loses_nothing(log: AuditLog, monkeypatch: pytest.MonkeyPatch, at: str):
    class Crash(BaseException):
        pass

    def crash(*_arguments: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(*((os, at) if at == "link" else (module, at)), crash)
        with pytest.raises(Crash):
            log.rotate({"server": "s"})
    seq = log.append({"type": "after"}).seq
    report = verify(log.path)
    assert (report.ok, report.last.seq, report.records) == (True, seq, seq)
    rotated(log, 1)
    assert verify(log.path).ok


def test_an_empty_log_is_not_rotated(tmp_path: Path):
    with pytest.raises(AuditUnavailable):
        AuditLog(tmp_path / "audit.jsonl").rotate({})


def test_old_records_without_outputs_are_removed_keeping_figures(tmp_path: Path):
    settings = load_settings(state_dir=tmp_path / "state", keep_days=30, audit_size="1MiB")
    now = [time.time() - 40 * DAY]
    log = AuditLog(settings.state.audit)
    with closing(Registry(settings.state.registry, lambda: now[0])) as registry:

        def call(name: str, outcome: str = "OK", *paths: str) -> None:
            started = registry.begin_call(Call(name, "ann", "info", {}))
            registry.finish_call(replace(started, outcome=outcome, durations={"run": 1.0}))
            registry.add_artifacts(
                name, [Artifact(f"file://{path}", path, path, 1, "image/tiff", "00") for path in paths]
            )

        call("old")
        call("replaced", "OK", "/a.tif")
        call("listed", "OK", "/a.tif")
        call("waits", WAITING)
        registry.begin_call(Call("runs", "ann", "info", {}))
        with closing(Approvals(settings.state.registry, lambda: now[0])) as approvals:
            over, open_ = (
                approvals.request(
                    Approval(plan_digest=name, principal="ann", tool="convert", summary="?"), seconds
                ).id
                for name, seconds in (("a", 60.0), ("b", 100 * DAY))
            )
        now[0] = time.time()
        call("new")
        before = figures(registry, {"info"}, 0.0)
        for _ in range(2):
            apply(settings, registry, log, "s")
        there = {row.id for row in registry.search().items}
        assert there == {"listed", "waits", "runs", "new"}
        assert figures(registry, {"info"}, 0.0)["total"] == before["total"]
        with closing(Approvals(settings.state.registry)) as approvals:
            approvals.decided()  # expired records are marked, and removed the next time
            registry.prune(time.time() - 30 * DAY)
            assert approvals.get(over) is None
            assert approvals.get(open_) is not None
        assert [artifact.call_id for artifact in registry.artifacts().items] == ["listed"]
        pruned = [record for record in module.tail(log.path, 9) if record.event["type"] == "records.pruned"]
        assert [record.event["count"] for record in pruned] == [2]


def test_oversized_log_continues_in_a_new_file(tmp_path: Path):
    settings = load_settings(state_dir=tmp_path / "state", audit_size=2000)
    log = AuditLog(settings.state.audit)
    with closing(Registry(settings.state.registry)) as registry:
        for number in range(40):
            log.append({"type": "x", "number": number})
            apply(settings, registry, log, "s")
    assert len(segments(log.path)) > 2
    assert max(file.stat().st_size for file in segments(log.path)) < 3000
    assert verify(log.path).ok
