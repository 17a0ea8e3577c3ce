"""The output of `gdal-mcp doctor --report`: facts about this host that matter to calls, without private data.

Invariants:
* Only names of settings and environment variables are printed, never values.
* This user's folders, the names of the user and the machine, and the engine's address are replaced by their roles.
"""

import datetime as dt
import getpass
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gdal_mcp import __version__
from gdal_mcp.runtime.nested import in_container
from gdal_mcp.server.operations.examine import DoctorReport
from gdal_mcp.settings import PREFIX, Settings
from sandbox.engines.discovery import endpoints
from sandbox.errors import EngineUnavailable
from sandbox.mounted import kind_at
from sandbox.portable import missing_features, mount_table

_ENGINE_VARIABLES: Final = ("DOCKER_", "CONTAINER_HOST", "XDG_RUNTIME_DIR")
_ADDRESS: Final = re.compile(r"\b(?:tcp|http|https|ssh)://[^\s\"']+")


def shareable(settings: Settings, report: DoctorReport) -> dict[str, Any]:
    """The report's facts and rows. Opens no connection."""
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        system = platform.platform()
    places, table = (*settings.workspaces, *settings.workspaces_ro, settings.state_dir), mount_table()
    facts = {
        "program": {
            "gdal-mcp": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("mcp", "docker")},
        },
        "system": {
            "name": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "os": system,
            "root": os.geteuid() == 0,
            "in_container": in_container(),
            "missing": missing_features(),
        },
        "set": sorted(name for name in os.environ if name.startswith((PREFIX, *_ENGINE_VARIABLES))),
        "sockets": _sockets(settings),
        "file_systems": {
            str(place): kind_at(place.resolve(), table) if table else "unknown" for place in places
        },
        "host": _host(settings, report, system, kind_at(places[0].resolve(), table) if table else "unknown"),
        **report.as_dict(),
    }
    replaced = sorted(_private(settings), key=lambda pair: -len(pair[0]))
    return {str(key): _without(value, replaced) for key, value in facts.items()}


def _host(settings: Settings, report: DoctorReport, system: str, file_system: str) -> dict[str, str]:
    """This host as a row of the table in docs/platforms.md, to which `python -m docs.hosts` adds it."""
    engine = report.facts.get("engine") or {}
    failed = next((row for row in report.rows if row.state == "failed"), None)
    release = platform.release().partition("-")[0]
    controllers = Path("/sys/fs/cgroup/cgroup.controllers").is_file()
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "version": __version__,
        "system": f"{system}, {platform.system()} {release}, control groups {'2' if controllers else '1'}",
        "engine": f"{engine['name']} {engine['version']}" if engine else settings.engine or "none",
        "file_system": file_system,
        "user": "root" if os.geteuid() == 0 else "ordinary",
        "result": "works" if failed is None else "refused",
        "message": failed.found if failed else "",
    }


def _private(settings: Settings) -> Iterator[tuple[str, str]]:
    """Private texts and their replacements."""
    for number, folder in enumerate((*settings.workspaces, *settings.workspaces_ro), 1):
        yield from ((str(path), f"WORKSPACE-{number}") for path in {folder, folder.resolve()})
    yield str(settings.state_dir), "STATE"
    yield from ((str(path), "POLICY") for path in (settings.policy, settings.config) if path)
    with suppress(EngineUnavailable):
        named = (endpoint.socket for endpoint in endpoints(settings.engine, os.environ) if endpoint.named)
        yield from ((str(socket), "ENGINE") for socket in named if socket)
    yield platform.node(), "MACHINE"
    yield str(Path.home()), "HOME"
    yield sys.prefix, "PROGRAM"
    with suppress(KeyError, OSError):
        if (user := getpass.getuser()) != "root":  # identifies no person, and occurs in many paths
            yield user, "USER"


def _without(value: Any, replaced: list[tuple[str, str]]) -> Any:
    if isinstance(value, dict):
        return {
            _without(key, replaced) if key.startswith("/") else key: _without(inner, replaced)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without(inner, replaced) for inner in value]
    if not isinstance(value, str):
        return value
    for private, shown in replaced:
        if private not in ("", "/"):
            value = re.sub(rf"(?<![\w-]){re.escape(private)}(?![\w-])", shown, value)
    return _ADDRESS.sub("ADDRESS", value)


def _sockets(settings: Settings) -> list[str]:
    """The sockets where engines are searched for, and what exists there."""
    try:
        places = endpoints(settings.engine, os.environ)
    except EngineUnavailable as error:
        return [str(error)]
    return [
        f"{endpoint}: {'there' if endpoint.socket and endpoint.socket.exists() else 'not there'}"
        for endpoint in places
    ]
