"""Which tools a server has: chosen once from its settings, and never changed by a call.

* a toolset or a name lists a tool; `exclude_tools` takes away what bears the name and whatever would run it, wherever that
  would be reached: a tool for it, an algorithm that may come to it, a step of a pipeline;
* a read-only server has no tool that can write, and refuses every draft that would;
* with the default toolset the classic programs answer too, unlisted, for clients that know their names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

from gdal_mcp.gdal.catalogue.aliases import aliases_of
from gdal_mcp.gdal.catalogue.load import catalogue
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.tools.algorithm import spelling
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.direct import direct_tool
from gdal_mcp.tools.listing import core
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


def surface(settings: Settings, outside: Iterable[str] = ()) -> Surface:
    """The tools that the settings ask for, but for the names `outside` a list of what is given.

    Such a list says nothing of what its tools run, as an exclusion does: who is given `info` alone may use it. Raises
    SettingsError for a name that is no tool.
    """
    _refuse_unknown(settings)
    written = _written(settings.exclude_tools)
    excluded = written | {spelling(name) for name in outside}
    chosen = [tool for tool in _asked(settings) if _allowed(tool, settings, excluded, written)]
    quiet = CLASSIC if settings.toolsets == DEFAULT else ()
    answering = [*chosen, *(tool for tool in quiet if _allowed(tool, settings, excluded, written))]
    return Surface(
        tuple(chosen), MappingProxyType({tool.name: tool for tool in reversed(answering)}), excluded
    )


def _written(names: Iterable[str]) -> frozenset[str]:
    """Spellings of what somebody excluded, and of the algorithms that may come to it."""
    excluded = {spelling(name) for name in names}
    generic = aliases_of(catalogue()).generic.items()
    wider = {name for name, kinds in generic if any(spelling(kind) in excluded for kind in kinds)}
    return frozenset(excluded | wider)


def _allowed(tool: Tool, settings: Settings, excluded: frozenset[str], written: frozenset[str]) -> bool:
    pictures = tool is PREVIEW and settings.lockdown  # a picture can show words
    runs = (spelling(path) for path in aliases_of(catalogue()).resolves_to(tool.name, tool.like))
    gone = spelling(tool.name) in excluded or any(path in written for path in runs)
    return not gone and not (settings.read_only and tool.writes) and not pictures


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
        return core(catalogue())
    if name == "classic":
        return CLASSIC
    return tuple(
        direct_tool(catalogue(), path)
        for path in catalogue().algorithms
        if path.split(" ")[0] == name and " " in path
    )


@lru_cache(maxsize=1)
def known_tools() -> Mapping[str, Tool]:
    """Every tool there is, by name."""
    generated = [direct_tool(catalogue(), path) for path in catalogue().algorithms if " " in path]
    return {tool.name: tool for tool in (*generated, *CLASSIC, *core(catalogue()))}


def _refuse_unknown(settings: Settings) -> None:
    names = {spelling(name) for name in (*known_tools(), *catalogue().algorithms, *BESIDES)}
    for name in (*settings.tools, *settings.exclude_tools):
        if spelling(name) not in names:
            raise SettingsError(
                f"There is no tool or algorithm {name[:80]!r}; `gdal-mcp tools --all` lists them."
            )
