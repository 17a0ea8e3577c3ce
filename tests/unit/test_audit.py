import errno
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdal_mcp import audit
from gdal_mcp.audit import RECOVERED, AuditLog, AuditUnavailable, Checkpoint, tail, verify
from gdal_mcp.audit_record import MAX_LINE, parse_line, write_line

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


def spawn(code: str, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", code, *arguments])


# What is written


def test_an_untouched_log_verifies_and_its_head_matches(log: AuditLog) -> None:
    found = verify(log.path)
    assert (found.ok, found.records, found.first_bad, found.head_matches) == (True, COUNT, None, True)
    assert found.last == log.checkpoint()


def test_each_record_names_the_digest_of_the_line_before(log: AuditLog) -> None:
    lines = lines_of(log)
    records = [json.loads(line) for line in lines]
    assert [record["seq"] for record in records] == list(range(1, COUNT + 1))
    for line, following in zip(lines, records[1:], strict=False):
        assert following["previous"] == hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def test_append_returns_what_it_wrote(log: AuditLog) -> None:
    record = log.append({"type": "call.started", "subject": "someone"})
    assert record.event == {"type": "call.started", "subject": "someone"}
    assert tail(log.path, 1) == (record,)
    assert record.checkpoint == log.checkpoint()


def test_the_log_its_head_and_its_lock_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        log = AuditLog(tmp_path / "new" / "audit.jsonl")
        log.append({})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in log.path.parent.iterdir()}
    assert modes == {"audit.jsonl": 0o600, "audit.head": 0o600, "audit.lock": 0o600}
    assert log.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_log_that_others_may_read_is_made_private(log: AuditLog) -> None:
    log.path.chmod(0o644)
    log.append({})
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_the_record_is_synced_before_append_returns(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (real(file), synced.append(os.fstat(file).st_ino))[0])
    log.append({})
    assert log.path.stat().st_ino in synced


def test_a_link_in_the_place_of_the_log_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "audit.jsonl").symlink_to(victim)
    with pytest.raises(AuditUnavailable):
        AuditLog(tmp_path / "audit.jsonl").append({})
    assert victim.read_text() == "precious"


def test_a_pipe_in_the_place_of_the_log_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.jsonl")
    with pytest.raises(AuditUnavailable):
        AuditLog(tmp_path / "audit.jsonl")


# Hostile events

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))  # lone surrogates too
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=5),
    max_leaves=20,
)


@given(event=st.dictionaries(st.text(st.characters(exclude_categories=())), anything, max_size=6))
@settings(max_examples=200, deadline=None)
def test_whatever_an_event_holds_it_becomes_one_line_of_ascii(event: dict[str, Any]) -> None:
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
        "line\nbreak\r\u2028\x00\x1b[2J\x7f\x85",
        "\ud800 alone \udfff",
        float("nan"),
        float("-inf"),
        10**5000,
        {"a": {1: Path("/x"), None: {2, 2}}},
        b"\xff\x00",
    ],
    ids=["controls", "surrogates", "nan", "infinity", "huge number", "odd names and things", "bytes"],
)
def test_hostile_values_are_recorded_and_the_chain_goes_on(log: AuditLog, value: Any) -> None:
    record = log.append({"type": "x", "object": value})
    assert tail(log.path, 1) == (record,)
    log.append({"type": "after"})
    assert verify(log.path).records == COUNT + 2
    assert verify(log.path).ok


def test_text_comes_back_as_it_was(log: AuditLog) -> None:
    text = "Zürich \ud800\n\x00 𝄞"
    log.append({"object": text})
    assert tail(log.path, 1)[0].event["object"] == text


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
def test_an_event_that_is_too_large_is_cut_not_refused(log: AuditLog, event: dict[str, Any]) -> None:
    log.append(event)
    log.append({"type": "after"})
    assert max(len(line) for line in lines_of(log)) <= MAX_LINE
    assert verify(log.path).ok
    assert verify(log.path).records == COUNT + 2
    written = tail(log.path, 2)[0].event
    if "type" in event:
        assert written["type"] == event["type"]


