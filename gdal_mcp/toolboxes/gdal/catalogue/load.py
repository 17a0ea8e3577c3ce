"""Loads the catalogue from the captured data and the hand-written rules.

Invariants:
* a loaded catalogue is complete: every argument has a role and, if it takes text, a check; every rule is well-formed,
  even if no argument uses it. Anything else raises CatalogueBroken at start, not during a call;
* in the packaged data each patch must match, and changes exactly what it names. In the data of another image, a patch
  is skipped if its fault is not in the data, or if a probe found the fault absent.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from types import MappingProxyType
from typing import Any, Final

from pydantic import TypeAdapter

from gdal_mcp.toolboxes.gdal import data_of
from gdal_mcp.toolboxes.gdal.catalogue.changes import unchanged
from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.toolboxes.gdal.catalogue.messages import unrecognised
from gdal_mcp.toolboxes.gdal.catalogue.model import (
    Algorithm,
    Argument,
    Catalogue,
    Driver,
    OptionalDriver,
    OptionRule,
    OptionSpec,
    PipelineStep,
    Role,
    RoleRule,
    Scope,
    ValueSpec,
)

_PACKAGE: Final = "gdal_mcp.toolboxes.gdal.catalogue"
DATA: Final = "gdal-3.13.json"
RELEASE: Final = (3, 13)  # GDAL release of the packaged data
# keys of a rule in roles.toml; every other key is a list of argument types
_RULE_KEYS: Final = ("check", "form", "mode", "primary")
GENERATOR: Final = "gdal-mcp catalogue build --image REFERENCE"  # header of the data from `capture`


@lru_cache(maxsize=1)
def packaged() -> Catalogue:
    """The catalogue of this package's own data. Raises CatalogueBroken."""
    return catalogue_of(packaged_text())


def catalogue_of(text: str, absent: Collection[str] = ()) -> Catalogue:
    """The catalogue from data in the format of `capture`, with the packaged rules. Raises CatalogueBroken.

    `absent` has the names of faults in faults.toml that the image does not have.
    """
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise CatalogueBroken(f"the catalogue's data is not JSON: {error}. Build it again.") from error
    roles, options, formats, patches = (
        data_of(_PACKAGE, f"{name}.toml") for name in ("roles", "options", "formats", "patches")
    )
    try:
        right = apply_patches(facts, patches, absent, strict=text == packaged_text())
        return build(right, roles, options, formats)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CatalogueBroken(f"the catalogue's data is not complete: {error!r}. Build it again.") from error


def servable(text: str) -> str:
    """The part of another image's data that may be served. Raises CatalogueBroken for damaged data.

    This is all of it if its GDAL is of the packaged release and the rules cover everything, else what is unchanged
    since the packaged data.
    """
    try:
        if catalogue_of(text).release == RELEASE:
            return text
    except CatalogueBroken:
        pass
    try:
        served = json.dumps(unchanged(json.loads(packaged_text()), json.loads(text)), ensure_ascii=False)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CatalogueBroken(f"the catalogue's data is not complete: {error!r}. Build it again.") from error
    catalogue_of(served)
    return served


def packaged_text() -> str:
    """The packaged catalogue data, as it was generated."""
    return files(_PACKAGE).joinpath("data", DATA).read_text(encoding="utf-8")


@cache
def adapter(model: Any) -> TypeAdapter[Any]:
    """The pydantic adapter of a type, created on first use because that takes tens of milliseconds."""
    return TypeAdapter(model)


def _read_as(model: Any, entry: Any) -> Any:
    """An entry of the data as a value of the model; only the model's fields are read. Raises CatalogueBroken."""
    try:
        return adapter(model).validate_python(entry)
    except ValueError as error:
        raise CatalogueBroken(
            f"an entry is not as it must be: {error}. Correct it, or build the data again."
        ) from error


