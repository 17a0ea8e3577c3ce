"""One line of the audit log. Pure: no file is used here.

Invariants:
* a line is at most MAX_LINE bytes of ASCII, whatever the event contains;
* a record's hash is the SHA-256 of its line's bytes without the newline, so it covers every byte;
* anything except a complete record parses to None.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MAX_LINE = 256 << 10  # bytes; limits what readers have in memory
_GENESIS = "0" * 64
_MAX_EVENT = MAX_LINE - 1024  # the other fields and names of a record take less than 300 bytes
_MAX_DEPTH = 64
_MAX_BITS = 4096  # bits of an integer; Python refuses to print integers of more than 4300 digits
_START = 1024  # characters recorded of a field that is too large


def time_text(seconds: float) -> str:
    """A time in seconds since the epoch as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A position in a log: the number and hash of its last record. `seq` 0 is the empty log."""

    seq: int = 0
    hash: str = _GENESIS

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """The checkpoint that `str()` wrote. Raises ValueError."""
        seq, _, digest = text.strip().partition(":")
        if not (seq.isascii() and seq.isdecimal() and len(seq) < len(_GENESIS) and _is_hash(digest)):
            raise ValueError(f"{text[:80]!r} is not a checkpoint. One looks like 42:<64 hexadecimal digits>.")
        return cls(int(seq), digest)


EMPTY = Checkpoint()


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One record as written. `time` is RFC 3339 in UTC; `hash` is that of its line and is not in the line."""

    seq: int
    time: str
    previous: str
    event: Mapping[str, Any]
    hash: str

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.seq, self.hash)


def write_line(after: Checkpoint, time: str, event: Mapping[str, Any]) -> bytes:
    """The line, without its end, of the record that follows a checkpoint."""
    fields = {str(key): _canonical(_plain(value)) for key, value in event.items()}
    over = sum(len(_canonical(key)) + len(text) + 2 for key, text in fields.items()) - _MAX_EVENT
    for key in sorted(fields, key=lambda name: len(fields[name]), reverse=True):  # the largest are cut first
        if over <= 0:
            break
        full = fields[key]
        fields[key] = _shortened(full)
        over -= len(full) - len(fields[key])
    text = ",".join(f"{_canonical(key)}:{fields[key]}" for key in sorted(fields))
    event_text = f"{{{text}}}" if over <= 0 else f'{{"fields":{_shortened(text)}}}'
    line = f'{{"event":{event_text},"previous":"{after.hash}","seq":{after.seq + 1},"time":"{time}"}}'
    return line.encode("ascii")


def parse_line(line: bytes) -> AuditRecord | None:
    """The record in a line, with or without its end; None for anything else."""
    try:
        fields = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or fields.keys() != {"event", "previous", "seq", "time"}:
        return None
    seq, when, previous, event = (fields[name] for name in ("seq", "time", "previous", "event"))
    sound = type(seq) is int and isinstance(when, str) and isinstance(event, dict) and _is_hash(previous)
    digest = hashlib.sha256(line.removesuffix(b"\n")).hexdigest()
    return AuditRecord(seq, when, previous, event, digest) if sound else None


def _is_hash(text: Any) -> bool:
    return isinstance(text, str) and len(text) == len(_GENESIS) and not text.strip("0123456789abcdef")


def _shortened(text: str) -> str:
    """The part of a field that is too large: its start to recognise it, its digest to prove its content."""
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return _canonical({"truncated": True, "start": text[:_START], "bytes": len(text), "sha256": digest})


def _canonical(value: Any) -> str:
    # ASCII only: control characters, lone surrogates and line separators are all escaped.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any, depth: int = 0) -> Any:
    """The value with only types that JSON has."""
    if depth > _MAX_DEPTH:
        return f"[nested deeper than {_MAX_DEPTH}]"
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, depth + 1) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"[integer of {value.bit_length()} bits]"
    return value if value is None or isinstance(value, str | int | float) else str(value)
