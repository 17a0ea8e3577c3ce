import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.records import audit
from gdal_mcp.records.audit import RECOVERED, AuditLog, tail
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_record import write_line
from gdal_mcp.records.audit_verification import verify
from tests.security.faults import disks
from tests.unit.records.audit_kit import COUNT, head_of, lines_of


@pytest.mark.claim("audit.survives")
@pytest.mark.parametrize("length", [1, 40, -1])
def test_torn_last_line_is_cut_off_and_recorded(log: AuditLog, length: int) -> None:
    torn = write_line(log.checkpoint(), "now", {"type": "never acknowledged"})[:length]
    with log.path.open("ab") as file:
        file.write(torn)
    assert verify(log.path).first_bad == COUNT + 1
    log.append({"type": "after"})
    assert verify(log.path).ok
    recovered, after = tail(log.path, 2)
    assert recovered.event["type"] == RECOVERED
    assert recovered.event["torn_line"] == {"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
    assert after.event["type"] == "after"
    assert b"never acknowledged" not in log.path.read_bytes()


@pytest.mark.claim("audit.survives")
def test_an_acknowledged_record_that_was_torn_is_refused(log: AuditLog) -> None:
    log.path.write_bytes(log.path.read_bytes()[:-5])
    with pytest.raises(AuditUnavailable):
        log.append({})
    assert not verify(log.path).ok


class Crash(BaseException):
    """Ends the process at this point."""


def crash(*_: Any) -> None:
    raise Crash


def crash_after(real: Callable[..., Any]) -> Callable[..., None]:
    def then_crash(*arguments: Any) -> None:
        real(*arguments)
        raise Crash

    return then_crash


@pytest.mark.parametrize("step", ["ftruncate", "_write"])
def test_crash_during_torn_line_repair_keeps_its_record(log, monkeypatch, step):
    with log.path.open("ab") as file:
        file.write(b"torn")
    with monkeypatch.context() as patch:
        truncates = (os, "ftruncate", crash_after(os.ftruncate))
        patch.setattr(*(truncates if step == "ftruncate" else (audit, step, crash)))
        with pytest.raises(Crash):
            log.append({})
    log.append({"type": "after"})
    recovered = tail(log.path, 2)[0]
    assert recovered.event["torn_line"]["sha256"] == hashlib.sha256(b"torn").hexdigest()
    assert verify(log.path).ok
    log.append({"type": "later"})
    assert [record.event["type"] for record in tail(log.path, 2)] == ["after", "later"]


@pytest.mark.parametrize("step", ["fdatasync", "pwrite"])
def test_a_crash_before_the_head_follows_is_recorded(log, monkeypatch, step):
    with monkeypatch.context() as patch:
        patch.setattr(os, step, crash)
        with pytest.raises(Crash):
            log.append({"type": "last words"})
    assert not verify(log.path).ok
    log.append({"type": "after"})
    events = [record.event for record in tail(log.path, 3)]
    assert [event["type"] for event in events] == ["last words", RECOVERED, "after"]
    assert events[1]["head_behind"] == 1
    assert verify(log.path).ok


def test_head_restored_by_power_cut_is_recorded(log: AuditLog) -> None:
    old = head_of(log).read_bytes()
    for _ in range(5):
        log.append({})
    head_of(log).write_bytes(old)
    log.append({"type": "after"})
    assert tail(log.path, 2)[0].event["head_behind"] == 5
    assert verify(log.path).ok


def test_broken_chain_behind_old_head_is_refused(log: AuditLog) -> None:
    old = head_of(log).read_bytes()
    for _ in range(5):
        log.append({})
    lines = lines_of(log)
    del lines[COUNT + 1]
    log.path.write_bytes(b"".join(lines))
    head_of(log).write_bytes(old)
    with pytest.raises(AuditUnavailable):
        log.append({})


@pytest.mark.claim("audit.survives")
def test_killed_writers_leave_a_log_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    code = "import sys; from pathlib import Path; from gdal_mcp.records.audit import AuditLog\n"
    code += "log = AuditLog(Path(sys.argv[1]))\n"
    code += "while True: print(log.append({'x': 'y' * 3000}).seq, flush=True)"
    acknowledged = 0
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            for _ in range(20):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
    AuditLog(path)
    report = verify(path)
    assert report.ok
    assert report.records >= acknowledged


@pytest.mark.parametrize("step", ["write", "fdatasync", "pwrite"])
def test_failed_append_leaves_the_log_unchanged(log, monkeypatch, step):
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = log.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(AuditUnavailable):
            log.append({"type": "lost"})
    assert log.path.read_bytes() == before
    assert verify(log.path).ok
    log.append({"type": "after"})
    assert verify(log.path).records == COUNT + 1


def test_head_that_cannot_be_synced_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")

    def sync(file: int) -> None:
        if os.fstat(file).st_ino == head_of(log).stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", sync)
        with pytest.raises(AuditUnavailable):
            log.append({"type": "lost"})
    assert verify(log.path).ok
    log.append({"type": "first"})
    assert [record.event["type"] for record in tail(log.path, 5)] == ["first"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disks.small_disk(tmp_path / "small", 64 << 10) as folder:
        yield folder


def fill(log: AuditLog, size: int) -> int:
    """Appends until there is no room and returns the number of the last acknowledged record."""
    acknowledged = 0
    try:
        while True:
            acknowledged = log.append({"object": "x" * size}).seq
    except AuditUnavailable:
        return acknowledged


@pytest.mark.claim("audit.no-record-no-run")
@pytest.mark.parametrize("size", [1, 500, 3000, 20_000])
def test_full_disk_refuses_records_and_keeps_log_valid(small_disk: Path, size: int) -> None:
    log = AuditLog(small_disk / "audit.jsonl")
    acknowledged = fill(log, size)
    report = verify(log.path)
    assert (report.ok, report.records) == (True, acknowledged)
    with pytest.raises(AuditUnavailable):
        log.append({"object": "x" * size})
    assert verify(log.path).records == acknowledged