def build(
    facts: dict[str, Any], roles: Mapping[str, Any], options: Mapping[str, Any], formats: Mapping[str, Any]
) -> Catalogue:
    reader = _AlgorithmReader(roles)
    algorithms = {entry["path"]: reader.algorithm(entry) for entry in facts["algorithms"]}
    steps = [reader.step(entry, algorithms) for entry in facts["steps"]]
    if reader.missing:  # reported all at once, because a new GDAL brings several arguments
        shown = "\n  ".join(reader.missing[:200])
        raise CatalogueBroken(
            f"{len(reader.missing)} arguments of GDAL {facts['gdal']} have no role. Give each one in roles.toml:\n  {shown}"
        )
    extra = options.get("extra", ())
    shared = {}
    for scope in (Scope.WARP, Scope.TRANSFORM):
        entries = [*facts[scope], *(option for option in extra if option["scope"] == scope)]
        shared[scope] = _read_as(tuple[OptionSpec, ...], entries)
    return Catalogue(
        gdal_version=facts["gdal"],
        skipped=tuple(facts["skipped"]),
        algorithms=MappingProxyType(algorithms),
        steps=MappingProxyType({step.algorithm.path: step for step in steps}),
        drivers=tuple(_driver(entry, formats.get("written_by_algorithms", {})) for entry in facts["drivers"]),
        shared_options=MappingProxyType(shared),
        option_rules=MappingProxyType(_option_rules(options)),
        unwritten=MappingProxyType({name.lower(): reason for name, reason in formats["refuse"].items()}),
        some_builds=_read_as(tuple[OptionalDriver, ...], formats["some_builds"]),
        left_out=MappingProxyType(facts.get("left_out", {})),
        unrecognised=MappingProxyType(unrecognised(facts.get("messages"))),
    )


class _AlgorithmReader:
    """Creates algorithms and steps from entries of the data.

    Equal arguments share one object: of 2,600 only one in four differs. An algorithm's own rule for a name takes
    precedence over the shared rule, which applies only to its types.
    """

    def __init__(self, roles: Mapping[str, Any]) -> None:
        """Raises CatalogueBroken for a rule without a reason or without a role."""
        tables = {"": shared_rules(roles), **roles.get("algorithm", {})}
        self._rules = {
            (path, name): _read_as(RoleRule, entry)
            for path, entries in tables.items()
            for name, entry in entries.items()
        }
        self._arguments: dict[tuple[int, str], Argument] = {}
        self.missing: list[str] = []

    def algorithm(self, entry: dict[str, Any], like: Algorithm | None = None) -> Algorithm:
        """The algorithm of an entry. Raises CatalogueBroken.

        The entry of a step may only name arguments of `like`, the algorithm of the same path, instead of describing
        them.
        """
        known = {argument.name: argument for argument in like.arguments} if like else {}
        arguments = [self._argument(entry["path"], argument, known) for argument in entry["arguments"]]
        return Algorithm(entry["path"], entry["description"], entry["url"], tuple(filter(None, arguments)))

    def step(self, entry: dict[str, Any], algorithms: Mapping[str, Algorithm]) -> PipelineStep:
        """The step of an entry, without the argument `input` if its input comes from the previous step.

        GDAL lists that argument for a few of these steps.
        """
        algorithm = self.algorithm(entry, algorithms.get(entry["path"]))
        if entry["takes"] and "first" not in entry["places"]:
            own = tuple(argument for argument in algorithm.arguments if argument.name != "input")
            algorithm = replace(algorithm, arguments=own)
        flow = {side: entry[side] or None for side in ("takes", "gives")}
        step: PipelineStep = _read_as(PipelineStep, {**entry, **flow, "algorithm": algorithm})
        return step

    def _argument(
        self, path: str, entry: dict[str, Any] | str, known: Mapping[str, Argument]
    ) -> Argument | None:
        """The argument of an entry; None if it has no role, or refers to an argument without one.

        Arguments without a role are added to `missing`. Raises CatalogueBroken.
        """
        if isinstance(entry, str):
            if entry not in known and not self.missing:
                raise CatalogueBroken(
                    f"the step {path} names an argument {entry} that no algorithm of that path has. Build the data again."
                )
            return known.get(entry)
        own, shared = (self._rules.get((owner, entry["name"])) for owner in (path, ""))
        rule = own or shared
        if rule is None or (entry["type"] not in rule.types and (own is None or own.types)):
            self.missing.append(f"{path} {entry['name']} ({entry['type']})")
            return None
        key = (id(rule), repr(entry))
        if key not in self._arguments:
            fields = {**entry, "rule": rule, "usage": MappingProxyType(entry)}
            self._arguments[key] = _read_as(Argument, fields)
            _refuse_open(path, self._arguments[key])
        return self._arguments[key]


def _refuse_open(path: str, argument: Argument) -> None:
    """Raises CatalogueBroken for an argument whose role would accept unchecked text or a dataset as a value."""
    role, element = argument.role, argument.element_type
    if role is Role.VALUE and element == "string" and not argument.rule.check:
        raise CatalogueBroken(
            f"argument {argument.name} of {path} is a text without a check. Name one in roles.toml."
        )
    if role in (Role.VALUE, Role.EXPRESSION) and element == "dataset":
        raise CatalogueBroken(
            f"argument {argument.name} of {path} is a dataset and cannot have the role {role}."
        )


