"""Exit codes, and our own failures as one sentence each."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from gdal_mcp.cli.streams import say
from gdal_mcp.errors import Code, ToolError


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2  # the code of argparse
    NOT_READY = 3
    REFUSED = 4
    DENIED = 5
    TIMEOUT = 6
    LIMIT = 7
    BUSY = 8
    INTERRUPTED = 130  # 128 + SIGINT, as in shells
    UNREAD = 141  # 128 + SIGPIPE


_MEANINGS: Final = {
    Exit.DONE: "done",
    Exit.FAILED: "other failure",
    Exit.USAGE: "wrong command or setting",
    Exit.NOT_READY: "engine, image or host not ready",
    Exit.REFUSED: "wrong call or workflow step",
    Exit.DENIED: "denied",
    Exit.TIMEOUT: "timeout",
    Exit.LIMIT: "limit of memory, disk or output",
    Exit.BUSY: "busy or rate limit",
    Exit.INTERRUPTED: "interrupted",
    Exit.UNREAD: "output closed",
}

# exit code by the error of a call; every other error is FAILED
_OF_ERRORS: Final[Mapping[Code, Exit]] = {
    Code.ENGINE_UNAVAILABLE: Exit.NOT_READY,
    Code.PATH_NOT_ALLOWED: Exit.REFUSED,
    Code.NOT_FOUND: Exit.REFUSED,
    Code.INVALID_ARGUMENT: Exit.REFUSED,
    Code.FORMAT_UNAVAILABLE: Exit.REFUSED,
    Code.NETWORK_BLOCKED: Exit.REFUSED,
    Code.DENIED: Exit.DENIED,
    Code.APPROVAL_EXPIRED: Exit.DENIED,
    Code.TIMEOUT: Exit.TIMEOUT,
    Code.MEMORY_LIMIT: Exit.LIMIT,
    Code.DISK_LIMIT: Exit.LIMIT,
    Code.OUTPUT_LIMIT: Exit.LIMIT,
    Code.BUSY: Exit.BUSY,
    Code.RATE_LIMITED: Exit.BUSY,
}


def meanings() -> str:
    """Every exit code in one sentence, for help and documentation."""
    return f"Exit codes: {', '.join(f'{code:d} {meaning}' for code, meaning in _MEANINGS.items())}."


def exit_of(error: ToolError | None) -> Exit:
    """The exit code of a call by the kind of its error."""
    return Exit.DONE if error is None else exit_of_code(error.code)


def exit_of_code(code: Code) -> Exit:
    return _OF_ERRORS.get(code, Exit.FAILED)


def guarded(work: Callable[[], Exit], tell: Callable[[str], None] = say) -> Exit:
    """The exit code of `work`. Our own failures are printed and become exit codes."""
    # imported for a command that runs, and not for help
    from gdal_mcp.policy.tokens import TokensUnavailable
    from gdal_mcp.records.audit_files import AuditUnavailable
    from gdal_mcp.records.registry import RegistryUnavailable
    from gdal_mcp.settings import SettingsError
    from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken
    from sandbox.errors import PathRefused, SandboxError, StagingFailed

    try:
        return work()
    except (SettingsError, PathRefused) as error:
        tell(str(error))
        return Exit.USAGE
    except (
        StagingFailed,
        AuditUnavailable,
        CatalogueBroken,
        RegistryUnavailable,
        TokensUnavailable,
    ) as error:
        tell(str(error))
        return Exit.FAILED
    except SandboxError as error:
        tell(str(error))
        return Exit.NOT_READY
