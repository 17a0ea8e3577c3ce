"""The catalogue of transforms: data/transforms.toml as frozen values with JSON schemas. Pure.

The library itself is not loaded here: its description is data, which tests compare with its signatures.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal

from jsonschema import Draft202012Validator

from gdal_mcp.toolboxes.gdal import data_of

LIBRARY: Final = "albumentations 2.0.8"


@dataclass(frozen=True)
class Transform:
    """A transform of the library, as described on the host."""

    name: str  # the name of the library's class
    category: str
    description: str
    # JSON schema of the constructor's arguments without `p`, with `unit` for each that has one
    parameters: Mapping[str, Any]
    examples: tuple[str, ...]
    aliases: tuple[str, ...]
    georeference: Literal["kept", "exact", "lost"]
    bands: Literal["any", "rgb"]
    cost: float  # seconds for a million pixels of three uint8 bands, measured once: an order of magnitude

    @property
    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        return self.parameters["properties"]  # type: ignore[no-any-return]

    def faults(self, parameters: Mapping[str, Any]) -> list[str]:
        """The reasons why these arguments are invalid for the constructor, in words; empty if they are valid."""
        reasons = [
            f"{fault.path[0]}: {_allowed(self.arguments[fault.path[0]])}, not {json.dumps(parameters[fault.path[0]])}"
            if fault.path
            else f"{self.name}: {fault.message}"
            for fault in _validator(self.name).iter_errors(parameters)
        ]
        return reasons or [
            f"{name}: the lower end comes first, not {value}"
            for name, value in parameters.items()
            if self.arguments[name].get("ordered") and isinstance(value, list) and value != sorted(value)
        ]


def _schema(definition: Mapping[str, Any]) -> dict[str, Any]:
    """One argument's JSON schema, from the short form of the catalogue."""
    number_schema = {"type": definition["type"]}
    number_schema |= {
        word: definition[key]
        for key, word in (("min", "minimum"), ("max", "maximum"), ("enum", "enum"))
        if key in definition
    }
    if definition.get("odd"):
        odd = {"not": {"multipleOf": 2}}
        number_schema |= {"anyOf": [{"const": 0}, odd]} if definition["min"] == 0 else odd
    schema: dict[str, Any] = dict(number_schema)
    if (of := definition.get("of")) is not None:
        least = most = definition.get("length", 2)
        if of == "list" and "length" not in definition:
            least, most = 1, 16
        pair = {"type": "array", "items": number_schema, "minItems": least, "maxItems": most}
        both = {"type": "object", "properties": {"x": pair, "y": pair}, "minProperties": 1}
        both["additionalProperties"] = False
        forms = [
            pair,
            *([number_schema] if definition.get("scalar") else []),
            *([both] if of == "axes" else []),
        ]
        forms += [{"enum": definition["words"]}] if "words" in definition else []
        schema = {"anyOf": forms} if len(forms) > 1 else pair
        schema = {**schema, "ordered": True} if of != "list" else schema
    if definition.get("nullable"):
        schema = {"anyOf": [schema, {"type": "null"}], **({"ordered": True} if schema.get("ordered") else {})}
    annotations = {key: definition[key] for key in ("default", "unit") if key in definition}
    return schema | annotations | ({"description": definition["note"]} if "note" in definition else {})


def _allowed(schema: Mapping[str, Any]) -> str:
    """The valid values of an argument, in words."""
    number_schema = number_of(schema)
    if "enum" in number_schema:
        return f"one of {', '.join(map(str, number_schema['enum']))}"
    limits = (
        f" from {number_schema['minimum']} to {number_schema['maximum']}"
        if "minimum" in number_schema
        else ""
    )
    odd = ", odd" if "not" in number_schema or "anyOf" in number_schema else ""
    return (
        "a pair, each " if schema.get("ordered") else ""
    ) + f"{number_schema.get('type', 'value')}{limits}{odd}"


def number_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a single number of an argument that takes one, two or more."""
    if "items" in schema:
        return schema["items"]  # type: ignore[no-any-return]
    if "type" in schema:
        return schema
    return next((number_of(form) for form in schema["anyOf"] if form.get("type") != "null"), {})


def _transform(name: str, entry: Mapping[str, Any], shared: Mapping[str, Any]) -> Transform:
    arguments = {
        **entry.get("parameters", {}),
        **{key.split()[0]: shared[key] for key in entry.get("shared", ())},
    }
    return Transform(
        name=name,
        category=entry["category"],
        description=entry["description"],
        parameters={
            "type": "object",
            "properties": {argument: _schema(definition) for argument, definition in arguments.items()},
            "required": [
                argument for argument, definition in arguments.items() if definition.get("required")
            ],
            "additionalProperties": False,
            **entry.get("constraint", {}),
        },
        examples=tuple(entry["examples"]),
        aliases=tuple(entry["aliases"]),
        georeference=entry["georeference"],
        bands=entry.get("bands", "any"),
        cost=entry.get("cost", 0.01),
    )


_DATA: Final = data_of("gdal_mcp.toolboxes.augment", "transforms.toml")
TRANSFORMS: Final[Mapping[str, Transform]] = MappingProxyType(
    {name: _transform(name, entry, _DATA["shared"]) for name, entry in _DATA.items() if name != "shared"}
)


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(TRANSFORMS[name].parameters)