def _driver(entry: dict[str, Any], written_by_algorithms: Mapping[str, str]) -> Driver:
    more = ("create", "raster", "vector") if entry["name"] in written_by_algorithms else ()
    capabilities = [*entry.get("capabilities", ()), *more]
    options = {scope: entry.get(scope, ()) for scope in (Scope.CREATION, Scope.LAYER, Scope.OPEN)}
    driver: Driver = _read_as(Driver, {**entry, "capabilities": capabilities, "options": options})
    return driver


def shared_rules(roles: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The shared rules in roles.toml by argument name. Raises CatalogueBroken for a name with two rules.

    In the file, each role has reasons, and each reason has argument names by type: `"string string_list" = "sql
    like-sql"`.
    """
    rules: dict[str, dict[str, Any]] = {}
    for role, reasons in roles["shared"].items():
        for reason, group in _groups(reasons):
            more = {key: group[key] for key in _RULE_KEYS if key in group}
            for types in group.keys() - more.keys():
                for name in group[types].split():
                    if name in rules:
                        raise CatalogueBroken(f"argument {name} has two shared rules in roles.toml.")
                    rules[name] = {"role": role, "reason": reason, "types": types.split(), **more}
    return rules


def _groups(reasons: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each reason with each of its groups; a reason has one group or a list of groups."""
    for reason, groups in reasons.items():
        several = isinstance(groups, list) and not all(isinstance(name, str) for name in groups)
        for group in groups if several else (groups,):
            yield reason, group


def _option_rules(options: Mapping[str, Any]) -> dict[tuple[str, Scope, str], OptionRule]:
    """The rules in options.toml. Raises CatalogueBroken for an option with two rules.

    A reason has rows `"SCOPE,SCOPE DRIVER, DRIVER: OPTION OPTION"`, or a table with such rows in `options`.
    """
    rules: dict[tuple[str, Scope, str], OptionRule] = {}
    for kind, reasons in (*options["permit"].items(), ("", options["refuse"])):
        for reason, group in _groups(reasons):
            entry = group if isinstance(group, dict) else {"options": group}
            choices, pattern = tuple(entry.get("choices", ())), entry.get("pattern", "")
            shape = ValueSpec(kind, choices, pattern=pattern) if kind else None
            rule = OptionRule(reason, shape, entry.get("suggestion", ""))
            for key in (key for row in entry["options"] for key in _option_keys(row)):
                if key in rules:
                    raise CatalogueBroken(f"option {key} has two rules in options.toml.")
                rules[key] = rule
    return rules


def _option_keys(row: str) -> Iterator[tuple[str, Scope, str]]:
    head, _, names = row.partition(":")
    scopes, _, drivers = head.partition(" ")
    for scope, driver, name in product(scopes.split(","), drivers.split(", "), names.split()):
        yield driver, Scope(scope), name


def apply_patches(
    facts: dict[str, Any], patches: Mapping[str, Any], absent: Collection[str] = (), *, strict: bool = False
) -> dict[str, Any]:
    """A copy of the facts with every patch applied, except those of absent faults.

    A step that describes an argument again is patched with its algorithm. Raises CatalogueBroken for a patch without
    a reason and, if `strict`, for one that finds no fault.
    """
    paths = {path for patch in patches["patch"] for path in patch["algorithms"]}
    algorithms, steps = (
        {entry["path"]: deepcopy(entry) if entry["path"] in paths else entry for entry in facts[part]}
        for part in ("algorithms", "steps")
    )
    for patch in (candidate for candidate in patches["patch"] if candidate.get("fault") not in absent):
        named = f"the patch of {patch['argument']} {patch['key']} in patches.toml"
        if not patch.get("reason"):
            raise CatalogueBroken(f"{named} has no reason.")
        for path in patch["algorithms"]:
            _apply(steps.get(path), patch)
            if not _apply(algorithms.get(path), patch) and strict:
                raise CatalogueBroken(f"{named} finds no fault in {path}. Take it out, or correct `was`.")
    return {**facts, "algorithms": list(algorithms.values()), "steps": list(steps.values())}


def _apply(entry: dict[str, Any] | None, patch: Mapping[str, Any]) -> bool:
    """Applies a patch to an entry; returns False if the entry does not have the fault."""
    described = (
        [argument for argument in entry["arguments"] if not isinstance(argument, str)] if entry else ()
    )
    target: dict[str, Any] = next(
        (argument for argument in described if argument["name"] == patch["argument"]), {}
    )
    was = target.get(patch["key"])
    if type(was) is not type(patch["was"]) or was != patch["was"]:  # the type too, because 1 == True
        return False
    if "now" in patch:
        target[patch["key"]] = patch["now"]
    else:
        del target[patch["key"]]
    return True
