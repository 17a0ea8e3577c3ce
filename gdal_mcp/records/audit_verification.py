"""Verifies the audit log: every record, the chain through all files, the head, and a checkpoint that was stored elsewhere."""

import fcntl
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gdal_mcp.records.audit import segments
from gdal_mcp.records.audit_chain import base_of, walk
from gdal_mcp.records.audit_files import locked, read_head, translate_errors
from gdal_mcp.records.audit_record import EMPTY, Checkpoint


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying the whole log. `first_bad` is a line number from 1, None if all records are valid."""

    ok: bool
    records: int  # valid records, up to the first bad line
    reason: str = ""
    first_bad: int | None = None
    last: Checkpoint = EMPTY
    first: int = 1  # number of the first record in these files; earlier ones are in an archive


def verify(path: Path, stored: Checkpoint | None = None) -> Verification:
    """Verifies every record of all files, the head and, if given, that the log contains a checkpoint stored
    elsewhere.

    Reads line by line; servers may append at the same time. Raises AuditUnavailable when the log cannot be read.
    """
    with translate_errors(path), ExitStack() as stack:
        with locked(path, fcntl.LOCK_SH):
            try:
                opened = [stack.enter_context(segment.open("rb")) for segment in (*segments(path), path)]
            except FileNotFoundError:
                return Verification(ok=False, records=0, reason=f"there is no log at {path}")
            sizes = [os.fstat(file.fileno()).st_size for file in opened]
            head = read_head(path.with_suffix(".head")).at
        base = base_of(opened[0].fileno())
        last, reason, missing = base, "", {head, stored or EMPTY} - {base, EMPTY}
        for file, size in zip(opened, sizes, strict=True):
            last, reason, absent = walk(file.fileno(), size, head, stored or EMPTY, last=last)
            missing &= absent
            if reason:
                reason = f"{Path(file.name).name}: {reason}" if len(opened) > 1 else reason
                break
    first_bad = last.seq + 1 if reason else None
    if not reason and stored in missing:
        archived = stored.seq < base.seq
        reason = (
            f"record {stored.seq} is in an archived file: put the archived files beside the log, and verify again"
            if archived
            else f"the log does not contain record {stored.seq} with the hash of the checkpoint"
        )
    elif not reason and head in missing:
        reason = f"the log ends at record {last.seq} and does not contain record {head.seq} with the hash of its head"
    elif not reason and head != last:
        reason = f"the head names record {head.seq}, which is not the last: it was removed, a server crashed, or no server wrote the later records"
    return Verification(not reason, last.seq - base.seq, reason, first_bad, last, base.seq + 1)
