"""Frozen values for GDAL's algorithms and their arguments, and its drivers and their options. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SkipValidation

Kind = Literal["raster", "vector", "multidim"]
Place = Literal["first", "middle", "last"]  # position of a step in a pipeline
DATASET_KINDS: Mapping[str, Kind] = MappingProxyType(  # keys: GDAL's names of dataset types
    {"raster": "raster", "vector": "vector", "multidim_raster": "multidim"}
)

# GDAL's main process consumes these tokens anywhere in a command line, in any case, before the algorithm parses it.
RESERVED_TOKENS = frozenset(
    f"--{word}"
    for word in (
        "config optfile debug mempreload pause format formats version build license help help-doc help-general"
        " json-usage locale"
    ).split()
)


class Role(StrEnum):
    """The role of an argument, which decides how the server handles it. Every argument has exactly one."""

    INPUT = "input"  # a dataset or file that is read: resolved against the workspaces
    OUTPUT = "output"  # a dataset or file that is created
    UPDATE = "update"  # a dataset that is changed in place
    VALUE = "value"  # a checked value that GDAL never opens as a file
    EXPRESSION = "expression"  # text with its own syntax: SQL, a pipeline or a formula
    HOST_OWNED = "host_owned"  # set by the server or by an argument of the tool
    FORBIDDEN = "forbidden"  # never passed to GDAL


PATH_ROLES = frozenset({Role.INPUT, Role.OUTPUT, Role.UPDATE})


class Scope(StrEnum):
    CREATION = "creation"
    LAYER = "layer"
    OPEN = "open"
    WARP = "warp"
    TRANSFORM = "transform"


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """The permitted form of a text value. `kind` names a rule in `catalogue.values`."""

    kind: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    max_letters: int | None = None
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class RoleRule:
    """The hand-written rule for an argument: its role, the reason, and `check`, the rule that validates its values."""

    role: Role
    reason: Annotated[str, Field(min_length=1)]
    check: str = ""
    # for path roles: the syntax of the text, a form in catalogue/forms.py; empty for a dataset
    form: str = ""
    mode: str = ""  # for switches: "replace" an existing output, or "update" a copy of it
    # a main input or output; tools that pass it themselves refuse it as an extra argument
    primary: bool = False
    types: frozenset[str] = frozenset()  # GDAL types that a shared rule applies to


# GDAL's max_count for a list without an upper limit
_UNBOUNDED = 2147483647
Type = Literal[
    "boolean", "string", "integer", "real", "dataset", "string_list", "integer_list", "real_list", "dataset_list"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an algorithm. The field aliases are keys in GDAL's JSON; only `rule` is hand-written."""

    name: str
    type: Type
    rule: SkipValidation[RoleRule]
    description: str = ""
    short_name: str = ""
    aliases: tuple[str, ...] = ()
    # GDAL's flag; see `required` for exclusion groups
    needed: Annotated[bool, Field(alias="required")] = False
    hidden: bool = False
    positional: bool = False
    choices: Annotated[tuple[str, ...], BeforeValidator(lambda choices: tuple(map(str, choices)))] = ()
    hidden_choices: tuple[str, ...] = ()
    minimum: Annotated[float | None, Field(alias="min_value")] = None
    maximum: Annotated[float | None, Field(alias="max_value")] = None
    min_included: Annotated[bool, Field(alias="min_value_is_included")] = True
    max_included: Annotated[bool, Field(alias="max_value_is_included")] = True
    min_count: int = 0
    max_count: Annotated[int | None, BeforeValidator(lambda n: None if n == _UNBOUNDED else n)] = None
    # one text may hold several values, separated by commas
    packed: Annotated[bool, Field(alias="packed_values_allowed")] = False
    repeatable: Annotated[bool, Field(alias="repeated_arg_allowed")] = True
    exclusion_group: Annotated[str, Field(alias="mutual_exclusion_group")] = ""
    dependency_group: Annotated[str, Field(alias="mutual_dependency_group")] = ""
    depends_on: tuple[str, ...] = ()
    dataset_kinds: Annotated[tuple[str, ...], Field(alias="dataset_type")] = ()
    # GDAL's full description of the argument
    usage: SkipValidation[Mapping[str, object]] = field(default_factory=dict)

    @property
    def required(self) -> bool:
        """True if every call needs the argument; for groups of alternatives see `Algorithm.one_of`."""
        return self.needed and not self.exclusion_group

    @property
    def is_usable(self) -> bool:
        """True if a call may set the argument."""
        return not self.hidden and self.role is not Role.FORBIDDEN

    @property
    def is_list(self) -> bool:
        return self.type.endswith("_list")

    @property
    def element_type(self) -> str:
        return self.type.removesuffix("_list")

    @property
    def role(self) -> Role:
        return self.rule.role


