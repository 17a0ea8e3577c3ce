"""Turns outcomes and errors of the sandbox into errors for the caller. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.settings.types import size_text
from gdal_mcp.toolboxes.toolbox import LibraryMessage, Toolbox
from gdal_mcp.toolboxes.untrusted import clean_text
from sandbox.errors import (
    AttestationFailed,
    CapacityExhausted,
    EngineUnavailable,
    ImageMissing,
    IsolationRefused,
    LaunchCancelled,
    OutputRejected,
    PathMissing,
    PathRefused,
    PathReplaced,
    SandboxError,
    StagingFailed,
)
from sandbox.outcome import (
    Cancelled,
    Declined,
    DiskLow,
    Evicted,
    Exited,
    FileSizeExceeded,
    HostReadFailed,
    Killed,
    Outcome,
    OutOfMemory,
    OutputLimitExceeded,
    ProtocolViolated,
    SandboxResult,
    StagingLimitExceeded,
    TimedOut,
)

_Limit = TimedOut | OutOfMemory | StagingLimitExceeded | FileSizeExceeded | OutputLimitExceeded

STDERR_CHARACTERS = 8000
_LABEL = re.compile(r"^[A-Za-z ]{1,20} [0-9]{1,4}: ")
_NUMBERS = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?", re.IGNORECASE)
_MANY_LINES = 4  # lines that differ only in their numbers; so many are folded into one
_COMPARED = 400  # characters of a line; messages may be longer
_RAISE = "Ask for less: a smaller area, a coarser resolution, fewer rows. The person who runs the server can raise the limit with --"
# the suggestion for a failure with no better one; {} is the title of the toolbox
GENERAL_ADVICE = "{}'s own messages are under `untrusted`; correct the arguments or the data and call again."
# messages of the C library and SQLite; a full disk of the host has an outcome of its own
_FULL = ("No space left on device", "database or disk is full")
_FIRST = 5  # GDAL's first messages name the cause; the others repeat it

_KINDS: tuple[tuple[type[SandboxError], Code, str], ...] = (
    (LaunchCancelled, Code.CANCELLED, "Call again if it is still wanted."),
    (
        CapacityExhausted,
        Code.BUSY,
        "Call again when other calls have ended; the server may need more memory, or smaller limits.",
    ),
    (
        ImageMissing,
        Code.ENGINE_UNAVAILABLE,
        "Call again once the image is there; `gdal-mcp doctor` shows more.",
    ),
    (
        EngineUnavailable,
        Code.ENGINE_UNAVAILABLE,
        "Start the container engine, or fix what is named here, then call again; `gdal-mcp doctor` shows more.",
    ),
    (AttestationFailed, Code.ENGINE_UNAVAILABLE, "`gdal-mcp doctor` shows what this host does not isolate."),
    (IsolationRefused, Code.ENGINE_UNAVAILABLE, "`gdal-mcp doctor` shows what this host does not isolate."),
    (PathMissing, Code.NOT_FOUND, "Check the name and call again."),
    (
        PathReplaced,
        Code.PATH_NOT_ALLOWED,
        "Call again once nothing changes these files. Where that never helps, use --mount-scope workspaces.",
    ),
    (PathRefused, Code.PATH_NOT_ALLOWED, "Use a path inside a workspace."),
    (OutputRejected, Code.OUTPUT_REJECTED, "Nothing was published. Choose another output and call again."),
    (
        StagingFailed,
        Code.DISK_LIMIT,
        "Nothing was published. Check the space and the permissions of the workspace.",
    ),
)


def explain(error: SandboxError, stage: Stage) -> ToolError:
    """The error for the caller of a failure of the sandbox itself."""
    for kind, code, suggestion in _KINDS:
        if isinstance(error, kind):
            return ToolError(code, stage, clean_text(str(error), 1500), suggestion)
    return ToolError(Code.INTERNAL, stage, "the sandbox failed.", "The server's log says more.")


def judge(result: SandboxResult, toolbox: Toolbox, *, writes: bool = False) -> ToolError | None:
    """The error of a job that did not succeed; None if it did. `writes` is True if the job had an output."""
    outcome, stderr = result.outcome, stderr_of(result)
    if not isinstance(outcome, Exited):
        code, message, suggestion = _explained(outcome, toolbox)
        return ToolError(code, Stage.RUN, message, suggestion, {"stderr": stderr} if stderr else {})
    if not outcome.code:
        return None
    final = result.final or {}
    messages = clean_messages(final)
    errors = [message for message in messages if message.level != "warning"]
    warnings = [message for message in messages if message.level == "warning"]  # they may give the reason
    texts = [error.text for error in errors[:_FIRST]]
    all_texts = "\n".join((*texts, stderr))
    if any(text in all_texts for text in _FULL):
        message = f"{toolbox.title} had no space left for its temporary files, which are held in memory."
        suggestion = "Ask for less, or ask the operator to raise the setting scratch_size (--scratch-size)."
        return ToolError(Code.DISK_LIMIT, Stage.RUN, message, suggestion, {toolbox.name: texts})
    done = "finished with errors" if final.get("done") is True else "failed"
    message = f"{toolbox.title} {done}; nothing was published." if writes else f"{toolbox.title} {done}."
    general = GENERAL_ADVICE.format(toolbox.title)
    rest = unreported_stderr(stderr, errors[:_FIRST])
    untrusted = {toolbox.name: texts, **({"stderr": rest} if rest else {})}
    suggestion = toolbox.answering.suggest([*errors, *warnings]) or general
    return ToolError(toolbox.answering.failure, Stage.RUN, message, suggestion, untrusted)


def _explained(outcome: Outcome, toolbox: Toolbox) -> tuple[Code, str, str]:
    """Code, message and suggestion for a job that was stopped."""
    match outcome:
        case Cancelled():
            return Code.CANCELLED, "the call was cancelled and its container removed.", ""
        case Killed(from_outside=True):
            return (
                Code.ENGINE_UNAVAILABLE,
                f"the container was ended from outside (exit code {outcome.exit_code}), as by an engine that stops or restarts.",
                "Nothing was published. Call again; if it ends like that each time, the file is damaged or hostile.",
            )
        case Killed():
            message = f"{toolbox.title} crashed (exit code {outcome.exit_code})."
            return toolbox.answering.failure, message, "The file may be damaged or hostile."
        case Evicted(reason=reason):
            return (
                Code.ENGINE_UNAVAILABLE,
                f"the cluster took the call's container away: {clean_text(reason, 300)}",
                "Nothing was published. Call again; if that never helps, ask for less, or give the cluster's nodes more.",
            )
        case DiskLow():
            message = (
                "the disk of the workspace was nearly full, so the call was ended before it took the rest."
            )
            return Code.DISK_LIMIT, message, "Free some space there, or write to a workspace on another disk."
        case ProtocolViolated() | Exited() | Declined() | HostReadFailed():
            message = "the container did not answer as a worker does."
            return Code.INTERNAL, message, "Report the file that did this."
        case _:
            return _limited(outcome, toolbox.title)


def _limited(outcome: _Limit, title: str) -> tuple[Code, str, str]:
    """Code, message and suggestion for a job that reached a limit which a setting can raise."""
    match outcome:
        case OutputLimitExceeded(limit_bytes=limit):
            message = f"{title} printed more than {limit >> 10} KiB."
            return Code.OUTPUT_LIMIT, message, "Ask for less, or write to a file."
        case TimedOut(seconds=limit):
            return Code.TIMEOUT, f"the call was stopped after {limit:g} s.", f"{_RAISE}timeout-seconds."
        case OutOfMemory(limit_bytes=limit, killed=killed):
            how = "was killed at" if killed else "could not allocate within"
            message = f"{title} {how} its {limit >> 20} MiB of memory."
            return Code.MEMORY_LIMIT, message, f"{_RAISE}memory."
        case StagingLimitExceeded(what="files", limit=limit):
            return Code.DISK_LIMIT, f"the output has more than {limit} files.", f"{_RAISE}staging-files."
        case StagingLimitExceeded(limit=limit):
            return Code.DISK_LIMIT, f"the output grew over {size_text(limit)}.", f"{_RAISE}staging-size."
        case FileSizeExceeded(limit_bytes=limit):
            return Code.DISK_LIMIT, f"a file grew over {limit >> 20} MiB.", f"{_RAISE}file-size."


def clean_messages(final: Mapping[str, Any]) -> list[LibraryMessage]:
    """The library's messages, cleaned. Malformed rows are left out."""
    rows = final.get("errors")
    messages: list[LibraryMessage] = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            text, count = clean_text(str(row.get("message", "")), 500), row.get("count")
            count = count if type(count) is int and 1 <= count < 1 << 31 else 1
            messages.append(LibraryMessage(text, count, str(row.get("level"))))
    return messages


def stderr_of(result: SandboxResult) -> str:
    return clean_text(result.stderr.decode("utf-8", "replace"), STDERR_CHARACTERS)


def unreported_stderr(stderr: str, messages: Iterable[LibraryMessage]) -> str:
    """The lines of stderr that are not among these messages. Programs print messages there too, after a label such as
    `Warning 1:`.
    """
    texts = {line.strip()[:_COMPARED] for message in messages for line in message.text.splitlines()}
    lines = stderr.splitlines(keepends=True)
    rest = [line for line in lines if _LABEL.sub("", line).strip()[:_COMPARED] not in texts]
    return "".join(_folded(rest)).lstrip("\n")


def _folded(lines: Sequence[str]) -> Iterator[str]:
    """Merges lines that differ only in their numbers, with their count: GEOS prints one for each geometry."""
    shapes = [_NUMBERS.sub("#", line) for line in lines]
    counts = Counter(shapes)
    seen: set[str] = set()
    for line, shape in zip(lines, shapes, strict=True):
        many = counts[shape] >= _MANY_LINES and bool(shape.strip())
        if many and shape in seen:
            continue
        seen.add(shape)
        yield f"{line.rstrip()} ({counts[shape]} lines such as this)\n" if many else line
