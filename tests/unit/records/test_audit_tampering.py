import hashlib
import json
import random
from pathlib import Path

import pytest

from gdal_mcp.records.audit import RECOVERED, AuditLog, Checkpoint, tail
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_record import MAX_LINE, parse_line, write_line
from gdal_mcp.records.audit_verification import verify
from tests.unit.records.audit_kit import COUNT, head_of, lines_of

THEN = "2026-01-01T00:00:00.000Z"
GARBAGE = {
    "text": b"hello\n", "an empty line": b"\n", "zeros": b"\0" * 4096, "another shape": b'{"event":{}}\n',
    "not an object": b"[1,2]\n", "deep": b"[" * 100_000 + b"\n", "a huge number": b"9" * 10_000 + b"\n",
    "a huge line": b"x" * (3 * MAX_LINE) + b"\n", "no line end": b"x" * (3 * MAX_LINE),
    "a truth for a number": b'{"event":{},"previous":"' + b"0" * 64 + b'","seq":true,"time":""}\n',
}  # fmt: skip


def append(log: AuditLog, data: bytes) -> None:
    with log.path.open("ab") as file:
        file.write(data)


def refuses_to_go_on(log: AuditLog) -> bool:
    """True if nothing is appended and the log stays unchanged."""
    before = log.path.read_bytes()
    with pytest.raises(AuditUnavailable):
        log.append({"type": "after"})
    return log.path.read_bytes() == before


@pytest.mark.claim("audit.tamper-evident")
def test_every_changed_removed_or_truncated_byte_is_noticed(log: AuditLog) -> None:
    original = log.path.read_bytes()
    chance = random.Random(4)  # the same bytes every time
    for place in range(len(original)):
        flipped = bytes([original[place] ^ 1 << chance.randrange(8)])
        for changed in (
            original[:place] + flipped + original[place + 1 :],
            original[:place] + original[place + 1 :],
            original[:place],
        ):
            log.path.write_bytes(changed)
            assert not verify(log.path).ok, f"byte {place}"
    log.path.write_bytes(original)
    assert verify(log.path).ok


@pytest.mark.claim("audit.tamper-evident")
def test_first_line_that_breaks_the_chain_is_named(log: AuditLog) -> None:
    original = lines_of(log)

    def first_bad(lines: list[bytes]) -> int | None:
        log.path.write_bytes(b"".join(lines))
        report = verify(log.path)
        assert not report.ok
        return report.first_bad

    for line in range(COUNT):
        before, this, after = original[:line], original[line], original[line + 1 :]
        # a change of the last line shows only in the head: no line follows that contains its hash
        assert first_bad([*before, this.replace(b"file-", b"fire-"), *after]) == (line + 2 if after else None)
        assert first_bad([*before, *after]) == (line + 1 if after else None)
        if after:
            assert first_bad([*before, after[0], this, *after[1:]]) == line + 1
    assert first_bad([*original, original[-1]]) == COUNT + 1


def test_trailing_garbage_is_named_and_stops_appending(log: AuditLog) -> None:
    original = log.path.read_bytes()
    for what, garbage in GARBAGE.items():
        log.path.write_bytes(original + garbage)
        report = verify(log.path)
        assert (report.ok, report.first_bad, report.records) == (False, COUNT + 1, COUNT), what
        # without a line end, short garbage is what a crash leaves; no record is as long as this
        if garbage.endswith(b"\n") or len(garbage) > MAX_LINE:
            assert refuses_to_go_on(log), what
    log.path.write_bytes(original + GARBAGE["no line end"])
    with pytest.raises(AuditUnavailable):
        tail(log.path, 1)


def test_number_gap_is_noticed_though_log_matches_head(log: AuditLog) -> None:
    last = log.checkpoint()
    forged = write_line(Checkpoint(last.seq + 1, last.hash), THEN, {})
    append(log, forged + b"\n")
    head = {"seq": last.seq + 2, "hash": hashlib.sha256(forged).hexdigest(), "torn": None}
    head_of(log).write_text(json.dumps(head))
    assert verify(log.path).first_bad == COUNT + 1


def test_line_with_wrong_field_type_is_no_record() -> None:
    fields = json.loads(write_line(Checkpoint(), THEN, {}))
    assert parse_line(json.dumps(fields).encode())
    for name, value in [
        ("seq", True), ("seq", 1.0), ("seq", "1"), ("time", None), ("event", []), ("previous", "0" * 63),
        ("previous", 0), ("more", 1),
    ]:  # fmt: skip
        assert parse_line(json.dumps(fields | {name: value}).encode()) is None


def test_record_forged_without_head_is_noticed_then_recorded(log: AuditLog) -> None:
    append(log, write_line(log.checkpoint(), THEN, {"type": "forged"}) + b"\n")
    report = verify(log.path)
    assert (report.ok, report.first_bad) == (False, None)
    log.append({"type": "after"})
    forged, recovered, _after = tail(log.path, 3)
    assert forged.event["type"] == "forged"
    assert (recovered.event["type"], recovered.event["head_behind"]) == (RECOVERED, 1)


def lose_the_end(log: AuditLog) -> None:
    log.path.write_bytes(b"".join(lines_of(log)[:-1]))


def take_another_head(log: AuditLog) -> None:
    other = AuditLog(log.path.with_name("other.jsonl"))
    other.append({"type": "other"})
    head_of(log).write_bytes(head_of(other).read_bytes())


@pytest.mark.parametrize(
    "harm",
    [
        lose_the_end, take_another_head, lambda log: log.path.write_bytes(b""),
        lambda log: head_of(log).unlink(),
        *(lambda log, content=content: head_of(log).write_bytes(content)
          for content in (b"", b"{}", b"\xff" * 600, b'{"hash": "", "seq": 7, "torn": null}')),
    ],
)  # fmt: skip
def test_mismatched_log_and_head_are_noticed_without_appending(log, harm):
    harm(log)
    assert not verify(log.path).ok
    assert refuses_to_go_on(log)


@pytest.mark.claim("audit.tamper-evident")
def test_external_checkpoint_catches_a_rewritten_log(log: AuditLog) -> None:
    checkpoint = log.checkpoint()
    for path in log.path.parent.iterdir():
        path.unlink()
    rewritten = AuditLog(log.path)
    for _ in range(COUNT + 3):
        rewritten.append({"type": "innocent"})
    assert verify(log.path).ok, "log and head agree: this is what is not guaranteed"
    assert not verify(log.path, checkpoint).ok


def test_external_checkpoint_holds_while_the_log_grows(log: AuditLog) -> None:
    checkpoint = Checkpoint.parse(str(log.checkpoint()))
    log.append({})
    assert verify(log.path, checkpoint).ok
    assert not verify(log.path, Checkpoint(checkpoint.seq, "0" * 64)).ok
    assert not verify(log.path, Checkpoint(checkpoint.seq + 5, checkpoint.hash)).ok
    for text in ["", "7", ":", "7:abc", "-1:" + "0" * 64, "٣:" + "0" * 64, "7:" + "G" * 64]:
        with pytest.raises(ValueError):
            Checkpoint.parse(text)


def test_empty_log_is_valid_but_absent_is_not(tmp_path: Path) -> None:
    assert not verify(tmp_path / "audit.jsonl").ok
    log = AuditLog(tmp_path / "audit.jsonl")
    assert verify(log.path).ok
    assert tail(log.path, 5) == ()
