"""Writes what clients get of every tool, one file for each toolset: `python -m tests.snapshots`.

The files are reviewed, not only generated: whoever changes a tool reads the difference before it is committed, since that
is what every client will read.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gdal_mcp.server.mcp import render
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.augment.toolbox import augment
from gdal_mcp.toolboxes.python.toolbox import python
from gdal_mcp.tools.toolbox import TOOLSETS
from tests.boxes import surface

FOLDER = Path(__file__).parent
SETS = (*(name for name in TOOLSETS if name != "all"), "python", "augment")


def tools_of(toolset: str) -> Iterator[dict[str, Any]]:
    """The tools of a server with this toolset alone, as `tools/list` gives them and in its order."""
    chosen = Settings.model_construct(
        toolsets=(toolset,), tools=(), exclude_tools=(), read_only=False, stdout_size=0
    )
    further = {**python(chosen).toolsets, **augment(chosen).toolsets}
    for tool in further[toolset]() if toolset in further else surface(chosen).listed:
        yield render.tool(tool).model_dump(mode="json", by_alias=True, exclude_none=True)


def texts() -> Mapping[str, str]:
    """The files by name, as they must be now."""
    return {
        f"{name}.json": json.dumps(list(tools_of(name)), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name in SETS
    }


def write(folder: Path = FOLDER) -> list[str]:
    """Writes every file anew and takes away those of no toolset. Returns the names of those that changed."""
    new = texts()
    old = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    for name in old.keys() - new.keys():
        (folder / name).unlink()
    for name, text in new.items():
        (folder / name).write_text(text, encoding="utf-8")
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


if __name__ == "__main__":
    changed = write()
    sys.stdout.write(f"written: {', '.join(changed)}; read the difference\n" if changed else "no change\n")
