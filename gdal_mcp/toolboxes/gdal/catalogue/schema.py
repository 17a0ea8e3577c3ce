"""JSON Schema (2020-12) of an algorithm's arguments, for tools and for gdal_describe. Pure.

`binding.bind` accepts every type, count, choice and range that a schema accepts. Only the binding decides which texts
are safe, and which arguments exclude each other beyond the rules in the schema. Names are GDAL's, with underscores
instead of hyphens.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.arguments import KEYED, MAX_VALUES, NUMERIC, is_packed
from gdal_mcp.toolboxes.gdal.catalogue.model import PATH_ROLES, Algorithm, Argument, Role

# removed from GDAL's descriptions, because a value that begins with @ is refused
_LISTED_IN_A_FILE: Final = re.compile(r"\s*\(or specify a @[^)]*\)")
_SHORT: Final = 48  # characters of a description in tools/list, which has a hundred tools
_SHOWN: Final[Mapping[str, str]] = {
    "output-crs": "dst_crs",  # GDAL accepts both names
    "input-crs": "src_crs",
    "pipeline": "steps",  # as in the tool `pipeline`
}
# names of the same argument in algorithms, hand-written tools and classic utilities; each accepts all of them
SAME_NAMES: Final = (
    ("input", "path", "filename", "dataset", "source", "src_dataset"),
    ("output", "destination", "dst_dataset"),
    ("output_format", "format"),
    ("dst_crs", "output_crs", "t_srs"),
    ("src_crs", "input_crs", "s_srs"),
    *((name, f"{name}s") for name in ("creation_option", "warp_option", "transform_option")),
)
_UNOFFERED: Final = frozenset(("quiet",))  # accepted because users are used to it, without effect
_FILLERS: Final = frozenset(
    "name the of a dataset datasets raster vector s input output layer option options format".split()
)
_UNBOUNDED: Final = 2147483647
_MOST_PAIRS: Final = 6  # pairs of one exclusion group; larger groups are left to the binding
_NOTES: Final[Mapping[str, str]] = {
    "replace": "Replace an existing output; default false",
    "sql": "one SELECT of layers of the input",
    "where": "a condition on fields, such as \"pop > 1000 AND name LIKE 'A%'\"",
    "geometry": "WKT or GeoJSON",
    "named": "NAME=path, or a path alone for the name X",
    "band": "path, or path,band=N for one band",
    "document": "path of a JSON file, or the JSON text itself",
    "mapping": "such as [1,3]=10; (3,7]=20; 9=30; DEFAULT=0",
    "gcp": "pixel,line,easting,northing[,elevation]",
    "pipeline": "list of steps, or GDAL's notation",
}
# the note replaces GDAL's description, which mentions values that are refused
_INSTEAD: Final = frozenset(("replace", "mapping", "gcp"))


def input_schema(algorithm: Algorithm, *, compact: bool = False) -> dict[str, Any]:
    """The JSON Schema of a call.

    `compact` is for tools/list: short descriptions, and no rules about combinations of arguments.
    """
    shown = sorted(
        offered(algorithm), key=lambda argument: (not argument.rule.primary, not argument.required)
    )
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            json_name(argument.name): property_schema(argument, compact=compact) for argument in shown
        },
        "additionalProperties": False,
    }
    required = [json_name(argument.name) for argument in shown if argument.required]
    if required:
        schema["required"] = required
    if not compact:
        schema.update(_together(algorithm, shown))
    return schema


def json_name(name: str) -> str:
    """The name of an argument for clients, the same in all tools; GDAL's own spelling is accepted too."""
    return _SHOWN.get(name, name.replace("-", "_"))


def offered(algorithm: Algorithm) -> Iterator[Argument]:
    """The arguments that a client can set. A pipeline command has only the pipeline; its steps have the rest."""
    steps = next((argument for argument in algorithm.arguments if argument.rule.check == "pipeline"), None)
    if steps is not None:
        yield steps
        return
    for argument in algorithm.arguments:
        owned = argument.role is Role.HOST_OWNED and argument.rule.mode != "replace"
        if argument.is_usable and not owned and argument.name not in _UNOFFERED:
            yield argument


def property_schema(argument: Argument, *, compact: bool) -> dict[str, Any]:
    is_list = argument.is_list and argument.max_count != 1 and argument.rule.check != "pipeline"
    schema = _list(argument) if is_list else _scalar(argument)
    if compact and argument.element_type == "string" and "enum" not in schema.get("items", {}):
        schema = {key: value for key, value in schema.items() if key not in ("items", "additionalProperties")}
    description = _description(argument, compact=compact)
    if description:
        schema["description"] = description
    default = argument.usage.get("default")
    if not compact and default is not None and default not in (False, "", _UNBOUNDED):
        schema["default"] = default
    return schema


