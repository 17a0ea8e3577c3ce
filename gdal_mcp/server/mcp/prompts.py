"""The prompts: texts that tell a model which tools to call in which order, with the user's values filled in.

Invariants:
* a value is one visible line of bounded length, checked by its argument's own rule, and inserted as a JSON string;
* a prompt reads no file and starts nothing.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

import mcp_types as t
from mcp.shared.exceptions import MCPError

from gdal_mcp.errors import ToolError
from gdal_mcp.server.mcp.icons import PROMPT
from gdal_mcp.toolboxes.base import Prompt, PromptValue
from gdal_mcp.toolboxes.untrusted import shown_text

MAX_VALUE: Final = 1024  # characters; more than any path that people type
_PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{([a-z_]+)\}")


def list_prompts(prompts: Mapping[str, Prompt]) -> t.ListPromptsResult:
    return t.ListPromptsResult(
        prompts=[
            t.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.description,
                arguments=[
                    t.PromptArgument(name=value.name, description=value.description, required=value.required)
                    for value in prompt.values
                ],
                icons=[PROMPT],
            )
            for prompt in prompts.values()
        ]
    )


def get_prompt(
    prompts: Mapping[str, Prompt], name: str, arguments: Mapping[str, str] | None
) -> t.GetPromptResult:
    """The message of a prompt with these values. Raises MCPError for an unknown prompt or an invalid value."""
    prompt = prompts.get(name)
    if prompt is None:
        raise MCPError(t.INVALID_PARAMS, f"There is no such prompt. The prompts are: {', '.join(prompts)}.")
    texts = arguments or {}
    unknown = sorted(set(texts) - {value.name for value in prompt.values})
    if unknown:
        raise _refused(shown_text(unknown[0], 60), "this prompt has no such argument")
    values = {
        value.name: _value(value, texts.get(value.name, "") or value.default) for value in prompt.values
    }
    # replaced in one pass, so that a placeholder in a value is not replaced
    text = _PLACEHOLDER.sub(
        lambda match: match[0][0] if match[1] is None else json.dumps(values[match[1]], ensure_ascii=False),
        prompt.text,
    )
    content = t.TextContent(text=text)
    return t.GetPromptResult(
        description=prompt.description, messages=[t.PromptMessage(role="user", content=content)]
    )


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
        return value.check(text)
    except ToolError as error:
        raise _refused(value.name, f"{error.message} {error.suggestion}".strip(" .")) from error


def _refused(name: str, why: str) -> MCPError:
    return MCPError(t.INVALID_PARAMS, f"The argument {name} cannot be used: {why}.")
