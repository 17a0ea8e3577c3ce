import hashlib
import json
import random
from pathlib import Path

import pytest

from gdal_mcp.ledger.audit import RECOVERED, AuditLog, AuditUnavailable, Checkpoint, tail, verify
from gdal_mcp.ledger.audit_record import MAX_LINE, parse_line, write_line
from tests.unit.audit_kit import COUNT, head_of, lines_of, log

__all__ = ["log"]


@pytest.mark.claim("audit.tamper-evident")
def test_every_changed_byte_is_noticed(log: AuditLog) -> None:
    whole = log.path.read_bytes()
    chance = random.Random(4)  # the same bytes every time
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        log.path.write_bytes(changed)
        assert not verify(log.path).ok, f"byte {place}"
    log.path.write_bytes(whole)
    assert verify(log.path).ok


@pytest.mark.claim("audit.tamper-evident")
def test_every_removed_byte_is_noticed(log: AuditLog) -> None:
    whole = log.path.read_bytes()
    for place in range(len(whole)):
        log.path.write_bytes(whole[:place] + whole[place + 1 :])
        assert not verify(log.path).ok, f"byte {place}"


@pytest.mark.claim("audit.tamper-evident")
def test_every_cut_of_the_end_is_noticed(log: AuditLog) -> None:
    whole = log.path.read_bytes()
    for size in range(len(whole)):
        log.path.write_bytes(whole[:size])
        assert not verify(log.path).ok, f"first {size} bytes"


@pytest.mark.parametrize("line", range(COUNT))
def test_a_changed_line_is_named(log: AuditLog, line: int) -> None:
    lines = lines_of(log)
    lines[line] = lines[line].replace(b"file-", b"fire-")
    log.path.write_bytes(b"".join(lines))
    found = verify(log.path)
    assert not found.ok
    # The last line's change shows in the head only: no line follows that would hold its hash.
    assert found.first_bad == (line + 2 if line + 1 < COUNT else None)


@pytest.mark.parametrize("line", range(COUNT))
def test_a_deleted_line_is_named(log: AuditLog, line: int) -> None:
    lines = lines_of(log)
    del lines[line]
    log.path.write_bytes(b"".join(lines))
    found = verify(log.path)
    assert not found.ok
    assert found.first_bad == (line + 1 if line + 1 < COUNT else None)


@pytest.mark.claim("audit.tamper-evident")
@pytest.mark.parametrize("line", range(COUNT - 1))
def test_swapped_lines_are_named(log: AuditLog, line: int) -> None:
    lines = lines_of(log)
    lines[line], lines[line + 1] = lines[line + 1], lines[line]
    log.path.write_bytes(b"".join(lines))
    assert verify(log.path).first_bad == line + 1


@pytest.mark.claim("audit.tamper-evident")
def test_a_repeated_line_is_named(log: AuditLog) -> None:
    lines = lines_of(log)
    log.path.write_bytes(b"".join([*lines, lines[-1]]))
    assert verify(log.path).first_bad == COUNT + 1


GARBAGE = {
    "text": b"hello\n", "an empty line": b"\n", "zeros": b"\0" * 4096, "another shape": b'{"event":{}}\n',
    "not an object": b"[1,2]\n", "deep": b"[" * 100_000 + b"\n", "a huge number": b"9" * 10_000 + b"\n",
    "a huge line": b"x" * (3 * MAX_LINE) + b"\n", "no line end": b"x" * (3 * MAX_LINE),
    "a truth for a number": b'{"event":{},"previous":"' + b"0" * 64 + b'","seq":true,"time":""}\n',
}  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_at_the_end_is_named(log: AuditLog, garbage: bytes) -> None:
    with log.path.open("ab") as file:
        file.write(garbage)
    found = verify(log.path)
    assert (found.ok, found.first_bad, found.records) == (False, COUNT + 1, COUNT)


@pytest.mark.parametrize("garbage", [text for text in GARBAGE.values() if text.endswith(b"\n")])
def test_nothing_is_appended_after_a_line_that_is_no_record(log: AuditLog, garbage: bytes) -> None:
    with log.path.open("ab") as file:
        file.write(garbage)
    before = log.path.read_bytes()
    with pytest.raises(AuditUnavailable):
        log.append({"type": "after"})
    assert log.path.read_bytes() == before


def test_an_end_longer_than_any_record_is_not_taken_for_a_torn_line(log: AuditLog) -> None:
    with log.path.open("ab") as file:
        file.write(b"x" * (3 * MAX_LINE))
    before = log.path.read_bytes()
    with pytest.raises(AuditUnavailable):
        log.append({})
    with pytest.raises(AuditUnavailable):
        tail(log.path, 1)
    assert log.path.read_bytes() == before