def test_what_is_cut_is_still_bound_by_its_hash(log: AuditLog) -> None:
    record = log.append({"type": "x", "object": "y" * 400_000})
    whole = json.dumps("y" * 400_000)
    cut = record.event["object"]
    assert cut["sha256"] == hashlib.sha256(whole.encode()).hexdigest()
    assert cut["bytes"] == len(whole)
    assert whole.startswith(cut["start"])


# Tampering


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


def test_every_removed_byte_is_noticed(log: AuditLog) -> None:
    whole = log.path.read_bytes()
    for place in range(len(whole)):
        log.path.write_bytes(whole[:place] + whole[place + 1 :])
        assert not verify(log.path).ok, f"byte {place}"


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


@pytest.mark.parametrize("line", range(COUNT - 1))
def test_swapped_lines_are_named(log: AuditLog, line: int) -> None:
    lines = lines_of(log)
    lines[line], lines[line + 1] = lines[line + 1], lines[line]
    log.path.write_bytes(b"".join(lines))
    assert verify(log.path).first_bad == line + 1


def test_a_repeated_line_is_named(log: AuditLog) -> None:
    lines = lines_of(log)
    log.path.write_bytes(b"".join([*lines, lines[-1]]))
    assert verify(log.path).first_bad == COUNT + 1


GARBAGE = {
    "text": b"hello\n",
    "an empty line": b"\n",
    "zeros": b"\0" * 4096,
    "another shape": b'{"event":{}}\n',
    "not an object": b"[1,2]\n",
    "deep": b"[" * 100_000 + b"\n",
    "a huge number": b"9" * 10_000 + b"\n",
    "a huge line": b"x" * (3 * MAX_LINE) + b"\n",
    "no line end": b"x" * (3 * MAX_LINE),
    "a truth for a number": b'{"event":{},"previous":"' + b"0" * 64 + b'","seq":true,"time":""}\n',
}


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


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff" * 600, b'{"hash": "", "seq": 7, "torn": null}'])
def test_a_lost_or_spoilt_head_is_noticed_and_nothing_is_appended(log: AuditLog, content: bytes | None) -> None:
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


@pytest.mark.parametrize("text", ["", "7", ":", "7:abc", "-1:" + "0" * 64, "٣:" + "0" * 64, "7:" + "G" * 64])
def test_a_text_that_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Checkpoint.parse(text)


def test_there_is_no_log_is_not_a_good_log(tmp_path: Path) -> None:
    assert not verify(tmp_path / "audit.jsonl").ok


