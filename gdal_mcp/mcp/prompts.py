"""The prompts: texts that tell a model which tools to call in which order, with the user's values in them.

Invariants:
* a value is one visible line of bounded length, checked by the kind of its argument, and put in as a JSON string;
* a prompt reads no file and starts nothing.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import mcp_types as t
from mcp.shared.exceptions import MCPError

from gdal_mcp.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.gdal.discovery import read
from gdal_mcp.gdal.discovery.values import KINDS
from gdal_mcp.mcp.icons import PROMPT
from gdal_mcp.untrusted import shown_text

MAX_VALUE: Final = 1024  # characters; a path that people type, with room
_PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{([a-z_]+)\}")
_WORDS: Final = re.compile(r"[A-Za-z0-9_]{1,40}(\s*,\s*[A-Za-z0-9_]{1,40}){0,31}")


@dataclass(frozen=True, slots=True)
class PromptValue:
    """One argument of a prompt."""

    name: str
    kind: str
    description: str
    required: bool = False
    default: str = ""
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = 0


@dataclass(frozen=True, slots=True)
class PromptText:
    """One prompt."""

    name: str
    title: str
    description: str
    text: str
    values: tuple[PromptValue, ...]


def list_prompts() -> t.ListPromptsResult:
    """Every prompt with its arguments; always the same."""
    return t.ListPromptsResult(prompts=[_listed(one) for one in prompts().values()])


def get_prompt(name: str, arguments: Mapping[str, str] | None) -> t.GetPromptResult:
    """The message of a prompt with these values. Raises MCPError for an unknown prompt or a value that is refused."""
    prompt = prompts().get(name)
    if prompt is None:
        raise MCPError(t.INVALID_PARAMS, f"There is no such prompt. The prompts are: {', '.join(prompts())}.")
    values = _checked(prompt, arguments or {})
    content = t.TextContent(
        text=f"{str(read('prompts.toml')['preamble']).strip()}\n\n{_filled(prompt.text, values)}"
    )
    return t.GetPromptResult(
        description=prompt.description, messages=[t.PromptMessage(role="user", content=content)]
    )


@lru_cache(maxsize=1)
def prompts() -> Mapping[str, PromptText]:
    """The prompts by name."""
    found = {}
    for entry in read("prompts.toml")["prompt"]:
        values = tuple(
            PromptValue(**{**one, "choices": tuple(one.get("choices", ()))}) for one in entry["argument"]
        )
        name = entry["name"]
        found[name] = PromptText(name, entry["title"], entry["description"], entry["text"].strip(), values)
    return MappingProxyType(found)


def _listed(prompt: PromptText) -> t.Prompt:
    arguments = [
        t.PromptArgument(name=one.name, description=_help(one), required=one.required)
        for one in prompt.values
    ]
    return t.Prompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=arguments,
        icons=[PROMPT],
    )


def _help(value: PromptValue) -> str:
    choices = f" One of {', '.join(value.choices)}." if value.choices else ""
    default = f" Default: {value.default}." if value.default else ""
    return f"{value.description}.{choices}{default}"


def _checked(prompt: PromptText, given: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(set(given) - {one.name for one in prompt.values})
    if unknown:
        raise _refused(shown_text(unknown[0], 60), "this prompt has no such argument")
    return {one.name: _value(one, given.get(one.name, "") or one.default) for one in prompt.values}


def _value(value: PromptValue, text: str) -> str:
    if not text:
        if value.required:
            raise _refused(value.name, "it is required")
        return ""
    if len(text) > MAX_VALUE or not text.strip() or shown_text(text) != text:
        raise _refused(
            value.name,
            f"a value is one line of at most {MAX_VALUE} visible characters, without control characters",
        )
    try:
        return KINDS[value.kind].check(text) if value.kind in KINDS else CHECKS[value.kind](value, text)
    except ArgumentRefused as error:
        raise _refused(value.name, f"{error.message} {error.suggestion}".strip(" .")) from error


def _choice(value: PromptValue, text: str) -> str:
    found = next((one for one in value.choices if one.lower() == text.lower()), None)
    if found is None:
        raise _refused(value.name, f"it is one of {', '.join(value.choices)}")
    return found


def _number(value: PromptValue, text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,6}", text) or not value.minimum <= int(text) <= value.maximum:
        raise _refused(value.name, f"it is a whole number from {value.minimum} to {value.maximum}")
    return str(int(text))


def _words(value: PromptValue, text: str) -> str:
    if not _WORDS.fullmatch(text):
        raise _refused(
            value.name, "it is a list of names of letters, digits and underscores, with commas between"
        )
    return ",".join(word.strip() for word in text.split(","))


CHECKS: Final[Mapping[str, Callable[[PromptValue, str], str]]] = MappingProxyType(
    {
        "path": lambda _value, text: text,  # looked up when a tool is called with it
        "choice": _choice,
        "number": _number,
        "words": _words,
    }
)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """One pass, so that a placeholder in a value stays as it is."""

    def put(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else json.dumps(values[match[1]], ensure_ascii=False)

    return _PLACEHOLDER.sub(put, text)


def _refused(name: str, why: str) -> MCPError:
    return MCPError(t.INVALID_PARAMS, f"The argument {name} cannot be used: {why}.")
