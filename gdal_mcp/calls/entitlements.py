"""The permissions of each principal: workspaces, tools, limits. Set by the policy, fixed at the server's start.

Invariants:
* entitlements are never wider than the server itself: entries of the policy only narrow;
* a workspace outside a principal's entitlements is in no mount, list or path of that principal's calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.policy.policy import Policy, PolicyEntry
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import spelling
from gdal_mcp.toolboxes.preflight import Preflight
from gdal_mcp.toolboxes.surface import Surface, Toolboxes
from sandbox.template import Limits
from sandbox.workspace import Workspaces


@dataclass(frozen=True)
class Entitlements:
    settings: Settings
    workspaces: Workspaces
    surface: Surface
    limits: Limits
    preflights: Mapping[str, Preflight]  # by the toolbox's name
    entry: PolicyEntry | None = None

    @classmethod
    def full(cls, settings: Settings, workspaces: Workspaces, toolboxes: Toolboxes) -> "Entitlements":
        """The entitlements of the whole server. Raises SettingsError."""
        limits = settings.limits()
        preflights = {box.name: box.analysis.preflight(limits) for box in toolboxes.items}
        return cls(settings, workspaces, toolboxes.surface(settings), limits, preflights)


@dataclass(frozen=True)
class EntitlementResolver:
    """The entitlements of every principal, computed at the start."""

    full: Entitlements
    policy: Policy
    toolboxes: Toolboxes
    # one for each entry of the policy, in the same order
    _narrowed: list[Entitlements] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Narrows the full entitlements for each entry. Raises SettingsError for an entry without any permission."""
        self._narrowed.extend(narrowed(self.full, entry, self.toolboxes) for entry in self.policy.entries)

    def of(self, principal: str) -> Entitlements:
        """The entitlements of a principal. Raises ToolError (DENIED) for a principal that the policy does not name."""
        if not self.policy.entries:  # without entries everybody has everything
            return self.full
        entry = self.policy.entry(principal)
        if entry is None:
            raise ToolError(
                Code.DENIED,
                Stage.POLICY,
                "the server's policy gives you nothing.",
                "Ask the person who runs the server for an entry in its policy file.",
            )
        return self._narrowed[self.policy.entries.index(entry)]


def narrowed(full: Entitlements, entry: PolicyEntry, toolboxes: Toolboxes) -> Entitlements:
    """The part of the full entitlements that a policy entry permits. Raises PathRefused if no workspace remains."""
    limits = full.limits
    limits = replace(
        limits,
        memory_bytes=min(limits.memory_bytes, entry.memory or limits.memory_bytes),
        cpus=min(limits.cpus, entry.cpus or limits.cpus),
        wall_seconds=min(limits.wall_seconds, entry.timeout_seconds or limits.wall_seconds),
    )
    chosen = [
        replace(
            workspace,
            writable=workspace.writable and not entry.read_only and workspace.root not in entry.workspaces_ro,
        )
        for workspace in full.workspaces.items
        if entry.workspaces is None or workspace.root in (*entry.workspaces, *entry.workspaces_ro)
    ]
    writable = any(workspace.writable for workspace in chosen)
    names, patterns = toolboxes.names, entry.tools
    excluded = sorted(name for name in names if _fits(name, entry.exclude_tools))
    outside = () if patterns is None else tuple(name for name in names if not _fits(name, patterns))
    settings = full.settings.model_copy(
        update={
            "read_only": full.settings.read_only or entry.read_only or not writable,
            "memory": limits.memory_bytes,
            "cpus": limits.cpus,
            "timeout_seconds": limits.wall_seconds,
            "exclude_tools": (*full.settings.exclude_tools, *excluded),
        }
    )
    return Entitlements(
        settings,
        Workspaces(tuple(chosen)),
        toolboxes.surface(settings, outside),
        limits,
        {name: preflight.within(limits) for name, preflight in full.preflights.items()},
        entry,
    )


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    """True if a name matches a pattern in either spelling.

    So `raster_*` matches both the tools and the algorithms that they run.
    """
    return any(fnmatchcase(variant, pattern) for variant in (name, spelling(name)) for pattern in patterns)
