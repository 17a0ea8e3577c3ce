"""Exit codes, and our own failures as one sentence each."""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from gdal_mcp.cli.streams import say
from gdal_mcp.errors import Code, ToolError


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2  # as argparse has it
    NOT_READY = 3
    INTERRUPTED = 130  # 128 + SIGINT, as shells have it
    UNREAD = 141  # 128 + SIGPIPE


_MEANINGS: Final = {
    Exit.DONE: "done",
    Exit.FAILED: "the call or the command failed",
    Exit.USAGE: "the command or a setting was wrong",
    Exit.NOT_READY: "the engine, the image or the host is not ready",
    Exit.INTERRUPTED: "interrupted",
    Exit.UNREAD: "the reader of its output was gone",
}


def meanings() -> str:
    """Every exit code in one sentence, for help and documentation."""
    return f"Exit codes: {', '.join(f'{code:d} {meaning}' for code, meaning in _MEANINGS.items())}."


def exit_of(error: ToolError | None) -> Exit:
    if error is None:
        return Exit.DONE
    return Exit.NOT_READY if error.code is Code.ENGINE_UNAVAILABLE else Exit.FAILED


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
