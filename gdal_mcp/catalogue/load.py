"""Reads the packaged data and the hand-written rules, and puts them together. The only input of this package.

Invariant: a catalogue that loads is complete: every argument has a role and, if it takes text, a check; every rule is
well-formed. Anything else is CatalogueBroken, at start and not at a call.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.catalogue.errors import CatalogueBroken
from gdal_mcp.catalogue.model import (
    Algorithm,
    Argument,
    Catalogue,
    Driver,
    OptionRule,
    OptionSpec,
    Role,
    Rule,
    Scope,
    Shape,
)

DATA: Final = "gdal-3.13.json"
UNBOUNDED: Final = 2147483647  # what GDAL says for a list without a highest count

_DRIVER_SCOPES: Final = (Scope.CREATION, Scope.LAYER, Scope.OPEN)
_SHARED_SCOPES: Final = (Scope.WARP, Scope.TRANSFORM)


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """The catalogue of the packaged data. Raises CatalogueBroken."""
    return build(json.loads(_read(DATA)), _toml("roles.toml"), _toml("options.toml"), _toml("formats.toml"))


def data_text() -> str:
    """The packaged data as it was generated."""
    return _read(DATA)


def _read(name: str) -> str:
    return files("gdal_mcp.catalogue").joinpath("data", name).read_text(encoding="utf-8")


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(_read(name))


def build(
    facts: dict[str, Any], roles: dict[str, Any], options: dict[str, Any], formats: dict[str, Any]
) -> Catalogue:
    """A catalogue of GDAL's facts and our rules. Raises CatalogueBroken."""
    algorithms = [_algorithm(entry, roles) for entry in facts["algorithms"]]
    return Catalogue(
        gdal_version=facts["gdal"],
        skipped=tuple(facts["skipped"]),
        algorithms=MappingProxyType({algorithm.path: algorithm for algorithm in algorithms}),
        drivers=tuple(_driver(entry, formats.get("written_by_algorithms", {})) for entry in facts["drivers"]),
        shared_options=MappingProxyType({scope: _shared(scope, facts, options) for scope in _SHARED_SCOPES}),
        option_rules=MappingProxyType(dict(_option_rules(options))),
        unwritten=MappingProxyType({name.lower(): reason for name, reason in formats["refuse"].items()}),
    )


def _algorithm(entry: dict[str, Any], roles: dict[str, Any]) -> Algorithm:
    path = entry["path"]
    arguments = tuple(_argument(path, argument, roles) for argument in entry["arguments"])
    return Algorithm(path, entry["description"], entry["url"], arguments)


def _argument(path: str, entry: dict[str, Any], roles: dict[str, Any]) -> Argument:
    argument = Argument(
        name=entry["name"],
        type=entry["type"],
        rule=_rule(path, entry, roles),
        description=entry.get("description", ""),
        short_name=entry.get("short_name", ""),
        aliases=tuple(entry.get("aliases", ())),
        required=entry.get("required", False),
        hidden=entry.get("hidden", False),
        positional=entry.get("positional", False),
        choices=tuple(str(choice) for choice in entry.get("choices", ())),
        hidden_choices=tuple(entry.get("hidden_choices", ())),
        minimum=entry.get("min_value"),
        maximum=entry.get("max_value"),
        min_included=entry.get("min_value_is_included", True),
        max_included=entry.get("max_value_is_included", True),
        min_count=entry.get("min_count", 0),
        max_count=None if entry.get("max_count", UNBOUNDED) == UNBOUNDED else entry["max_count"],
        packed=entry.get("packed_values_allowed", False),
        repeatable=entry.get("repeated_arg_allowed", True),
        exclusion_group=entry.get("mutual_exclusion_group", ""),
        dependency_group=entry.get("mutual_dependency_group", ""),
        depends_on=tuple(entry.get("depends_on", ())),
        dataset_kinds=tuple(entry.get("dataset_type", ())),
        usage=MappingProxyType(entry),
    )
    _require_check(path, argument)
    return argument


def _rule(path: str, entry: dict[str, Any], roles: dict[str, Any]) -> Rule:
    name = entry["name"]
    own = roles.get("algorithm", {}).get(path, {}).get(name)
    if own is not None:
        return _parsed_rule(f"{path} {name}", own)
    shared = roles["shared"].get(name)
    if shared is None or entry["type"] not in shared["types"]:
        raise CatalogueBroken(
            f"argument {name} ({entry['type']}) of {path} has no role. Give it one in roles.toml."
        )
    return _parsed_rule(f"shared {name}", shared)


