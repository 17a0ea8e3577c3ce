"""Finds the state folder of a call or a question by its id, and the workspaces of a call.

A server whose state folder is not the usual one leaves a link to it in the usual one, where these commands look for it.
"""

import hashlib
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from gdal_mcp.records.registry import Call, Registry
from gdal_mcp.settings import Settings, SettingsError
from sandbox.workspace import RESERVED

_LINKS: Final = "others"


def leave_link(settings: Settings) -> None:
    """Leaves a link by which `approve`, `undo` and `replay` find this state folder.

    A failure is ignored, because these commands accept `--state-dir`.
    """
    usual = usual_folder()
    if settings.state_dir == usual:
        return
    name = hashlib.sha256(bytes(settings.state_dir)).hexdigest()[:16]
    with suppress(OSError):
        (usual / _LINKS).mkdir(parents=True, exist_ok=True, mode=0o700)
        (usual / _LINKS / name).symlink_to(settings.state_dir)


def usual_folder() -> Path:
    """The default state folder."""
    folder: Path = Settings.model_fields["state_dir"].get_default(call_default_factory=True)
    return folder


def settings_for_question(settings: Settings, question: str) -> Settings:
    """The settings with the state folder that has the open question."""
    return _with_state(settings, "SELECT 1 FROM approvals WHERE id = ?", question)


def settings_for_call(settings: Settings, call_id: str) -> Settings:
    """The settings with the state folder that has the call's record and, unless set, the call's workspaces.

    Raises SettingsError if no workspace is set and there is no record of the call.
    """
    with_state = _with_state(settings, "SELECT 1 FROM calls WHERE id = ?", call_id)
    if with_state.workspaces or with_state.workspaces_ro:
        return with_state
    call = _recorded(with_state.state.registry, call_id)
    if call is None:
        raise SettingsError(
            f"there is no record of call {call_id[:40]!r} in {with_state.state_dir}. Check the id, or name the server's folder with --state-dir"
        )
    return with_state.model_copy(update=_workspaces(call))


def _recorded(path: Path, call_id: str) -> Call | None:
    if not path.exists():
        return None
    with closing(Registry(path)) as registry:
        return registry.call(call_id)


def _workspaces(call: Call) -> dict[str, tuple[Path, ...]]:
    """Workspaces that the call wrote to, which have the server's own folder, and those that it only read."""
    written = [str(row["path"]) for row in (*call.outputs, *call.files)] + list(call.removed)
    roots = (
        next((folder for folder in Path(path).parents if (folder / RESERVED).is_dir()), None)
        for path in written
    )
    writable = tuple(dict.fromkeys(root for root in roots if root is not None))
    mounts = (str(mount).rpartition(":") for mount in call.receipt.get("mounts", ()))
    visible = (Path(path) for path, _, mode in mounts if mode == "ro")
    return {
        "workspaces": writable,
        "workspaces_ro": tuple(folder for folder in visible if folder.is_dir() and folder not in writable),
    }


def _with_state(settings: Settings, query: str, wanted: str) -> Settings:
    if "state_dir" in settings.model_fields_set:
        return settings
    usual = usual_folder()
    folders = [usual]
    with suppress(OSError):
        folders += sorted(link.resolve() for link in (usual / _LINKS).iterdir() if link.is_dir())
    for folder in folders:
        candidate = settings.model_copy(update={"state_dir": folder})
        uri = f"{candidate.state.registry.as_uri()}?mode=ro"
        with suppress(sqlite3.Error, OSError), closing(sqlite3.connect(uri, uri=True)) as database:
            if database.execute(query, (wanted,)).fetchone() is not None:
                return candidate
    return settings
