"""The record of what was read from one remote source. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, Literal

Validator = Literal["etag", "weak etag", "last-modified", "none"]


@dataclass(frozen=True, slots=True)
class Version:
    """The facts that distinguish one version of a file from another."""

    length: int  # bytes
    etag: str = ""
    modified: str = ""  # Last-Modified, as the server sent it

    def same(self, other: "Version") -> bool:
        """True if both can be the same version, judged by the ETag if there is one, otherwise by the time."""
        mine, theirs = (self.etag, other.etag) if self.etag or other.etag else (self.modified, other.modified)
        return (self.length, mine) == (other.length, theirs)

    @property
    def validator(self) -> Validator:
        if self.etag:
            return "weak etag" if self.etag.startswith("W/") else "etag"
        return "last-modified" if self.modified else "none"

    @property
    def seconds(self) -> int:
        """The modification time in seconds since 1970; 0 if unknown."""
        try:
            return max(int(parsedate_to_datetime(self.modified).timestamp()), 0)
        except (ValueError, OverflowError, OSError):
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """One file or tree that a call read over the network, without secrets.

    `ranges` are merged, in blocks of 64 KiB, as (offset, length) in bytes. `sha256` covers, for each range in order,
    its offset and length as decimal text and the SHA-256 of each of its blocks: a digest of what was read, not of the
    file. For a tree, it covers the names, ETags and digests of its files.
    """

    address: str  # as the caller wrote it
    final: str  # after redirects; for a STAC item, the address of its asset
    length: int  # bytes of the file; for a tree, the total of the files that were looked up
    files: int = 1  # for a tree, the number of files that were read
    etag: str = ""
    last_modified: str = ""
    # how a change of the file would be detected; a weak ETag only shows changes that its server considers relevant
    validator: Validator = "none"
    ranges: tuple[tuple[int, int], ...] = ()
    sha256: str = ""
    requests: int = 0  # including retries and redirects
    bytes: int = 0  # bytes over the network
    cached_bytes: int = 0  # bytes of the ranges that an earlier call of the same principal had read

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ranges": [list(span) for span in self.ranges]}


def joined(address: str, rows: Mapping[str, SourceRead], requests: int, read: int) -> SourceRead:
    """Combines several files, by name, into one record."""
    total = sha256()
    mine = {name: row for name, row in rows.items() if row.ranges}
    for name, row in sorted(mine.items()):
        total.update(f"{name} {row.etag} {row.sha256}\n".encode())
    weakest = ("none", "last-modified", "weak etag", "etag")
    return SourceRead(
        address=address,
        final=address,
        length=sum(row.length for row in rows.values()),
        files=len(mine),
        validator=min((row.validator for row in mine.values()), key=weakest.index, default="none"),
        sha256=total.hexdigest() if mine else "",
        requests=requests,
        bytes=read,
        cached_bytes=sum(row.cached_bytes for row in rows.values()),
    )