def _parsed_rule(where: str, entry: dict[str, Any]) -> Rule:
    if not entry.get("reason"):
        raise CatalogueBroken(f"rule {where} in roles.toml has no reason.")
    try:
        role = Role(entry["role"])
    except (KeyError, ValueError) as error:
        raise CatalogueBroken(f"rule {where} in roles.toml has no known role.") from error
    types = frozenset(entry.get("types", ()))
    return Rule(
        role,
        entry["reason"],
        check=entry.get("check", ""),
        form=entry.get("form", ""),
        mode=entry.get("mode", ""),
        primary=entry.get("primary", False),
        types=types,
    )


def _require_check(path: str, argument: Argument) -> None:
    """A text value without a check would pass anything; a path role on something that is no text would check nothing."""
    text = argument.element_type == "string"
    if argument.role is Role.VALUE and text and not argument.rule.check:
        raise CatalogueBroken(
            f"argument {argument.name} of {path} is a text without a check. Name one in roles.toml."
        )
    if argument.element_type == "dataset" and argument.role in (Role.VALUE, Role.EXPRESSION):
        raise CatalogueBroken(
            f"argument {argument.name} of {path} is a dataset and cannot have the role {argument.role}."
        )


def _driver(entry: dict[str, Any], written_by_algorithms: Mapping[str, str]) -> Driver:
    capabilities = frozenset(entry.get("capabilities", ()))
    if entry["name"] in written_by_algorithms:
        capabilities |= {"create", "raster", "vector"}
    return Driver(
        name=entry["name"],
        long_name=entry.get("long_name", ""),
        extensions=tuple(entry.get("extensions", ())),
        capabilities=capabilities,
        prefix=entry.get("prefix", ""),
        options=MappingProxyType({scope: _specs(entry.get(scope, ())) for scope in _DRIVER_SCOPES}),
    )


def _shared(scope: Scope, facts: dict[str, Any], options: dict[str, Any]) -> tuple[OptionSpec, ...]:
    extra = [entry for entry in options.get("extra", ()) if entry["scope"] == scope]
    return _specs([*facts[scope], *extra])


def _specs(entries: Iterable[dict[str, Any]]) -> tuple[OptionSpec, ...]:
    return tuple(_spec(entry) for entry in entries)


def _spec(entry: dict[str, Any]) -> OptionSpec:
    aliases = (entry.get(key, "") for key in ("alias", "deprecated_alias"))
    return OptionSpec(
        name=entry["name"],
        type=entry["type"],
        description=entry.get("description", ""),
        choices=tuple(entry.get("choices", ())),
        choice_aliases=tuple(entry.get("choice_aliases", ())),
        minimum=_bound(entry.get("min")),
        maximum=_bound(entry.get("max")),
        max_letters=int(entry["maxsize"]) if "maxsize" in entry else None,
        aliases=tuple(filter(None, aliases)),
    )


def _bound(text: str | None) -> float | None:
    return None if text is None else float(text)


def _option_rules(options: dict[str, Any]) -> Iterable[tuple[tuple[str, Scope, str], OptionRule]]:
    seen: set[tuple[str, Scope, str]] = set()
    for permitted in (True, False):
        for entry in options["permit" if permitted else "refuse"]:
            rule = OptionRule(
                entry["reason"], _shape(entry) if permitted else None, entry.get("suggestion", "")
            )
            for key in _option_keys(entry):
                if key in seen:
                    raise CatalogueBroken(f"option {key} has two rules in options.toml.")
                seen.add(key)
                yield key, rule


def _option_keys(entry: dict[str, Any]) -> Iterable[tuple[str, Scope, str]]:
    """`options` is a list that holds for each of `drivers`, or a table of lists by driver."""
    options = entry["options"]
    by_driver = options if isinstance(options, dict) else dict.fromkeys(entry["drivers"], options)
    for driver, names in by_driver.items():
        for scope in entry["scopes"]:
            for name in names:
                yield driver, Scope(scope), name


def _shape(entry: dict[str, Any]) -> Shape:
    return Shape(entry["kind"], tuple(entry.get("choices", ())), pattern=entry.get("pattern", ""))