def test_a_gap_in_the_numbers_is_noticed_though_log_and_head_agree(log: AuditLog) -> None:
    last = log.checkpoint()
    forged = write_line(Checkpoint(last.seq + 1, last.hash), "2026-01-01T00:00:00.000Z", {})
    head = {"seq": last.seq + 2, "hash": hashlib.sha256(forged).hexdigest(), "torn": None}
    with log.path.open("ab") as file:
        file.write(forged + b"\n")
    head_of(log).write_text(json.dumps(head))
    assert verify(log.path).first_bad == COUNT + 1


def test_a_line_with_a_field_of_another_kind_is_no_record() -> None:
    for name, value in [
        ("seq", True), ("seq", 1.0), ("seq", "1"), ("time", None), ("event", []), ("previous", "0" * 63),
        ("previous", 0),
    ]:  # fmt: skip
        fields = json.loads(write_line(Checkpoint(), "2026-01-01T00:00:00.000Z", {}))
        assert parse_line(json.dumps(fields).encode())
        assert parse_line(json.dumps(fields | {name: value}).encode()) is None
        assert parse_line(json.dumps(fields | {"more": 1}).encode()) is None


def test_a_record_forged_without_the_head_is_noticed_then_recorded(log: AuditLog) -> None:
    forged = write_line(log.checkpoint(), "2026-01-01T00:00:00.000Z", {"type": "forged"})
    with log.path.open("ab") as file:
        file.write(forged + b"\n")
    found = verify(log.path)
    assert (found.ok, found.first_bad, found.head_matches) == (False, None, False)
    log.append({"type": "after"})
    forged_record, recovered, _after = tail(log.path, 3)
    assert forged_record.event["type"] == "forged"
    assert (recovered.event["type"], recovered.event["head_behind"]) == (RECOVERED, 1)


def test_a_lost_end_is_noticed_and_nothing_is_appended(log: AuditLog) -> None:
    log.path.write_bytes(b"".join(lines_of(log)[:-1]))
    assert not verify(log.path).ok
    with pytest.raises(AuditUnavailable):
        log.append({"type": "after"})
    with pytest.raises(AuditUnavailable):
        AuditLog(log.path)
    assert len(lines_of(log)) == COUNT - 1


def test_an_emptied_log_is_noticed(log: AuditLog) -> None:
    log.path.write_bytes(b"")
    assert not verify(log.path).ok
    with pytest.raises(AuditUnavailable):
        log.append({})


@pytest.mark.parametrize(
    "content", [None, b"", b"{}", b"\xff" * 600, b'{"hash": "", "seq": 7, "torn": null}']
)
def test_a_lost_or_spoilt_head_is_noticed_and_nothing_is_appended(
    log: AuditLog, content: bytes | None
) -> None:
    head_of(log).unlink() if content is None else head_of(log).write_bytes(content)
    assert not verify(log.path).ok
    with pytest.raises(AuditUnavailable):
        log.append({"type": "after"})
    assert len(lines_of(log)) == COUNT


def test_a_head_of_another_chain_is_noticed(log: AuditLog, tmp_path: Path) -> None:
    other = AuditLog(tmp_path / "other.jsonl")
    for _ in range(3):
        other.append({"type": "other"})
    head_of(log).write_bytes(head_of(other).read_bytes())
    assert not verify(log.path).ok
    with pytest.raises(AuditUnavailable):
        log.append({})


@pytest.mark.claim("audit.tamper-evident")
def test_a_rewritten_log_is_caught_by_a_checkpoint_kept_elsewhere(log: AuditLog) -> None:
    kept = log.checkpoint()
    for path in log.path.parent.iterdir():
        path.unlink()
    rewritten = AuditLog(log.path)
    for _ in range(COUNT + 3):
        rewritten.append({"type": "innocent"})
    assert verify(log.path).ok, "log and head agree: this is what is not guaranteed"
    assert not verify(log.path, kept).ok


def test_a_checkpoint_kept_elsewhere_holds_while_the_log_grows(log: AuditLog) -> None:
    kept = Checkpoint.parse(str(log.checkpoint()))
    log.append({})
    assert verify(log.path, kept).ok
    assert not verify(log.path, Checkpoint(kept.seq, "0" * 64)).ok
    assert not verify(log.path, Checkpoint(kept.seq + 5, kept.hash)).ok


def test_a_text_that_is_no_checkpoint_is_refused() -> None:
    for text in ["", "7", ":", "7:abc", "-1:" + "0" * 64, "٣:" + "0" * 64, "7:" + "G" * 64]:
        with pytest.raises(ValueError):
            Checkpoint.parse(text)


def test_there_is_no_log_is_not_a_good_log(tmp_path: Path) -> None:
    assert not verify(tmp_path / "audit.jsonl").ok


def test_an_empty_log_is_a_good_log(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    assert verify(log.path).ok
    assert tail(log.path, 5) == ()
