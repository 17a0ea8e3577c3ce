"""Messages for the errors that pydantic finds in a workflow document. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

_STEP_KEYS: Final = "id, tool, arguments, after"
# messages by the type of the error and the last key of its location
_BY_KEY: Final[Mapping[tuple[str, str], str]] = {
    ("missing", "workflow"): 'is missing; it is the version of the format: "workflow": 1',
    ("literal_error", "workflow"): "must be 1, the version of the format",
    ("dict_type", "outputs"): (
        'must be an object with a name for each output, such as {"slope": {"from": "${steps.slope}", "to": "slope.tif"}}'
    ),
    ("dict_type", "arguments"): "must be an object with the arguments of the tool",
    ("dict_type", "parameters"): (
        'must be an object with a name for each parameter, such as {"dem": {"type": "path", "default": "dem.tif"}}'
    ),
    (
        "tuple_type",
        "steps",
    ): 'must be a list of objects such as {"id": "slope", "tool": "raster_slope", "arguments": {}}',
}
_EMPTY: Final = "must have at least one step"
_BY_TYPE: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "string_pattern_mismatch": "must start with a letter and have at most 40 characters: lower-case letters, digits and _",
    "model_type": "must be an object",
    "dict_type": "must be an object",
}
_PARAMETER: Final = 'must be an object such as {"type": "path", "default": "dem.tif"}'
_OUTPUT: Final = 'must be an object such as {"from": "${steps.slope}", "to": "slope.tif"}'


class Wording(NamedTuple):
    message: str
    step: str = ""
    argument: str = ""


def word(value: Any, error: ValidationError) -> Iterator[Wording]:
    """Yields each error with the id of its step and the name of the argument. `value` is the document."""
    for detail in error.errors(include_url=False):
        place, kind = detail["loc"], detail["type"]
        message = _message(place, kind, detail["msg"])
        if kind == "too_short" and place == ("steps",) and value["steps"]:
            continue  # pydantic leaves out steps that have errors of their own
        if place[:1] == ("steps",) and len(place) > 1 and isinstance(place[1], int):
            step = value["steps"][place[1]]
            name = str(step.get("id", place[1])) if isinstance(step, dict) else str(place[1])
            yield Wording(message, name, ".".join(map(str, place[2:])))
        else:
            yield Wording(f"{'.'.join(map(str, place)) or 'document'}: {message}")


def _message(place: tuple[int | str, ...], kind: str, message: str) -> str:
    key = str(place[-1]) if place else ""
    if kind == "too_short" and place == ("steps",):
        return _EMPTY
    if kind == "extra_forbidden":
        known = f"; a step has {_STEP_KEYS}" if place[:1] == ("steps",) else ""
        return f"there is no such key{known}"
    if kind == "model_type" and len(place) == 2:
        return {"parameters": _PARAMETER, "outputs": _OUTPUT}.get(str(place[0]), _BY_TYPE[kind])
    return _BY_KEY.get((kind, key)) or _BY_TYPE.get(kind, message)
