"""Reads the data and the hand-written rules, and puts them together. The only input of this package.

Invariants:
* a catalogue that loads is complete: every argument has a role and, if it takes text, a check; every rule is well-formed.
  Anything else is CatalogueBroken, at start and not at a call.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.gdal.catalogue.model import (
    Algorithm,
    Argument,
    Catalogue,
    Driver,
    Kind,
    OptionRule,
    OptionSpec,
    Role,
    Rule,
    Scope,
    Shape,
    Step,
)
from gdal_mcp.gdal.catalogue.patches import patched
from gdal_mcp.gdal.catalogue.rules import Rules

DATA: Final = "gdal-3.13.json"
RELEASE: Final = (3, 13)  # of the packaged data
GENERATOR: Final = "gdal-mcp catalogue build --image REFERENCE"  # the header of what `capture` makes
UNBOUNDED: Final = 2147483647  # what GDAL says for a list without a highest count
MAX_SHOWN: Final = 200  # problems in one message

_TYPES: Final = frozenset(
    {
        "boolean",
        "string",
        "integer",
        "real",
        "dataset",
        "string_list",
        "integer_list",
        "real_list",
        "dataset_list",
    }
)
_DRIVER_SCOPES: Final = (Scope.CREATION, Scope.LAYER, Scope.OPEN)
_SHARED_SCOPES: Final = (Scope.WARP, Scope.TRANSFORM)
_STEP_KINDS: Final[Mapping[str, Kind | None]] = MappingProxyType(
    {"": None, "raster": "raster", "vector": "vector"}
)


@lru_cache(maxsize=1)
def packaged() -> Catalogue:
    """The catalogue of this package's own data. Raises CatalogueBroken."""
    return catalogue_of(packaged_text())


def catalogue_of(text: str) -> Catalogue:
    """The catalogue of data as `capture` writes it, with the packaged rules. Raises CatalogueBroken."""
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise CatalogueBroken(f"the catalogue's data is not JSON: {error}. Build it again.") from error
    rules = (_toml("roles.toml"), _toml("options.toml"), _toml("formats.toml"))
    try:
        return build(patched(facts, _toml("patches.toml")), *rules)
    except (KeyError, TypeError, AttributeError) as error:
        raise CatalogueBroken(f"the catalogue's data is not complete: {error!r}. Build it again.") from error


def packaged_text() -> str:
    """The data of this package, as it was generated."""
    return _read(DATA)


def _read(name: str) -> str:
    return files("gdal_mcp.gdal.catalogue").joinpath("data", name).read_text(encoding="utf-8")


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads(_read(name))


def build(
    facts: dict[str, Any], roles: dict[str, Any], options: dict[str, Any], formats: dict[str, Any]
) -> Catalogue:
    """A catalogue of GDAL's facts and our rules. Raises CatalogueBroken."""
    reader = _Reader(Rules(roles))
    reader.require_roles(facts)
    algorithms = {entry["path"]: reader.algorithm(entry, {}) for entry in facts["algorithms"]}
    steps = [reader.step(entry, algorithms) for entry in facts["steps"]]
    return Catalogue(
        gdal_version=facts["gdal"],
        skipped=tuple(facts["skipped"]),
        algorithms=MappingProxyType(algorithms),
        steps=MappingProxyType({step.algorithm.path: step for step in steps}),
        drivers=tuple(_driver(entry, formats.get("written_by_algorithms", {})) for entry in facts["drivers"]),
        shared_options=MappingProxyType({scope: _shared(scope, facts, options) for scope in _SHARED_SCOPES}),
        option_rules=MappingProxyType(dict(_option_rules(options))),
        unwritten=MappingProxyType({name.lower(): reason for name, reason in formats["refuse"].items()}),
    )


class _Reader:
    """Makes algorithms and steps of entries. Arguments that are the same are one object: of 2,600 one in four differs."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._made: dict[tuple[int, str], Argument] = {}

    def require_roles(self, facts: dict[str, Any]) -> None:
        """All that is missing at once, as a new GDAL brings several arguments."""
        missing = [
            f"{entry['path']} {argument['name']} ({argument['type']})"
            for entry in (*facts["algorithms"], *facts["steps"])
            for argument in entry["arguments"]
            if not isinstance(argument, str) and self._rules.rule(entry["path"], argument) is None
        ]
        if missing:
            shown = "\n  ".join(missing[:MAX_SHOWN])
            raise CatalogueBroken(
                f"{len(missing)} arguments of GDAL {facts['gdal']} have no role. Give each one in roles.toml:\n  {shown}"
            )

    def algorithm(self, entry: dict[str, Any], known: Mapping[str, Argument]) -> Algorithm:
        """`known` are the arguments that an entry may name instead of describing them."""
        arguments = tuple(self._argument(entry["path"], one, known) for one in entry["arguments"])
        return Algorithm(entry["path"], entry["description"], entry["url"], arguments)

    def step(self, entry: dict[str, Any], algorithms: Mapping[str, Algorithm]) -> Step:
        leaf = algorithms.get(entry["path"])
        known = {argument.name: argument for argument in leaf.arguments} if leaf else {}
        return Step(
            algorithm=self.algorithm(entry, known),
            name=entry["name"],
            pipelines=tuple(entry["pipelines"]),
            places=tuple(entry["places"]),
            takes=_STEP_KINDS[entry["takes"]],
            gives=_STEP_KINDS[entry["gives"]],
        )

    def _argument(self, path: str, entry: dict[str, Any] | str, known: Mapping[str, Argument]) -> Argument:
        if isinstance(entry, str):
            if entry not in known:
                raise CatalogueBroken(
                    f"the step {path} names an argument {entry} that no algorithm of that path has. Build the data again."
                )
            return known[entry]
        rule = self._rules.rule(path, entry)
        assert rule is not None  # require_roles has passed
        key = (id(rule), repr(entry))
        if key not in self._made:
            self._made[key] = _argument(entry, rule)
            _require_check(path, self._made[key])
        return self._made[key]


def _argument(entry: dict[str, Any], rule: Rule) -> Argument:
    if entry["type"] not in _TYPES:
        raise CatalogueBroken(f"argument {entry['name']} is of an unknown type. Build the data again.")
    return Argument(
        name=entry["name"],
        type=entry["type"],
        rule=rule,
        description=entry.get("description", ""),
        short_name=entry.get("short_name", ""),
        aliases=tuple(entry.get("aliases", ())),
        required=entry.get("required", False) and "mutual_exclusion_group" not in entry,
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