@dataclass(frozen=True)
class Algorithm:
    """One command of the `gdal` program, such as `raster convert`."""

    path: str
    description: str
    url: str
    arguments: tuple[Argument, ...]

    @property
    def kind(self) -> Kind | None:
        """The kind of data that the command processes; None for commands such as `convert`, which inspect the data
        first.
        """
        kinds: dict[str, Kind] = {"raster": "raster", "vector": "vector", "mdim": "multidim"}
        return kinds.get(self.path.split(" ")[0])

    @property
    def makes(self) -> Kind | None:
        """The kind of dataset that the command writes; None if it writes none, or one of several kinds.

        It may differ from the kind that the command reads.
        """
        kinds = next((argument.dataset_kinds for argument in self.arguments if argument.name == "output"), ())
        return DATASET_KINDS.get(kinds[0]) if len(kinds) == 1 else None

    @cached_property
    def one_of(self) -> tuple[tuple[str, ...], ...]:
        """Groups of mutually exclusive arguments, one of which is required.

        GDAL marks these arguments as required; `Argument.required` is False for them, because none is required by
        itself.
        """
        groups: dict[str, list[Argument]] = {}
        for argument in self.arguments:
            if argument.exclusion_group:
                groups.setdefault(argument.exclusion_group, []).append(argument)
        needed = [group for group in groups.values() if any(argument.needed for argument in group)]
        return tuple(tuple(argument.name for argument in group) for group in needed)

    def companions(self, argument: Argument, group: str) -> set[str]:
        """The names of the other arguments in the exclusion or dependency group of an argument."""
        own = getattr(argument, group)
        others = (other for other in self.arguments if other is not argument)
        return {other.name for other in others if own and getattr(other, group) == own}

    @cached_property
    def long_names(self) -> Mapping[str, Argument]:
        names = (
            (argument, (argument.short_name, *argument.aliases, argument.name)) for argument in self.arguments
        )
        return {name: argument for argument, own in names for name in own if name}


