"""Which bytes of a file a request is answered with, by the rules of RFC 9110. Pure.

Invariants:
* what cannot be read as a condition or a range is as if it had not been sent, but for `If-Match`, which then fails;
* a part lies within the file, and has at least one byte;
* of several ranges none is taken: the whole is sent, once, whatever their number.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

UNCHANGED: Final = 304
FAILED: Final = 412
_RANGE: Final = re.compile(r"(\d{0,30})-(\d{0,30})", re.ASCII)  # no file has a size of more digits
_TAG: Final = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')


class Unsatisfiable(Exception):
    """The range lies behind the end of the file."""


@dataclass(frozen=True, slots=True)
class Version:
    """One state of a file: the SHA-256 of its bytes, in hex, and since when it is served, in whole seconds since 1970."""

    sha256: str
    since: int

    @property
    def etag(self) -> str:
        return f'"{self.sha256}"'

    @property
    def last_modified(self) -> str:
        return formatdate(self.since, usegmt=True)


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file; `stop` is the first that is not among them."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def content_range(self, size: int) -> str:
        return f"bytes {self.start}-{self.stop - 1}/{size}"


def precondition(headers: Mapping[str, str], version: Version) -> int | None:
    """The status of an answer without content that the conditions of a GET or HEAD ask for; None when there is none."""
    if (wanted := headers.get("if-match")) is not None:
        if not _names(wanted, version, strong=True):
            return FAILED
    elif (limit := _date(headers.get("if-unmodified-since"))) is not None and version.since > limit:
        return FAILED
    if (known := headers.get("if-none-match")) is not None:
        return UNCHANGED if _names(known, version, strong=False) else None
    seen = _date(headers.get("if-modified-since"))
    return UNCHANGED if seen is not None and version.since <= seen else None


def part_of(headers: Mapping[str, str], version: Version, size: int) -> Part | None:
    """The one part that a GET asks for; None for the whole. Raises Unsatisfiable."""
    text = headers.get("range")
    if text is None or not _still(headers.get("if-range"), version):
        return None
    unit, _, given = text.partition("=")
    found = _RANGE.fullmatch(given.strip()) if unit.strip().lower() == "bytes" else None
    return _part(found[1], found[2], size) if found else None


def _part(first: str, last: str, size: int) -> Part | None:
    if not first:
        return _end(int(last), size) if last else None
    start = int(first)
    if last and int(last) < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return Part(start, min(int(last) + 1, size) if last else size)


def _end(length: int, size: int) -> Part:
    """The last bytes of a file."""
    if not length or not size:
        raise Unsatisfiable
    return Part(max(size - length, 0), size)


def _still(condition: str | None, version: Version) -> bool:
    """Whether a part may be sent: the client has parts of the same version, or none."""
    if condition is None:
        return True
    text = condition.strip()
    return text == version.etag if text.endswith('"') else _date(text) == version.since


def _names(text: str, version: Version, *, strong: bool) -> bool:
    if text.strip() == "*":
        return True
    return any(tag == version.sha256 and not (strong and weak) for weak, tag in _TAG.findall(text))


def _date(text: str | None) -> int | None:
    """Seconds since 1970 of a date of HTTP; None for any other text."""
    try:
        found = parsedate_to_datetime(text or "")
        return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
