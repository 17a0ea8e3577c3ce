"""Reads the data and the hand-written rules, and puts them together. The only input of this package.

Invariants:
* a catalogue that loads is complete: every argument has a role and, if it takes text, a check; every rule is well-formed, whether
  or not an argument has it. Anything else is CatalogueBroken, at start and not at a call;
* for the release that the patches were written for, each changes exactly what it names.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
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
    SomeBuilds,
    Step,
)

DATA: Final = "gdal-3.13.json"
RELEASE: Final = (3, 13)  # of the packaged data
GENERATOR: Final = "gdal-mcp catalogue build --image REFERENCE"  # the header of what `capture` makes
UNBOUNDED: Final = 2147483647  # what GDAL says for a list without a highest count
MAX_SHOWN: Final = 200  # problems in one message

_TYPES: Final = frozenset(
    "boolean string integer real dataset string_list integer_list real_list dataset_list".split()
)
_DRIVER_SCOPES: Final = (Scope.CREATION, Scope.LAYER, Scope.OPEN)
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
    reader = _Reader(roles)
    reader.require_roles(facts)
    algorithms = {entry["path"]: reader.algorithm(entry) for entry in facts["algorithms"]}
    steps = [reader.step(entry, algorithms) for entry in facts["steps"]]
    extra = options.get("extra", ())
    shared = {
        scope: _specs([*facts[scope], *(one for one in extra if one["scope"] == scope)])
        for scope in (Scope.WARP, Scope.TRANSFORM)
    }
    return Catalogue(
        gdal_version=facts["gdal"],
        skipped=tuple(facts["skipped"]),
        algorithms=MappingProxyType(algorithms),
        steps=MappingProxyType({step.algorithm.path: step for step in steps}),
        drivers=tuple(_driver(entry, formats.get("written_by_algorithms", {})) for entry in facts["drivers"]),
        shared_options=MappingProxyType(shared),
        option_rules=MappingProxyType(_option_rules(options)),
        unwritten=MappingProxyType({name.lower(): reason for name, reason in formats["refuse"].items()}),
        some_builds=tuple(
            SomeBuilds(
                one["name"],
                one["kind"],
                frozenset(one["extensions"]),
                tuple((offset, bytes.fromhex(start)) for offset, start in one["starts"]),
                one["full"],
            )
            for one in formats["some_builds"]
        ),
    )


class _Reader:
    """Makes algorithms and steps of entries. Arguments that are the same are one object: of 2,600 one in four differs.

    An algorithm's own rule for a name goes before the rule that all algorithms share, which holds for its types only.
    """

    def __init__(self, roles: Mapping[str, Any]) -> None:
        """Raises CatalogueBroken for a rule without a reason or without a role."""
        self._shared = {name: _rule(f"shared {name}", entry) for name, entry in roles["shared"].items()}
        self._own = {
            (path, name): _rule(f"{path} {name}", entry)
            for path, entries in roles.get("algorithm", {}).items()
            for name, entry in entries.items()
        }
        self._made: dict[tuple[int, str], Argument] = {}

    def _rule_of(self, path: str, argument: Mapping[str, Any]) -> Rule | None:
        own = self._own.get((path, argument["name"]))
        if own is not None:
            return own if not own.types or argument["type"] in own.types else None
        shared = self._shared.get(argument["name"])
        return shared if shared is not None and argument["type"] in shared.types else None

    def require_roles(self, facts: dict[str, Any]) -> None:
        """All that is missing at once, as a new GDAL brings several arguments."""
        missing = [
            f"{entry['path']} {argument['name']} ({argument['type']})"
            for entry in (*facts["algorithms"], *facts["steps"])
            for argument in entry["arguments"]
            if not isinstance(argument, str) and self._rule_of(entry["path"], argument) is None
        ]
        if missing:
            shown = "\n  ".join(missing[:MAX_SHOWN])
            raise CatalogueBroken(
                f"{len(missing)} arguments of GDAL {facts['gdal']} have no role. Give each one in roles.toml:\n  {shown}"
            )

    def algorithm(self, entry: dict[str, Any], like: Algorithm | None = None) -> Algorithm:
        """A step's entry may name arguments of the algorithm of the same path instead of describing them."""
        known = {argument.name: argument for argument in like.arguments} if like else {}
        arguments = tuple(self._argument(entry["path"], one, known) for one in entry["arguments"])
        return Algorithm(entry["path"], entry["description"], entry["url"], arguments)

    def step(self, entry: dict[str, Any], algorithms: Mapping[str, Algorithm]) -> Step:
        """GDAL describes the input of a few steps, which have it from the step before."""
        algorithm = self.algorithm(entry, algorithms.get(entry["path"]))
        if entry["takes"] and "first" not in entry["places"]:
            own = tuple(one for one in algorithm.arguments if one.name != "input")
            algorithm = replace(algorithm, arguments=own)
        return Step(
            algorithm=algorithm,
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
        rule = self._rule_of(path, entry)
        assert rule is not None  # require_roles has passed
        key = (id(rule), repr(entry))
        if key not in self._made:
            self._made[key] = _argument(path, entry, rule)
        return self._made[key]


def _rule(where: str, entry: Mapping[str, Any]) -> Rule:
    if not entry.get("reason"):
        raise CatalogueBroken(f"rule {where} in roles.toml has no reason.")
    try:
        role = Role(entry["role"])
    except (KeyError, ValueError) as error:
        raise CatalogueBroken(f"rule {where} in roles.toml has no known role.") from error
    texts = {key: entry.get(key, "") for key in ("check", "form", "mode")}
    types = frozenset(entry.get("types", ()))
    return Rule(role, entry["reason"], **texts, primary=entry.get("primary", False), types=types)


def _argument(path: str, entry: dict[str, Any], rule: Rule) -> Argument:
    if entry["type"] not in _TYPES:
        raise CatalogueBroken(f"argument {entry['name']} is of an unknown type. Build the data again.")
    element = entry["type"].removesuffix("_list")
    if rule.role is Role.VALUE and element == "string" and not rule.check:  # would pass anything
        raise CatalogueBroken(
            f"argument {entry['name']} of {path} is a text without a check. Name one in roles.toml."
        )
    if rule.role in (Role.VALUE, Role.EXPRESSION) and element == "dataset":
        raise CatalogueBroken(
            f"argument {entry['name']} of {path} is a dataset and cannot have the role {rule.role}."
        )
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


def _specs(entries: Iterable[dict[str, Any]]) -> tuple[OptionSpec, ...]:
    return tuple(
        OptionSpec(
            name=entry["name"],
            type=entry["type"],
            description=entry.get("description", ""),
            choices=tuple(entry.get("choices", ())),
            choice_aliases=tuple(entry.get("choice_aliases", ())),
            minimum=float(entry["min"]) if "min" in entry else None,
            maximum=float(entry["max"]) if "max" in entry else None,
            max_letters=int(entry["maxsize"]) if "maxsize" in entry else None,
            aliases=tuple(entry[key] for key in ("alias", "deprecated_alias") if entry.get(key)),
        )
        for entry in entries
    )


def _option_rules(options: dict[str, Any]) -> dict[tuple[str, Scope, str], OptionRule]:
    """`options` of a row is a list that holds for each of its `drivers`, or a table of lists by driver."""
    rules: dict[tuple[str, Scope, str], OptionRule] = {}
    for permitted, entry in (
        (part == "permit", one) for part in ("permit", "refuse") for one in options[part]
    ):
        shape = None
        if permitted:
            choices = tuple(entry.get("choices", ()))
            shape = Shape(entry["kind"], choices, pattern=entry.get("pattern", ""))
        rule = OptionRule(entry["reason"], shape, entry.get("suggestion", ""))
        named = entry["options"]
        by_driver = named if isinstance(named, dict) else dict.fromkeys(entry["drivers"], named)
        for driver, scope, names in (
            (one, scope, by_driver[one]) for one in by_driver for scope in entry["scopes"]
        ):
            for key in ((driver, Scope(scope), name) for name in names):
                if key in rules:
                    raise CatalogueBroken(f"option {key} has two rules in options.toml.")
                rules[key] = rule
    return rules


def patched(facts: dict[str, Any], patches: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with every patch applied; those given stay as they are. Raises CatalogueBroken.

    A step that describes an argument again is patched with its algorithm.
    """
    strict = facts["gdal"].startswith(f"{patches['release']}.")
    paths = {path for patch in patches["patch"] for path in patch["algorithms"]}
    algorithms, steps = (
        {entry["path"]: _copy(entry) if entry["path"] in paths else entry for entry in facts[part]}
        for part in ("algorithms", "steps")
    )
    for patch in patches["patch"]:
        named = f"the patch of {patch['argument']} {patch['key']} in patches.toml"
        if not patch.get("reason"):
            raise CatalogueBroken(f"{named} has no reason.")
        for path in patch["algorithms"]:
            _apply(steps.get(path), patch)
            if not _apply(algorithms.get(path), patch) and strict:
                raise CatalogueBroken(f"{named} finds no fault in {path}. Take it out, or correct `was`.")
    return {**facts, "algorithms": list(algorithms.values()), "steps": list(steps.values())}


def _copy(entry: dict[str, Any]) -> dict[str, Any]:
    arguments = [one if isinstance(one, str) else dict(one) for one in entry["arguments"]]
    return {**entry, "arguments": arguments}


def _apply(entry: dict[str, Any] | None, patch: Mapping[str, Any]) -> bool:
    """Whether the fault was there."""
    described = [one for one in entry["arguments"] if not isinstance(one, str)] if entry else ()
    found: dict[str, Any] = next((one for one in described if one["name"] == patch["argument"]), {})
    was = found.get(patch["key"])
    if type(was) is not type(patch["was"]) or was != patch["was"]:  # 1 is no text, no list and not true
        return False
    if "now" in patch:
        found[patch["key"]] = patch["now"]
    else:
        del found[patch["key"]]
    return True
