"""The catalogue of transforms: data/transforms.toml as frozen values with JSON schemas. Pure.

No module of the library that does the work is loaded here: what is said of it is data, held against its signatures by tests.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal

from jsonschema import Draft202012Validator

LIBRARY: Final = "albumentations 2.0.8"
Georeference = Literal["kept", "exact", "lost"]


@dataclass(frozen=True)
class Transform:
    """A transform of the library, as the host knows it."""

    name: str  # the library's class
    category: str
    description: str
    parameters: Mapping[
        str, Any
    ]  # JSON schema of the constructor's arguments but `p`, `unit` with each that has one
    examples: tuple[str, ...]
    aliases: tuple[str, ...]
    georeference: Georeference
    bands: Literal["any", "rgb"]

    @property
    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        return self.parameters["properties"]  # type: ignore[no-any-return]

    def faults(self, parameters: Mapping[str, Any]) -> list[str]:
        """What keeps these arguments from the constructor, in words; empty where nothing does."""
        found = [
            f"{'.'.join(map(str, fault.path)) or self.name}: {fault.message}"
            for fault in _validator(self.name).iter_errors(parameters)
        ]
        return found or [
            f"{name}: the lower end comes first, not {value}"
            for name, value in parameters.items()
            if self.arguments[name].get("ordered") and isinstance(value, list) and value != sorted(value)
        ]


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """One argument's JSON schema, from the short form of the catalogue."""
    one = {"type": given["type"]}
    one |= {
        word: given[key]
        for key, word in (("min", "minimum"), ("max", "maximum"), ("enum", "enum"))
        if key in given
    }
    if given.get("odd"):
        odd = {"not": {"multipleOf": 2}}
        one |= {"anyOf": [{"const": 0}, odd]} if given["min"] == 0 else odd
    schema: dict[str, Any] = dict(one)
    if (of := given.get("of")) is not None:
        pair = {
            "type": "array",
            "items": one,
            "minItems": given.get("length", 2),
            "maxItems": given.get("length", 2),
        }
        if of == "list" and "length" not in given:
            pair |= {"minItems": 1, "maxItems": 16}
        both = {
            "type": "object",
            "properties": {"x": pair, "y": pair},
            "additionalProperties": False,
            "minProperties": 1,
        }
        forms = [pair, *([one] if given.get("scalar") else []), *([both] if of == "axes" else [])]
        forms += [{"enum": given["words"]}] if "words" in given else []
        schema = {"anyOf": forms} if len(forms) > 1 else pair
        schema = {**schema, "ordered": True} if of != "list" else schema
    if given.get("nullable"):
        schema = {"anyOf": [schema, {"type": "null"}], **({"ordered": True} if schema.get("ordered") else {})}
    kept = {key: given[key] for key in ("default", "unit") if key in given}
    return schema | kept | ({"description": given["note"]} if "note" in given else {})


def _transform(name: str, entry: Mapping[str, Any], shared: Mapping[str, Any]) -> Transform:
    arguments = {
        **entry.get("parameters", {}),
        **{one.split()[0]: shared[one] for one in entry.get("shared", ())},
    }
    return Transform(
        name=name,
        category=entry["category"],
        description=entry["description"],
        parameters={
            "type": "object",
            "properties": {argument: _schema(given) for argument, given in arguments.items()},
            "required": [argument for argument, given in arguments.items() if given.get("required")],
            "additionalProperties": False,
            **entry.get("constraint", {}),
        },
        examples=tuple(entry["examples"]),
        aliases=tuple(entry["aliases"]),
        georeference=entry["georeference"],
        bands=entry.get("bands", "any"),
    )


def _load() -> Mapping[str, Transform]:
    text = files("gdal_mcp.augment").joinpath("data", "transforms.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)
    shared = entries.pop("shared")
    return MappingProxyType({name: _transform(name, entry, shared) for name, entry in entries.items()})


TRANSFORMS: Final = _load()


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(TRANSFORMS[name].parameters)


def categories() -> Sequence[str]:
    """In the catalogue's order."""
    return tuple(dict.fromkeys(transform.category for transform in TRANSFORMS.values()))
