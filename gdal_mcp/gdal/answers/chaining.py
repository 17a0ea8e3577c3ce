"""Sensible next calls after one that wrote, from the rules in discovery/data/next.toml. Pure.

Invariants:
* what is told is our own text, the names of algorithms, numbers, and paths of this call: nothing from inside a file;
* a rule with an unknown condition, or that names an unknown placeholder, stops the rules from loading;
* a suggestion is never run: it is checked, resolved and approved like any other call if the model makes it.
"""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.gdal.discovery.entries import tool_name
from gdal_mcp.gdal.discovery.tables import read

MOST: Final = 3
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
_PLACEHOLDERS: Final = frozenset({"output", "stem", "input"})
_CONTINUOUS: Final = frozenset({"Int16", "Int32", "UInt16", "Float16", "Float32", "Float64"})
_DEGREES: Final = frozenset({"EPSG:4326", "EPSG:4258", "EPSG:4267", "EPSG:4269", "EPSG:4979", "OGC:CRS84"})


class RulesBroken(Exception):
    """The packaged rules are not what this module understands."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one output, taken from its description; None where it is not known."""

    kind: str = ""
    driver: str = ""
    side: int = 0
    bands: int = 0
    type: str = ""
    overviews: bool | None = None
    compressed: bool | None = None
    degrees: bool | None = None
    geometry: str = ""
    features: int | None = None
    warnings: frozenset[str] = frozenset()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Facts":
        """The facts of a row of `outputs`, as it was re-opened; odd values count as not known."""
        described = row.get("description")
        described = described if isinstance(described, Mapping) else {}
        layers = _mappings(described.get("layers"))
        first = layers[0] if layers else {}
        bands = _mappings(described.get("bands"))
        return cls(
            kind=_kind(described, bands, layers),
            driver=str(described.get("driver") or ""),
            side=max((_number(one) or 0 for one in _list(described.get("size"))), default=0),
            bands=_number(described.get("band_count")) or len(bands),
            type=str(bands[0].get("type") or "") if bands else "",
            overviews=_overviews(described),
            compressed=bool(described["compression"]) if "compression" in described else None,
            degrees=_degrees(described.get("crs") or first.get("crs")),
            geometry=str(first.get("geometry") or "").lower(),
            features=_number(first.get("features")),
            warnings=frozenset(str(one.get("code")) for one in _mappings(row.get("checks"))),
        )


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A next call. `tool` is the direct tool; a server that does not list it runs `algorithm` by gdal_read or gdal_write."""

    tool: str
    algorithm: str
    reason: str
    arguments: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """As a client sees it in `next`."""
        return {
            "tool": self.tool,
            "algorithm": self.algorithm,
            "reason": self.reason,
            "arguments": dict(self.arguments),
        }


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the file."""

    after: frozenset[str]
    never_after: frozenset[str]
    when: Mapping[str, Any]
    given: Mapping[str, Any]
    call: str
    arguments: Mapping[str, Any]
    reason: str

    def holds(self, made_by: str, arguments: Mapping[str, Any], facts: Facts) -> bool:
        if made_by in self.never_after or (self.after and made_by not in self.after):
            return False
        if any(_said(arguments, name) != value for name, value in self.given.items()):
            return False
        return all(CONDITIONS[name](facts, wanted) for name, wanted in self.when.items())


# the names that `when` knows; a fact that is not known fulfils nothing
CONDITIONS: Final[Mapping[str, Callable[[Facts, Any], bool]]] = MappingProxyType(
    {
        "kind": lambda facts, wanted: facts.kind == wanted,
        "driver": lambda facts, wanted: facts.driver == wanted,
        "side_above": lambda facts, wanted: facts.side > wanted,
        "bands": lambda facts, wanted: facts.bands == wanted,
        "continuous": lambda facts, wanted: (facts.type in _CONTINUOUS) is wanted,
        "overviews": lambda facts, wanted: facts.overviews is wanted,
        "compressed": lambda facts, wanted: facts.compressed is wanted,
        "degrees": lambda facts, wanted: facts.degrees is wanted,
        "geometry": lambda facts, wanted: wanted in facts.geometry,
        "features_at_least": lambda facts, wanted: facts.features is not None and facts.features >= wanted,
        "warning": lambda facts, wanted: wanted in facts.warnings,
    }
)


