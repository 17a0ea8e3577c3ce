"""`gdal-mcp clients`: the entry by which a client starts this server, and writing it to the client's configuration file.

Invariants:
* nothing is written unless a person or the command line agrees;
* all other content of the file is preserved, as its format defines content; if that is not certain, the file is not changed;
* the file is replaced atomically, and a copy of the old file is written next to it.
"""

import errno
import json
import os
import secrets
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from platformdirs import user_config_path

from gdal_mcp import __version__
from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.streams import confirm, out, say
from gdal_mcp.invoked import PACKAGE, in_uvx, typed, uvx_source
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.settings.state import put_private

NAME: Final = "gdal"  # name of the entry
_TRIES: Final = 5  # attempts to write a file that another program changes at the same time

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """A program that reads servers from a file. `path` is below the home folder, or the folder of all programs' settings."""

    title: str
    path: str
    key: str = "mcpServers"  # name of the table of servers
    in_home: bool = True
    typed: bool = False  # True if an entry names its transport, stdio

    @property
    def file(self) -> Path:
        if self.path.startswith(".codex") and (moved := os.environ.get("CODEX_HOME")):
            return Path(moved) / Path(self.path).name
        return (Path.home() if self.in_home else user_config_path(roaming=True)) / self.path

    def entry(self, settings: Settings) -> Entry:
        command, *arguments = _program()
        kind = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command, "args": [*arguments, "serve", *_folders(settings)]}

    def shown(self, entry: Entry) -> str:
        """The entry in the format of the client's file."""
        if self.file.suffix == ".toml":
            lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in entry.items())
            return f"[{self.key}.{NAME}]\n{''.join(lines)}"
        return json.dumps({self.key: {NAME: entry}}, indent=2, ensure_ascii=False) + "\n"


_CODE: Final = "Code/User"
CLIENTS: Final[Mapping[str, Client]] = {
    "claude-desktop": Client("Claude Desktop", "Claude/claude_desktop_config.json", in_home=False),
    "claude-code": Client("Claude Code", ".claude.json", typed=True),
    "vscode": Client("VS Code", f"{_CODE}/mcp.json", "servers", in_home=False, typed=True),
    "cursor": Client("Cursor", ".cursor/mcp.json"),
    "codex": Client("Codex", ".codex/config.toml", "mcp_servers"),
    "cline": Client(
        "Cline",
        f"{_CODE}/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        in_home=False,
    ),
    "windsurf": Client("Windsurf", ".codeium/windsurf/mcp_config.json"),
    "gemini": Client("Gemini CLI", ".gemini/settings.json"),
    "zed": Client("Zed", ".config/zed/settings.json", "context_servers"),
}


def _program() -> list[str]:
    """The command that starts this program. Paths are absolute, because graphical clients have another PATH than a shell."""
    uv = os.environ.get("UV")
    if not uv or not in_uvx():
        return [sys.executable, "-m", "gdal_mcp"]
    uvx, source = str(Path(uv).with_name("uvx")), uvx_source()
    return [uvx, "--from", source, PACKAGE] if source else [uvx, f"{PACKAGE}@{__version__}"]


def _folders(settings: Settings) -> list[str]:
    named = (("--workspace", settings.workspaces), ("--workspace-ro", settings.workspaces_ro))
    if gone := [folder for _, folders in named for folder in folders if not folder.is_dir()]:
        raise SettingsError(f"the folder {gone[0]} does not exist. Create it, or name another one")
    return [
        word for option, folders in named for folder in folders for word in (option, str(folder.resolve()))
    ]


def show(settings: Settings) -> Exit:
    """Prints the entry for every client and its file. Raises SettingsError without a workspace."""
    settings.require_workspaces()
    for name, client in CLIENTS.items():
        out(f"# {client.title}: {client.file}\n# {typed(f'gdal-mcp clients install {name}')}")
        out(client.shown(client.entry(settings)))
    return Exit.DONE


