"""The prompts: texts that tell a model which tools to call in which order, with the user's values filled in.

Invariants:
* a value is one visible line of bounded length, checked by the kind of its argument, and inserted as a JSON string;
* a prompt reads no file and starts nothing.
"""

import json
import re
from collections.abc import Mapping
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

MAX_VALUE: Final = 1024  # characters; more than any path that people type
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
    listed = []
    for prompt in prompts().values():
        arguments = []
        for one in prompt.values:
            choices = f" One of {', '.join(one.choices)}." if one.choices else ""
            default = f" Default: {one.default}." if one.default else ""
            text = f"{one.description}.{choices}{default}"
            arguments.append(t.PromptArgument(name=one.name, description=text, required=one.required))
        listed.append(
            t.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.description,
                arguments=arguments,
                icons=[PROMPT],
            )
        )
    return t.ListPromptsResult(prompts=listed)


def get_prompt(name: str, arguments: Mapping[str, str] | None) -> t.GetPromptResult:
    """The message of a prompt with these values. Raises MCPError for an unknown prompt or an invalid value."""
    prompt = prompts().get(name)
    if prompt is None:
        raise MCPError(t.INVALID_PARAMS, f"There is no such prompt. The prompts are: {', '.join(prompts())}.")
    given = arguments or {}
    unknown = sorted(set(given) - {one.name for one in prompt.values})
    if unknown:
        raise _refused(shown_text(unknown[0], 60), "this prompt has no such argument")
    values = {one.name: _value(one, given.get(one.name, "") or one.default) for one in prompt.values}

    def fill(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else json.dumps(values[match[1]], ensure_ascii=False)

    # one pass, so that a placeholder in a value stays as it is
    text = _PLACEHOLDER.sub(fill, prompt.text)
    content = t.TextContent(text=f"{str(read('prompts.toml')['preamble']).strip()}\n\n{text}")
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
        return KINDS[value.kind].check(text) if value.kind in KINDS else _own_kind(value, text)
    except ArgumentRefused as error:
        raise _refused(value.name, f"{error.message} {error.suggestion}".strip(" .")) from error


def _own_kind(value: PromptValue, text: str) -> str:
    """Checks the kinds of values that only prompts have."""
    if value.kind == "path":
        return text  # checked by the tool that is called with it
    if value.kind == "choice":
        found = next((one for one in value.choices if one.lower() == text.lower()), None)
        if found is None:
            raise _refused(value.name, f"it is one of {', '.join(value.choices)}")
        return found
    if value.kind == "number":
        if not re.fullmatch(r"[0-9]{1,6}", text) or not value.minimum <= int(text) <= value.maximum:
            raise _refused(value.name, f"it is a whole number from {value.minimum} to {value.maximum}")
        return str(int(text))
    if value.kind != "words" or not _WORDS.fullmatch(text):
        raise _refused(
            value.name, "it is a comma-separated list of names made of letters, digits and underscores"
        )
    return ",".join(word.strip() for word in text.split(","))


def _refused(name: str, why: str) -> MCPError:
    return MCPError(t.INVALID_PARAMS, f"The argument {name} cannot be used: {why}.")
