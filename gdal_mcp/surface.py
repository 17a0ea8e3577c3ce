"""Which tools a server has: chosen once from its settings, and never changed by a call.

* a toolset or a name lists a tool; `exclude_tools` takes a tool and its algorithm away, wherever they would be reached;
* a read-only server has no tool that can write, and refuses every draft that would;
* with the default toolset the classic programs answer too, unlisted, for clients that know their names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

from gdal_mcp.catalogue.load import catalogue
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.tools.algorithm import spelling
from gdal_mcp.tools.direct import direct_tool
from gdal_mcp.tools.listing import CLASSIC, core
from gdal_mcp.tools.look import PREVIEW
from gdal_mcp.tools.model import Tool

DEFAULT = ("core",)
# what a policy may name too: HTTP takes files in by it, and no tool of the protocol is it
BESIDES = ("upload",)
_GROUPS = ("raster", "vector", "mdim", "dataset", "driver", "vsi")


@dataclass(frozen=True)
class Surface:
    """The tools of one server. `listed` is what clients see, in order; `callable` what answers."""

    listed: tuple[Tool, ...]
    callable: Mapping[str, Tool]
    excluded: frozenset[str]  # spellings of tools and of algorithms

    def permits(self, algorithm: str) -> bool:
        """Whether an algorithm, or a step of a pipeline that is one, may run on this server."""
        return spelling(algorithm) not in self.excluded

    @cached_property
    def algorithms(self) -> frozenset[str]:
        """The algorithms that this server runs."""
        return frozenset(path for path in catalogue().algorithms if self.permits(path))


def surface(settings: Settings) -> Surface:
    """The tools that the settings ask for. Raises SettingsError for a name that is no tool."""
    excluded = frozenset(spelling(name) for name in settings.exclude_tools)
    chosen = [tool for tool in _asked(settings) if _allowed(tool, settings, excluded)]
    _refuse_unknown(settings)
    quiet = CLASSIC if settings.toolsets == DEFAULT else ()
    answering = [*chosen, *(tool for tool in quiet if _allowed(tool, settings, excluded))]
    return Surface(
        tuple(chosen), MappingProxyType({tool.name: tool for tool in reversed(answering)}), excluded
    )


def _allowed(tool: Tool, settings: Settings, excluded: frozenset[str]) -> bool:
    pictures = tool is PREVIEW and settings.lockdown  # a picture can show words
    return spelling(tool.name) not in excluded and not (settings.read_only and tool.writes) and not pictures


def _asked(settings: Settings) -> Iterable[Tool]:
    """Every tool that is asked for, once: a hand-picked one goes before the generated one of the same name."""
    seen: set[str] = set()
    groups = _all_groups() if "all" in settings.toolsets else settings.toolsets
    named = (known_tools()[name] for name in settings.tools if name in known_tools())
    for tool in (*(tool for group in groups for tool in _toolset(group)), *named):
        if tool.name not in seen:
            seen.add(tool.name)
            yield tool


def _all_groups() -> tuple[str, ...]:
    return ("core", *_GROUPS, "classic")


def _toolset(name: str) -> tuple[Tool, ...]:
    if name == "core":
        return core()
    if name == "classic":
        return CLASSIC
    return tuple(
        direct_tool(path) for path in catalogue().algorithms if path.split(" ")[0] == name and " " in path
    )


@lru_cache(maxsize=1)
def known_tools() -> Mapping[str, Tool]:
    """Every tool there is, by name."""
    generated = [direct_tool(path) for path in catalogue().algorithms if " " in path]
    return {tool.name: tool for tool in (*generated, *CLASSIC, *core())}


def _refuse_unknown(settings: Settings) -> None:
    names = {spelling(name) for name in (*known_tools(), *catalogue().algorithms, *BESIDES)}
    for name in (*settings.tools, *settings.exclude_tools):
        if spelling(name) not in names:
            raise SettingsError(
                f"There is no tool or algorithm {name[:80]!r}; `gdal-mcp tools --all` lists them."
            )