@dataclass(frozen=True)
class PipelineStep:
    """One step of a pipeline, with the same key as its algorithm: `raster clip`, `vector grid count`, `vector read`.

    The arguments are those that the step accepts inside a pipeline. Some steps have no algorithm outside pipelines
    (`vector limit`). `takes` and `gives` are the kinds of data that the step receives and passes on; None if it reads
    nothing from the previous step, or passes nothing to the next.
    """

    algorithm: SkipValidation[Algorithm]
    name: str  # the name inside a pipeline: `clip`, `grid count`
    pipelines: tuple[str, ...]  # the commands that accept it, such as `raster pipeline`
    places: tuple[Place, ...]  # permitted positions in a pipeline
    takes: Kind | None
    gives: Kind | None


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One KEY=VALUE option as GDAL declares it. A `*` in the name matches letters, digits and underscores."""

    name: str
    type: str
    description: str = ""
    choices: tuple[str, ...] = ()
    choice_aliases: tuple[str, ...] = ()
    minimum: Annotated[float | None, Field(alias="min")] = None
    maximum: Annotated[float | None, Field(alias="max")] = None
    max_letters: Annotated[int | None, Field(alias="maxsize")] = None
    alias: str = ""
    deprecated_alias: str = ""

    def canonical(self, key: str) -> str | None:
        """The canonical spelling if the key, in any case, names this option; None otherwise."""
        for name in filter(None, (self.name, self.alias, self.deprecated_alias)):
            if name.upper() == key.upper():
                return name
        pattern = re.escape(self.name).replace(r"\*", "[A-Za-z0-9_]+")
        return key.upper() if "*" in self.name and re.fullmatch(pattern, key, re.IGNORECASE) else None


@dataclass(frozen=True)
class Driver:
    """One GDAL driver. Options that GDAL does not declare are never passed to it."""

    name: str
    options: Mapping[Scope, tuple[OptionSpec, ...]]
    long_name: str = ""
    extensions: tuple[str, ...] = ()  # lower case, without a dot
    capabilities: frozenset[str] = frozenset()

    def writes(self, kind: Kind | None) -> bool:
        """True if the driver can write datasets of this kind; None means any kind."""
        if kind is None:
            return any(self.writes(data_kind) for data_kind in ("raster", "vector", "multidim"))
        if kind == "multidim":
            return "create_multidim" in self.capabilities
        if kind == "vector" and "translate_from" in self.capabilities:
            return True
        return kind in self.capabilities and bool(self.capabilities & {"create", "createcopy"})

    def reads(self, kind: Kind | None) -> bool:
        return "open" in self.capabilities and (kind is None or kind in self.capabilities)


@dataclass(frozen=True)
class OptionRule:
    """A hand-written rule for driver options: permitted with this shape, or refused if `shape` is None."""

    reason: str
    shape: ValueSpec | None
    suggestion: str = ""


@dataclass(frozen=True, slots=True)
class OptionalDriver:
    """A format that only some builds of GDAL include."""

    name: str  # GDAL's short name
    kind: Kind
    extensions: frozenset[str]
    starts: tuple[
        tuple[int, Annotated[bytes, BeforeValidator(bytes.fromhex)]], ...
    ]  # file signatures: a byte offset, and the bytes there
    full: bool  # True if the official `full` image has it


_LEFT_OUT: Final = ("algorithms", "steps", "drivers")


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Everything that one build of GDAL accepts, and the part that clients may use.

    Drivers are in GDAL's order. Created once, in the composition root, and passed on. Compared and hashed by
    identity, so it can be the key of a cache.
    """

    gdal_version: str
    skipped: tuple[str, ...]
    algorithms: Mapping[str, Algorithm]
    steps: Mapping[str, PipelineStep]
    drivers: tuple[Driver, ...]
    shared_options: Mapping[Scope, tuple[OptionSpec, ...]]  # warp and transform options belong to no driver
    option_rules: Mapping[tuple[str, Scope, str], OptionRule]  # driver or "*", scope, declared option name
    unwritten: Mapping[str, str]  # driver name in lower case -> why it is never written
    # formats that only some builds of GDAL have, including those of this image
    some_builds: tuple[OptionalDriver, ...]
    # for an image that the rules do not cover: names of algorithms, steps and drivers that are not served, and the
    # number of arguments
    left_out: Mapping[str, Any] = field(default_factory=dict)
    # code in answers/data/warnings.toml -> texts missing in this GDAL, so that the warning is not recognised
    unrecognised: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        arguments = sum(len(algorithm.arguments) for algorithm in self.algorithms.values())
        return (
            f"GDAL {self.gdal_version}: {len(self.algorithms)} algorithms, {arguments} arguments, {len(self.steps)} pipeline "
            f"steps, {len(self.drivers)} drivers{self._not_served}"
        )

    @property
    def _not_served(self) -> str:
        """Text for `summary`: what is not served or not recognised with this image; "" for the packaged data."""
        named = [f"{len(names)} {part}" for part in _LEFT_OUT if (names := self.left_out.get(part))]
        if count := self.left_out.get("arguments"):
            named.append(f"{count} arguments")
        off = f"; not served, as new or changed: {', '.join(named)}" if named else ""
        codes = ", ".join(sorted(self.unrecognised))
        return off + (f"; warnings that are not recognised: {codes}" if codes else "")

    @property
    def release(self) -> tuple[int, int]:
        """GDAL's major and minor version, for which the data is valid."""
        major, minor = self.gdal_version.split(".")[:2]
        return int(major), int(minor)

    def incompatible(self, gdal_version: str) -> str:
        """The reason why no call may run on this GDAL version, with advice; empty if the version matches.

        A catalogue matches every GDAL of its minor release.
        """
        if tuple(gdal_version.split(".")[:2]) == tuple(self.gdal_version.split(".")[:2]):
            return ""
        return (
            f"the image has GDAL {gdal_version}, but the catalogue in use describes GDAL {self.gdal_version}: arguments may mean "
            "something else there. Run `gdal-mcp setup` with the same image and start the server again, or use an image with "
            f"GDAL {self.release[0]}.{self.release[1]}."
        )

    @cached_property
    def driver_names(self) -> Mapping[str, Driver]:
        return {driver.name.lower(): driver for driver in self.drivers}
