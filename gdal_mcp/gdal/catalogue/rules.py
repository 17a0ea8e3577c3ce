"""The rules of `data/roles.toml`: which one an argument has. Pure.

Invariant: every rule is well-formed, whether or not an argument of the data has it.
"""

from collections.abc import Mapping
from typing import Any

from gdal_mcp.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.gdal.catalogue.model import Role, Rule


class Rules:
    """An algorithm's own rule for a name goes before the rule that all algorithms share, which holds for its types only."""

    def __init__(self, roles: Mapping[str, Any]) -> None:
        """Raises CatalogueBroken for a rule without a reason or without a role."""
        self._shared = {name: _parsed(f"shared {name}", entry) for name, entry in roles["shared"].items()}
        self._own = {
            (path, name): _parsed(f"{path} {name}", entry)
            for path, entries in roles.get("algorithm", {}).items()
            for name, entry in entries.items()
        }

    def rule(self, path: str, argument: Mapping[str, Any]) -> Rule | None:
        """The rule of an argument as GDAL describes it; None where there is none."""
        own = self._own.get((path, argument["name"]))
        if own is not None:
            return own if not own.types or argument["type"] in own.types else None
        shared = self._shared.get(argument["name"])
        return shared if shared is not None and argument["type"] in shared.types else None


def _parsed(where: str, entry: Mapping[str, Any]) -> Rule:
    if not entry.get("reason"):
        raise CatalogueBroken(f"rule {where} in roles.toml has no reason.")
    try:
        role = Role(entry["role"])
    except (KeyError, ValueError) as error:
        raise CatalogueBroken(f"rule {where} in roles.toml has no known role.") from error
    return Rule(
        role,
        entry["reason"],
        check=entry.get("check", ""),
        form=entry.get("form", ""),
        mode=entry.get("mode", ""),
        primary=entry.get("primary", False),
        types=frozenset(entry.get("types", ())),
    )
