"""Shortens results that are too long for a model, and stores the full result as a resource.

Invariants:
* a shortened result is at most `limit` bytes of JSON, and stays the same when it is shortened again;
* text from files and from GDAL is cut first; facts are cut only if that is not enough, the receipt last;
* every cut is marked: `{"truncated": {"kept": 10, "of": 250}}` as the last item of a list or as a key of an object,
  `[truncated: 100 of 2500 characters]` at the end of a text;
* a full result is in a private folder, complete or not at all, while the limits on age, number and bytes allow.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from gdal_mcp.settings import Settings
from gdal_mcp.settings.state import put_private
from gdal_mcp.toolboxes.shortening import STEPS, json_text, truncate, truncation
from gdal_mcp.toolboxes.untrusted import UNTRUSTED, locked

# bytes of JSON of an error, without the suggested call and the question to a person
MAX_ERROR: Final = 700
NOTE: Final = 120  # bytes of JSON for the note on the full result
FULL_RESULT: Final = "full_result"  # key of that note

_ID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_log = structlog.get_logger()


def fit(
    result: Mapping[str, Any], call_id: str, limit: int, store: "ResultStore", owner: str = ""
) -> dict[str, Any]:
    """The result, or the part of it that fits in `limit` bytes with a note on the full result, which is stored.

    The note's `uri` is None if the full result could not be stored. Never raises.
    """
    full = json_text(result)
    if _size(full) <= limit:
        return dict(result)
    uri = result_uri(call_id) if store.keep(call_id, full, owner) else None
    fitting = (shorter for shorter in _truncations(result) if _size(json_text(shorter)) <= limit - NOTE)
    longest = next(fitting, truncation(0, len(result)))
    return {**longest, FULL_RESULT: {"bytes": _size(full), "limit": limit, "uri": uri}}


def shorten_result(
    result: Mapping[str, Any], call_id: str, settings: Settings, store: "ResultStore", owner: str = ""
) -> dict[str, Any]:
    """A result or an error as a client gets it: without texts from files in lockdown, and no longer than the limit.

    An error has at most 700 bytes, without the parts that its reader acts on: the suggested call, the question to a
    person, and the same in a toolbox's words. Only `owner`, the principal of the call, may read the full result.
    """
    shown = locked(result) if settings.lockdown else result
    limit = settings.result_size
    if "error" in shown:
        error = shown["error"]
        suggested_call, details = (
            error.get("check", {}).get("suggested_call", ""),
            shown.get("error_details", ""),
        )
        acted_on = suggested_call, error.get("requiresConfirmation", ""), details
        limit = min(limit, MAX_ERROR + sum(_size(json_text(part)) for part in acted_on))
    return fit(shown, call_id, limit, store, owner)


def store_of(settings: Settings) -> "ResultStore":
    """The store of a server's full results. A server in lockdown has its own, and never reads those of others."""
    return ResultStore(settings.state_dir / ("results-locked" if settings.lockdown else "results"))


def result_uri(call_id: str) -> str:
    return f"gdal://calls/{call_id}/result"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _truncations(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The result, shortened step by step: texts from files, then everything except the receipt, then the receipt too."""
    for step in STEPS:
        texts = {key: _without_long_texts(key, value, step) for key, value in result.items()}
        yield texts
    for step in STEPS:
        yield {key: value if key == "receipt" else truncate(value, step) for key, value in texts.items()}
    for step in STEPS:
        yield {key: truncate(value, step) for key, value in texts.items()}


def _without_long_texts(key: str, value: Any, step: tuple[int, int]) -> Any:
    if key == UNTRUSTED:
        return truncate(value, step)
    if key == "error" and isinstance(value, dict) and UNTRUSTED in value:
        return {**value, UNTRUSTED: truncate(value[UNTRUSTED], step)}
    return value


@dataclass(frozen=True, slots=True)
class ResultStore:
    """The full results of calls, each a file of mode 0600. Servers and threads may share a folder."""

    folder: Path
    max_count: int = 200
    max_bytes: int = 512 << 20  # bytes of all results together
    max_age: float = 7 * 86_400.0  # seconds
    clock: Callable[[], float] = time.time

    def keep(self, call_id: str, text: str, owner: str = "") -> bool:
        """Stores the JSON text of a call's result; the oldest are removed to make room. False if it cannot be stored."""
        data = text.encode("utf-8", "backslashreplace")
        if not _ID.fullmatch(call_id) or len(data) > self.max_bytes:
            return False
        path = self._path(call_id, owner)
        try:
            put_private(path, data)
            os.utime(path, (self.clock(), self.clock()))
        except OSError:
            _log.warning("result_not_kept", call=call_id, exc_info=True)
            return False
        self.prune()
        return path.exists()

    def read(self, call_id: str, offset: int, length: int, of: str | None = None) -> tuple[bytes, int] | None:
        """Bytes of a full result from `offset`, and its size; None if it is not stored. `of` limits it to one
        principal's results.
        """
        if not _ID.fullmatch(call_id):
            return None
        path = (
            self._path(call_id, of) if of is not None else next(self.folder.glob(f"{call_id}.*.json"), None)
        )
        if path is None:
            return None
        try:
            file = os.open(path, _READ)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or self.clock() - status.st_mtime > self.max_age:
                return None
            return os.pread(file, length, offset), status.st_size
        finally:
            os.close(file)

    def prune(self) -> None:
        """Removes results that are too old, too many or too large, oldest first, and files that a crash left
        incomplete.
        """
        total = count = 0
        entries: list[tuple[Path, os.stat_result]] = []
        with suppress(OSError):
            for path in self.folder.iterdir():
                with suppress(OSError):  # another server removed it first
                    entries.append((path, path.lstat()))
        for path, status in sorted(entries, key=lambda entry: entry[1].st_mtime, reverse=True):
            total, count = total + status.st_size, count + 1
            too_old = self.clock() - status.st_mtime > self.max_age
            if too_old or count > self.max_count or total > self.max_bytes:
                with suppress(OSError):
                    path.unlink()

    def _path(self, call_id: str, owner: str) -> Path:
        """The path of a result. Its name has a digest of the owner, which is checked without opening the file."""
        owner_digest = hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return self.folder / f"{call_id}.{owner_digest}.json"