def test_an_empty_log_is_a_good_log(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    assert verify(log.path).ok
    assert tail(log.path, 5) == ()


# Crashes


@pytest.mark.parametrize("kept", [1, 40, -1])
def test_a_torn_last_line_is_cut_off_and_recorded(log: AuditLog, kept: int) -> None:
    torn = write_line(log.checkpoint(), "now", {"type": "never acknowledged"})[:kept]
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


def test_a_torn_first_line_is_recorded(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.path.write_bytes(b'{"event":{')
    log.append({"type": "after"})
    assert [record.event["type"] for record in tail(log.path, 5)] == [RECOVERED, "after"]
    assert verify(log.path).ok


def test_an_acknowledged_record_that_was_torn_is_refused(log: AuditLog) -> None:
    log.path.write_bytes(log.path.read_bytes()[:-5])
    with pytest.raises(AuditUnavailable):
        log.append({})
    assert not verify(log.path).ok


class Crash(BaseException):
    """The process ends here."""


def crash(*_: Any) -> None:
    raise Crash


def crash_after(real: Callable[..., Any]) -> Callable[..., None]:
    def then_crash(*arguments: Any) -> None:
        real(*arguments)
        raise Crash

    return then_crash


@pytest.mark.parametrize("step", ["ftruncate", "_write"])
def test_a_crash_while_a_torn_line_is_repaired_does_not_lose_the_fact(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with log.path.open("ab") as file:
        file.write(b"torn")
    with monkeypatch.context() as patch:
        patch.setattr(*((os, "ftruncate", crash_after(os.ftruncate)) if step == "ftruncate" else (audit, step, crash)))
        with pytest.raises(Crash):
            log.append({})
    log.append({"type": "after"})
    recovered = tail(log.path, 2)[0]
    assert recovered.event["torn_line"]["sha256"] == hashlib.sha256(b"torn").hexdigest()
    assert verify(log.path).ok
    log.append({"type": "later"})
    assert [record.event["type"] for record in tail(log.path, 2)] == ["after", "later"]


@pytest.mark.parametrize("step", ["fdatasync", "pwrite"])
def test_a_crash_before_the_head_follows_is_recorded(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, step, crash)
        with pytest.raises(Crash):
            log.append({"type": "last words"})
    assert not verify(log.path).head_matches
    log.append({"type": "after"})
    events = [record.event for record in tail(log.path, 3)]
    assert [event["type"] for event in events] == ["last words", RECOVERED, "after"]
    assert events[1]["head_behind"] == 1
    assert verify(log.path).ok


def test_a_crash_at_the_first_record_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", crash)
        with pytest.raises(Crash):
            log.append({"type": "first"})
    log.append({"type": "after"})
    assert [record.event["type"] for record in tail(log.path, 3)] == ["first", RECOVERED, "after"]


def test_a_head_that_a_power_cut_put_back_is_recorded(log: AuditLog) -> None:
    old = head_of(log).read_bytes()
    for _ in range(5):
        log.append({})
    head_of(log).write_bytes(old)
    log.append({"type": "after"})
    assert tail(log.path, 2)[0].event["head_behind"] == 5
    assert verify(log.path).ok


def test_a_broken_chain_is_not_accepted_behind_an_old_head(log: AuditLog) -> None:
    old = head_of(log).read_bytes()
    for _ in range(5):
        log.append({})
    lines = lines_of(log)
    del lines[COUNT + 1]
    log.path.write_bytes(b"".join(lines))
    head_of(log).write_bytes(old)
    with pytest.raises(AuditUnavailable):
        log.append({})


def test_killed_writers_leave_a_log_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    code = "import sys; from pathlib import Path; from gdal_mcp.audit import AuditLog\n"
    code += "log = AuditLog(Path(sys.argv[1]))\nwhile True: print(log.append({'x': 'y' * 3000}).seq, flush=True)"
    acknowledged = 0
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            for _ in range(20):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
    AuditLog(path)
    found = verify(path)
    assert found.ok
    assert found.records >= acknowledged


# No space


@pytest.mark.parametrize("step", ["write", "fdatasync", "pwrite"])
def test_a_failed_append_leaves_the_log_as_it_was(log: AuditLog, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
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


def test_a_write_cut_short_by_a_limit_leaves_the_log_valid(tmp_path: Path) -> None:
    code = """if True:
        import resource, sys
        from pathlib import Path
        from gdal_mcp.audit import AuditLog, AuditUnavailable
        log = AuditLog(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
        done = 0
        try:
            while True:
                done = log.append({"object": "x" * 700}).seq
        except AuditUnavailable:
            print(done)
    """
    path = tmp_path / "audit.jsonl"
    run = subprocess.run([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, check=True)
    found = verify(path)
    assert found.ok
    assert 0 < found.records == int(run.stdout)
    AuditLog(path).append({"type": "after"})
    assert [record.event.get("type") for record in tail(path, 2)] == [None, "after"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount; the file size limit above shows the same")
@pytest.mark.parametrize("size", [1, 500, 3000, 20_000])
def test_a_full_disk_refuses_records_and_leaves_the_log_valid(small_disk: Path, size: int) -> None:
    log = AuditLog(small_disk / "audit.jsonl")
    acknowledged = 0
    with pytest.raises(AuditUnavailable):
        while True:
            acknowledged = log.append({"object": "x" * size}).seq
    found = verify(log.path)
    assert (found.ok, found.records) == (True, acknowledged)
    with pytest.raises(AuditUnavailable):
        log.append({"object": "x" * size})
    assert verify(log.path).records == acknowledged


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_disk_that_is_full_at_the_start_is_survived(small_disk: Path) -> None:
    log = AuditLog(small_disk / "audit.jsonl")
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(AuditUnavailable):
        log.append({"type": "first"})
    assert verify(log.path).ok
    filler.unlink()
    log.append({"type": "first"})
    assert [record.event["type"] for record in tail(log.path, 5)] == ["first"]
    assert verify(log.path).ok


# Sharing


def test_concurrent_threads_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    logs = [AuditLog(path), AuditLog(path)]
    with ThreadPoolExecutor(8) as pool:
        records = list(pool.map(lambda number: logs[number % 2].append({"n": number}), range(200)))
    assert sorted(record.seq for record in records) == list(range(1, 201))
    assert verify(path).ok
    assert {record.event["n"] for record in tail(path, 200)} == set(range(200))


def test_two_processes_of_200_records_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    code = "import sys; from pathlib import Path; from gdal_mcp.audit import AuditLog\n"
    code += "log = AuditLog(Path(sys.argv[1]))\nfor n in range(200): log.append({'who': sys.argv[2], 'n': n})"
    writers = [spawn(code, str(path), who) for who in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = verify(path)
    assert (found.ok, found.records) == (True, 400)
    for who in "ab":
        assert [one.event["n"] for one in tail(path, 400) if one.event["who"] == who] == list(range(200))


def test_a_log_can_be_verified_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [log.append({"n": number}) for number in range(200)])
        while not writing.done():
            assert verify(path).ok
    assert verify(path).records == 200


def test_a_lock_that_is_never_given_back_is_an_error(log: AuditLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_LOCK_SECONDS", 0.0)
    with audit._locked(log.path, audit.fcntl.LOCK_EX), pytest.raises(AuditUnavailable):
        log.append({})
    log.append({})


def test_a_copy_without_its_lock_file_can_be_verified(log: AuditLog, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "audit.jsonl"
    copy.parent.mkdir()
    copy.write_bytes(log.path.read_bytes())
    copy.with_suffix(".head").write_bytes(head_of(log).read_bytes())
    assert verify(copy).ok
    assert sorted(path.name for path in copy.parent.iterdir()) == ["audit.head", "audit.jsonl"]


# Reading


@pytest.mark.parametrize("count", [0, 1, 3, COUNT, COUNT + 10])
def test_tail_gives_the_last_records_in_order(log: AuditLog, count: int) -> None:
    expected = list(range(1, COUNT + 1))[max(0, COUNT - count) :]
    assert [record.seq for record in tail(log.path, count)] == expected


def test_tail_reads_across_blocks(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    sizes = [0, 5, 16_000, 16_384, 17_000, 100_000, 200_000, 1]
    for size in sizes:
        log.append({"object": "x" * size})
    assert [len(record.event["object"]) for record in tail(log.path, 50)] == sizes


def test_tail_leaves_out_what_is_no_record(log: AuditLog) -> None:
    with log.path.open("ab") as file:
        file.write(b"garbage\r\ntorn")
    assert [record.seq for record in tail(log.path, 3)] == [COUNT - 1, COUNT]


def test_verify_holds_one_line_in_memory(tmp_path: Path) -> None:
    code = """if True:
        import resource, sys
        from pathlib import Path
        from gdal_mcp.audit import verify
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        verify(Path(sys.argv[1]))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    log = AuditLog(tmp_path / "audit.jsonl")
    for _ in range(160):
        log.append({"object": "x" * 250_000})
    assert log.path.stat().st_size > 38 << 20
    run = subprocess.run([sys.executable, "-c", code, str(log.path)], stdout=subprocess.PIPE, check=True)
    assert int(run.stdout) < 20 << 10  # KiB
