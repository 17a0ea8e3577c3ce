"""References in a workflow document: `${parameters.NAME}`, `${steps.ID}`, `${steps.ID.outputs.N}`. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_PARAMETER: Final = re.compile(r"parameters\.([a-z][a-z0-9_]{0,39})", re.ASCII)
_STEP: Final = re.compile(r"steps\.([a-z][a-z0-9_]{0,39})(?:\.outputs\.(\d{1,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ParameterReference:
    name: str


@dataclass(frozen=True, slots=True)
class StepOutput:
    """An output of a step; outputs are numbered from 0."""

    step: str
    number: int = 0


Reference = ParameterReference | StepOutput


def find(value: Any) -> Iterator[Reference]:
    """All references in a JSON value, in order. Raises ValueError for a malformed one."""
    if isinstance(value, str):
        for match in _REFERENCE.finditer(value):
            if match[1] is not None:
                yield _read(match)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from find(key)
            yield from find(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from find(item)


def substitute(value: Any, value_of: Callable[[Any], Any]) -> Any:
    """The JSON value with each reference replaced. A string that is one reference becomes its value, with its type."""
    if isinstance(value, str):
        full = _REFERENCE.fullmatch(value)
        if full is not None and full[1] is not None:
            return value_of(_read(full))
        return _REFERENCE.sub(
            lambda match: "${" if match[1] is None else _text(value_of(_read(match))), value
        )
    if isinstance(value, Mapping):
        return {substitute(key, value_of): substitute(item, value_of) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [substitute(item, value_of) for item in value]
    return value


def is_step_output(text: str) -> bool:
    """True if the text is exactly one reference to an output of a step."""
    full = _REFERENCE.fullmatch(text)
    return full is not None and full[1] is not None and isinstance(_read(full), StepOutput)


def _read(match: re.Match[str]) -> Reference:
    text = match[1]
    if match[0].endswith("}"):
        if name := _PARAMETER.fullmatch(text):
            return ParameterReference(name[1])
        if step := _STEP.fullmatch(text):
            return StepOutput(step[1], int(step[2] or 0))
    raise ValueError(
        f"{match[0][:80]!r} is not a reference. Use ${{parameters.NAME}}, ${{steps.ID}} or ${{steps.ID.outputs.N}}; "
        "a literal ${ is written $${"
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
