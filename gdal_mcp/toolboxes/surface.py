"""The tools that a server has: chosen once from its settings, and never changed by a call.

* A toolset or a name lists a tool. `exclude_tools` removes everything with that name and everything that would run
  it: tools, operations that can reach it, steps of pipelines.
* A read-only server has no tool that can write, and refuses every draft that would.
* With the default toolset, tools that a toolbox does not list answer too, for clients that know their names.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gdal_mcp.policy.policy import Aliases
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.toolboxes.base import Prompt, Tool, spelling
from gdal_mcp.toolboxes.toolbox import Toolbox

# not an MCP tool: it receives files over HTTP, and a policy may name it too
HTTP_TOOLS = ("upload",)


@dataclass(frozen=True)
class Surface:
    """The tools of one server. `listed` is what clients see, in order; `callable` is what they can call."""

    listed: tuple[Tool, ...]
    callable: Mapping[str, Tool]
    excluded: frozenset[str]  # tools and operations that may not run, in the common spelling
    toolboxes: Mapping[str, Toolbox]  # by tool name

    def permits(self, operation: str) -> bool:
        """True if an operation, or a pipeline step that is one, may run on this server."""
        return spelling(operation) not in self.excluded


@dataclass(frozen=True)
class Toolboxes:
    """The toolboxes of one server; the first one is the default."""

    items: tuple[Toolbox, ...]

    @property
    def tools(self) -> Mapping[str, Tool]:
        return {name: tool for box in reversed(self.items) for name, tool in box.tools.items()}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(HTTP_TOOLS).union(*({*box.tools, *box.operations} for box in self.items))

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        return {name: prompt for box in reversed(self.items) for name, prompt in box.prompts().items()}

    @property
    def aliases(self) -> Aliases:
        generic = {name: paths for box in self.items for name, paths in box.aliases.generic.items()}
        return Aliases(
            generic, {name: paths for box in self.items for name, paths in box.aliases.besides.items()}
        )

    def surface(self, settings: Settings, outside: Iterable[str] = ()) -> Surface:
        """The tools that the settings request, without those that are `outside` a principal's list of tools.

        Unlike an exclusion, that list does not apply to what its tools run: a principal with only `info` can use all
        of it. Raises SettingsError for a name that is not a tool.
        """
        self._refuse_unknown(settings)
        aliases, excluded_names = self.aliases, {spelling(name) for name in settings.exclude_tools}
        generic = aliases.generic.items()
        wider = {name for name, runs in generic if any(spelling(path) in excluded_names for path in runs)}
        written = frozenset(excluded_names | wider)
        excluded = written | {spelling(name) for name in outside}

        def allowed(tool: Tool) -> bool:
            runs = (spelling(path) for path in aliases.resolves_to(tool.name, tool.like))
            gone = spelling(tool.name) in excluded or any(path in written for path in runs)
            hidden = tool.pictures and settings.lockdown
            return not (gone or hidden or (settings.read_only and tool.writes))

        requested: dict[str, Tool] = {}
        for tool in self._selected(settings):
            requested.setdefault(tool.name, tool)
        chosen = [tool for tool in requested.values() if allowed(tool)]
        first = self.items[0]
        default = settings.toolsets == (next(iter(first.toolsets)),)
        unlisted = [tool for name in first.unlisted for tool in first.toolsets[name]()] if default else []
        answering = [*chosen, *(tool for tool in unlisted if allowed(tool))]
        by_name = {tool.name: tool for tool in reversed(answering)}
        owners = {name: box for box in reversed(self.items) for name in (*box.tools, *HTTP_TOOLS)}
        return Surface(tuple(chosen), MappingProxyType(by_name), excluded, MappingProxyType(owners))

    def _selected(self, settings: Settings) -> Iterator[Tool]:
        """The tools that the settings name, possibly with repeats."""
        remote = ("remote",) if settings.remote.sources else ()
        for number, box in enumerate(self.items):
            wanted = tuple(box.toolsets) if "all" in settings.toolsets else (*settings.toolsets, *remote)
            # tools of additional toolboxes are listed once the operator enables the toolbox
            names = tuple(box.toolsets)[:1] if number and "all" not in settings.toolsets else wanted
            yield from (tool for name in names for tool in box.toolsets.get(name, tuple)())
        for name in settings.tools:
            yield from (box.tools[name] for box in self.items if name in box.tools)

    def _refuse_unknown(self, settings: Settings) -> None:
        toolsets = {"all", *(name for box in self.items for name in box.toolsets)}
        for name in settings.toolsets:
            if name not in toolsets:
                raise SettingsError(f"{name[:40]!r} is no toolset; they are {', '.join(sorted(toolsets))}.")
        names = {spelling(name) for name in self.names}
        for name in (*settings.tools, *settings.exclude_tools):
            if spelling(name) not in names:
                raise SettingsError(
                    f"There is no tool or algorithm {name[:80]!r}; `gdal-mcp tools --all` lists them."
                )