def next_steps(
    made_by: str,
    outputs: Sequence[Mapping[str, Any]],
    arguments: Mapping[str, Any],
    served: Container[str] | None = None,
) -> tuple[Suggestion, ...]:
    """At most three next calls.

    `made_by` is the algorithm that ran, or the one that the tool is most like; `outputs` are the rows of the result's `outputs`
    (path, description, checks); `arguments` those of the call; `served` the algorithms that this server has, None for all.
    """
    found: dict[str, Suggestion] = {}
    for row in outputs:
        facts = Facts.of(row)
        for rule in rules():
            known = rule.call in found or not (served is None or rule.call in served)
            if known or not rule.holds(made_by, arguments, facts):
                continue
            suggestion = _suggest(rule, str(row["path"]), arguments)
            if suggestion is not None:
                found[rule.call] = suggestion
    return tuple(found.values())[:MOST]


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """The packaged rules. Raises RulesBroken."""
    return tuple(parse_rule(entry) for entry in read("next.toml")["rule"])


def parse_rule(entry: Mapping[str, Any]) -> Rule:
    """One entry of the file. Raises RulesBroken."""
    unknown = set(entry.get("when", {})) - set(CONDITIONS)
    named = {name for text in _texts(entry["arguments"]) for name in _PLACEHOLDER.findall(text)}
    if unknown or named - _PLACEHOLDERS or not entry.get("reason"):
        raise RulesBroken(f"the rule for {entry.get('call')} has no reason, or names {unknown | named}.")
    return Rule(
        after=frozenset(entry.get("after", ())),
        never_after=frozenset(entry.get("never_after", ())),
        when=MappingProxyType(dict(entry.get("when", {}))),
        given=MappingProxyType(dict(entry.get("given", {}))),
        call=entry["call"],
        arguments=MappingProxyType(dict(entry["arguments"])),
        reason=entry["reason"],
    )


def _suggest(rule: Rule, output: str, arguments: Mapping[str, Any]) -> Suggestion | None:
    """None where a rule needs the input and the call had none, or several."""
    values = {"output": output, "stem": _stem(output), "input": _input(arguments)}
    needed = {name for text in _texts(rule.arguments) for name in _PLACEHOLDER.findall(text)}
    if any(values[name] is None for name in needed):
        return None
    filled = {name: _filled(value, values) for name, value in rule.arguments.items()}
    return Suggestion(tool_name(rule.call), rule.call, rule.reason, MappingProxyType(filled))


def _filled(value: Any, values: Mapping[str, str | None]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: values[match[1]] or "", value)
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return value


def _texts(arguments: Mapping[str, Any]) -> list[str]:
    flat = [item for value in arguments.values() for item in (value if isinstance(value, list) else [value])]
    return [item for item in flat if isinstance(item, str)]


def _stem(path: str) -> str:
    plain = PurePosixPath(path)
    return str(plain.with_suffix("")) if plain.suffix else path


def _input(arguments: Mapping[str, Any]) -> str | None:
    """The one input of the call, as the client wrote it."""
    given = _list(arguments.get("input"))
    return given[0] if len(given) == 1 and isinstance(given[0], str) else None


def _said(arguments: Mapping[str, Any], name: str) -> Any:
    """An argument of the call, however its name is spelt."""
    return arguments.get(name, arguments.get(name.replace("-", "_")))


def _kind(described: Mapping[str, Any], bands: Sequence[Any], layers: Sequence[Any]) -> str:
    if bands or described.get("band_count"):
        return "raster"
    return "vector" if layers else ""


def _overviews(described: Mapping[str, Any]) -> bool | None:
    value = described.get("overviews")
    return None if value is None else bool(value)


def _degrees(crs: Any) -> bool | None:
    """Whether a CRS counts in degrees; told by the description, else known of a few codes."""
    if not isinstance(crs, Mapping):
        return None
    told = crs.get("degrees")
    if isinstance(told, bool):
        return told
    return crs.get("code") in _DEGREES if crs.get("code") else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in _list(value) if isinstance(one, Mapping)]