def _list(argument: Argument) -> dict[str, Any]:
    """The schema of a list argument.

    A single value is accepted as a list of one. Text may have several values if GDAL packs them.
    """
    items = _scalar(argument)
    if argument.rule.form == "named":  # accepts an object such as {"A": "a.tif"} too
        return {
            "type": ["object", "array", "string"],
            "additionalProperties": {"type": "string"},
            "items": {"type": "string"},
        }
    if argument.rule.check in KEYED:
        values = {"type": ["string", "number", "boolean"]}
        return {"type": ["object", "array"], "additionalProperties": values, "items": {"type": "string"}}
    packed = is_packed(argument)
    bare = argument.min_count <= 1 and items.get("type") == "string" and "enum" not in items
    schema: dict[str, Any] = {"type": ["array", "string"] if packed or bare else "array", "items": items}
    if argument.min_count:
        schema["minItems"] = argument.min_count
    if argument.max_count is not None and argument.max_count <= MAX_VALUES:
        schema["maxItems"] = argument.max_count
    return schema


def _scalar(argument: Argument) -> dict[str, Any]:
    kind = argument.element_type
    if argument.rule.check == "pipeline":
        return {"type": ["array", "string"]}
    if kind in ("integer", "real"):
        schema: dict[str, Any] = {"type": "integer" if kind == "integer" else "number"}
        if argument.minimum is not None:
            schema["minimum" if argument.min_included else "exclusiveMinimum"] = _number(argument.minimum)
        if argument.maximum is not None:
            schema["maximum" if argument.max_included else "exclusiveMaximum"] = _number(argument.maximum)
        if argument.choices:
            schema["enum"] = [int(choice) for choice in argument.choices]
        return schema
    if kind == "boolean":
        return {"type": "boolean"}
    if argument.choices and argument.role not in PATH_ROLES:
        return {"type": "string", "enum": list(argument.choices)}
    return {"type": ["string", "number"] if argument.rule.check in NUMERIC else "string"}


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _description(argument: Argument, *, compact: bool) -> str:
    rule = argument.rule
    key = next((name for name in (rule.mode, rule.form, rule.check) if name in _NOTES), "")
    text, note = _LISTED_IN_A_FILE.sub("", argument.description).strip().rstrip("."), _NOTES.get(key, "")
    if key in _INSTEAD:
        text, note = note[0].upper() + note[1:], ""
    if compact:
        return note or _short(argument, text)
    metavar = argument.usage.get("metavar")
    form = f" as {metavar}" if isinstance(metavar, str) and set("<[,=") & set(metavar) else ""
    return f"{text}{'' if '@' in form else form}{f': {note}' if note else ''}"


def _short(argument: Argument, text: str) -> str:
    """The beginning of a description; empty if it only repeats the argument's name."""
    words = {word.strip("().,'").lower() for word in text.split()}
    own = set(argument.name.split("-"))
    if words <= own | {f"{word}s" for word in own} | _FILLERS:
        return ""
    if len(text) <= _SHORT:
        return text
    return text[:_SHORT].rpartition(" ")[0].rstrip(" ,(-") + "…"


def _together(algorithm: Algorithm, shown: list[Argument]) -> dict[str, Any]:
    names = {argument.name for argument in shown}
    rules: dict[str, Any] = {}
    needed = {
        json_name(argument.name): sorted(map(json_name, partners))
        for argument in shown
        if (
            partners := (algorithm.companions(argument, "dependency_group") | set(argument.depends_on))
            & names
        )
    }
    if needed:
        rules["dependentRequired"] = needed
    groups: dict[str, list[str]] = {}
    for argument in shown:
        if argument.exclusion_group:
            groups.setdefault(argument.exclusion_group, []).append(json_name(argument.name))
    rivals = ([list(pair) for pair in combinations(group, 2)] for group in groups.values())
    pairs = [pair for group_pairs in rivals if len(group_pairs) <= _MOST_PAIRS for pair in group_pairs]
    if pairs:
        rules["not"] = {"anyOf": [{"required": pair} for pair in pairs]}
    either = [{"anyOf": [{"required": [json_name(name)]} for name in group]} for group in algorithm.one_of]
    if either:
        rules["allOf"] = either
    return rules