def install(settings: Settings, client: str, *, assume_yes: bool) -> Exit:
    """Writes the entry to a client's file. Raises SettingsError if that could lose other content of the file."""
    settings.require_workspaces()
    known = CLIENTS.get(client)
    if known is None:
        raise SettingsError(f"client {client[:40]!r} is not known; known are {', '.join(CLIENTS)}")
    entry, path = known.entry(settings), known.file.resolve()
    if _merged(known, path, entry) is None:
        out(f"{path} has this entry already.")
        return Exit.DONE
    question = f"This will be added to {path}:\n\n{known.shown(entry)}\nWrite it?"
    if not assume_yes and not confirm(question, "--yes"):
        return Exit.FAILED
    try:
        copy = _write(known, path, entry)
    except OSError as error:
        say(f"{path} could not be written: {error.strerror}")
        return Exit.FAILED
    out(f"{path} was changed{f'; a copy of the old file is {copy}' if copy else ''}. Restart {known.title}.")
    return Exit.DONE


@dataclass(frozen=True, slots=True)
class _Merged:
    """A file's old content, None if it does not exist, and its new content."""

    old: bytes | None
    new: bytes


def _merged(client: Client, path: Path, entry: Entry) -> _Merged | None:
    """The file with the entry; None if it has the entry. Raises SettingsError if adding it could lose other content."""
    try:
        old = path.read_bytes() if path.exists() else None
        text = (old or b"").decode()
        new = _with_toml(client, text, entry) if path.suffix == ".toml" else _with_json(client, text, entry)
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(
            f"{path} was not changed: {error}. Add this by hand:\n{client.shown(entry)}"
        ) from error
    return None if new is None else _Merged(old, new.encode())


def _write(client: Client, path: Path, entry: Entry) -> Path | None:
    """Replaces the file, and returns the path of the copy of the old one. Raises OSError, SettingsError.

    The file is read again, because its owner or the client may have changed it while a person was deciding. The copy is a hard
    link, so that it includes changes up to the last moment. If the file was changed after it was read, all steps are repeated.
    """
    for _ in range(_TRIES):
        merged = _merged(client, path, entry)
        if merged is None:
            return None
        if merged.old is None:
            put_private(path, merged.new)
            return None
        copy = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}.bak")
        try:
            os.link(path, copy)
        except OSError:  # a file system without hard links
            put_private(copy, path.read_bytes(), path.stat().st_mode & 0o777)
        if copy.read_bytes() == merged.old:
            put_private(path, merged.new, copy.stat().st_mode & 0o777)
            return copy
        copy.unlink()
    raise OSError(errno.EBUSY, "another program keeps changing it")


def _with_json(client: Client, old: str, entry: Entry) -> str | None:
    """The file with the entry; None if it has the entry. Keys that a person added to our entry are kept."""
    document = json.loads(old, object_pairs_hook=_once) if old.strip() else {}
    there = _table(_table(document, client.key), NAME)
    if entry.items() <= there.items():
        return None
    there.update(entry)
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _with_toml(client: Client, old: str, entry: Entry) -> str | None:
    document = tomllib.loads(old)
    servers = _table(document, client.key)
    if NAME in servers:
        if entry.items() <= _table(servers, NAME).items():
            return None
        raise ValueError(f"it has another [{client.key}.{NAME}] already")
    new = f"{old.rstrip()}\n\n{client.shown(entry)}".lstrip()
    servers[NAME] = entry
    if tomllib.loads(new) != document:
        raise ValueError("the entry cannot be added at its end")
    return new


def _table(document: Any, key: str) -> Entry:
    """The table of this name, created if missing. Raises ValueError."""
    table = document.setdefault(key, {}) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise ValueError(f"{key!r} in the file is not a table")  # noqa: TRY004 - as for all else that the file may hold
    return table


def _once(pairs: list[tuple[str, Any]]) -> Entry:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name occurs twice in it")
    return dict(pairs)
