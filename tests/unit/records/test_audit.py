import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdal_mcp.records import audit_files
from gdal_mcp.records.audit import AuditLog, Checkpoint, tail
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_record import MAX_LINE, parse_line, write_line
from gdal_mcp.records.audit_verification import verify
from tests.unit.records.audit_kit import COUNT, head_of, lines_of


def spawn(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", code, *arguments])


def test_each_record_names_digest_of_previous_line(log: AuditLog) -> None:
    lines = lines_of(log)
    records = [json.loads(line) for line in lines]
    assert [record["seq"] for record in records] == list(range(1, COUNT + 1))
    for line, following in zip(lines, records[1:], strict=False):
        assert following["previous"] == hashlib.sha256(line.rstrip(b"\n")).hexdigest()


@pytest.mark.claim("audit.private")
def test_log_head_and_lock_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log = AuditLog(tmp_path / "new" / "audit.jsonl")
        log.append({})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in log.path.parent.iterdir()}
    assert modes == {"audit.jsonl": 0o600, "audit.head": 0o600, "audit.lock": 0o600}
    assert log.path.parent.stat().st_mode & 0o777 == 0o700


def test_readable_log_is_made_private(log: AuditLog) -> None:
    log.path.chmod(0o644)
    log.append({})
    assert log.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.claim("audit.survives")
def test_the_record_is_synced_before_append_returns(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync

    def sync(file: int) -> None:
        real(file)
        synced.append(os.fstat(file).st_ino)

    monkeypatch.setattr(os, "fdatasync", sync)
    log.append({})
    assert log.path.stat().st_ino in synced


@pytest.mark.claim("audit.private")
def test_link_or_pipe_replacing_the_log_is_refused(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "audit.jsonl"
    victim.write_text("precious")
    path.symlink_to(victim)
    with pytest.raises(AuditUnavailable):
        AuditLog(path).append({})
    assert victim.read_text() == "precious"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(AuditUnavailable):
        AuditLog(path)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))  # lone surrogates too
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=5)
    ),
    max_leaves=20,
)


@pytest.mark.claim("audit.one-line-each")
@given(event=st.dictionaries(st.text(st.characters(exclude_categories=())), anything, max_size=6))
@settings(max_examples=200, deadline=None)
def test_every_event_becomes_one_ascii_line(event: dict[str, Any]) -> None:
    line = write_line(Checkpoint(), "now", event)
    assert line.isascii()
    assert b"\n" not in line
    assert b"\r" not in line
    record = parse_line(line)
    assert record is not None
    assert record.hash == hashlib.sha256(line).hexdigest()
    assert set(record.event) == set(event)


@pytest.mark.parametrize(
    "value",
    [
        "line\nbreak\r\u2028\x00\x1b[2J\x7f\x85", "\ud800 alone \udfff", float("nan"), float("-inf"),
        10**5000, {"a": {1: Path("/x"), None: {2}}}, b"\xff\x00",
    ],
    ids=["controls", "surrogates", "nan", "infinity", "huge number", "odd names and things", "bytes"],
)  # fmt: skip
def test_hostile_values_are_recorded_without_breaking_the_chain(log: AuditLog, value: Any) -> None:
    record = log.append({"type": "x", "object": value})
    assert tail(log.path, 1) == (record,)
    log.append({"type": "after"})
    assert verify(log.path).records == COUNT + 2
    assert verify(log.path).ok


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "event",
    [
        {"object": "\x00" * 300_000, "type": "call.started", "outcome": "ok"},
        {"object": ["𝄞" * 1000] * 100, "subject": {"k" * 9999: "v" * 400_000}, "type": "call.started"},
        {"object": nested(100_000), "type": "call.started"},
        {"object": [nested(60)] * 5000, "type": "call.started"},
        {f"key-{number}": "value" for number in range(50_000)},
        {"k" * 400_000: 1},
    ],
    ids=["long text", "two long fields", "very deep", "wide", "many fields", "long name"],
)
def test_oversized_event_is_cut_not_refused(log: AuditLog, event: dict[str, Any]) -> None:
    log.append(event)
    log.append({"type": "after"})
    assert max(len(line) for line in lines_of(log)) <= MAX_LINE
    assert verify(log.path).ok
    assert verify(log.path).records == COUNT + 2
    written = tail(log.path, 2)[0].event
    if "type" in event:
        assert written["type"] == event["type"]


def test_cut_parts_are_still_bound_by_hash(log: AuditLog) -> None:
    record = log.append({"type": "x", "object": "y" * 400_000})
    text = json.dumps("y" * 400_000)
    shortened = record.event["object"]
    assert shortened["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert shortened["bytes"] == len(text)
    assert text.startswith(shortened["start"])


def test_two_processes_of_200_records_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    code = "import sys; from pathlib import Path; from gdal_mcp.records.audit import AuditLog\n"
    code += "log = AuditLog(Path(sys.argv[1]))\nfor n in range(200): log.append({'who': sys.argv[2], 'n': n})"
    writers = [spawn(code, str(path), who) for who in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    report = verify(path)
    assert (report.ok, report.records) == (True, 400)
    for who in "ab":
        assert [record.event["n"] for record in tail(path, 400) if record.event["who"] == who] == list(
            range(200)
        )


def test_a_log_can_be_verified_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [log.append({"n": number}) for number in range(200)])
        while not writing.done():
            assert verify(path).ok
    assert verify(path).records == 200


def test_unreleased_lock_is_an_error(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_files, "_LOCK_SECONDS", 0.0)
    with audit_files.locked(log.path, fcntl.LOCK_EX), pytest.raises(AuditUnavailable):
        log.append({})
    log.append({})


def test_copy_without_lock_file_can_be_verified(log: AuditLog, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "audit.jsonl"
    copy.parent.mkdir()
    copy.write_bytes(log.path.read_bytes())
    copy.with_suffix(".head").write_bytes(head_of(log).read_bytes())
    assert verify(copy).ok
    assert sorted(path.name for path in copy.parent.iterdir()) == ["audit.head", "audit.jsonl"]


def test_tail_gives_last_valid_records_in_order(log: AuditLog) -> None:
    every = list(range(1, COUNT + 1))
    for count in (0, 1, 3, COUNT, COUNT + 10):
        assert [record.seq for record in tail(log.path, count)] == every[max(0, COUNT - count) :]
    with log.path.open("ab") as file:
        file.write(b"garbage\r\ntorn")
    assert [record.seq for record in tail(log.path, 3)] == every[-2:]


def test_tail_reads_across_blocks(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    sizes = [0, 5, 16_000, 16_384, 17_000, 100_000, 200_000, 1]
    for size in sizes:
        log.append({"object": "x" * size})
    assert [len(record.event["object"]) for record in tail(log.path, 50)] == sizes


@pytest.mark.parametrize("kind", ["many records", "one line without an end"])
def test_verify_holds_one_line_in_memory(tmp_path: Path, kind: str) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    if kind == "many records":
        for _ in range(160):
            log.append({"object": "x" * 250_000})
    else:
        log.path.write_bytes(b"x" * (40 << 20))
    assert log.path.stat().st_size > 38 << 20
    tracemalloc.start()
    try:
        verify(log.path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
