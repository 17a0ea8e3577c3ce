"""The tools, prompts and resources that the conformance suite requires of a server, with the names and texts that it
expects.
"""

import base64
import json
import re
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as t
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ServerEvent, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.server.mcp import jobs
from gdal_mcp.server.mcp.progress import Tell
from gdal_mcp.server.mcp.tasks import Context
from tests.png import RGB, png

Params = t.CallToolRequestParams
Tool = Callable[[Context, Params, Tell], Awaitable[jobs.Answer]]
Asked = Mapping[str, t.InputRequest]

STEP = 0.15  # seconds between two reports: the product sends at most one in an eighth of a second
TEXT = {"type": "string"}


def _wav() -> str:
    """One sample of silence."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", 1) + b"\x80\0"
    return base64.b64encode(struct.pack("<4sI", b"RIFF", len(body)) + body).decode()


PNG = base64.b64encode(png(1, 1, [b"\xff\0\0"], RGB)).decode()
WAV = _wav()


def text(words: str, *, is_error: bool = False) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=words)], is_error=is_error)


def embedded(uri: str, words: str, kind: str = "text/plain") -> t.EmbeddedResource:
    return t.EmbeddedResource(resource=t.TextResourceContents(uri=uri, mime_type=kind, text=words))


IMAGE = t.ImageContent(data=PNG, mime_type="image/png")
CONTENT: dict[str, list[t.ContentBlock]] = {
    "test_simple_text": [t.TextContent(text="This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [t.AudioContent(data=WAV, mime_type="audio/wav")],
    "test_embedded_resource": [embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        t.TextContent(text="Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "json_schema_2020_12_tool": [t.TextContent(text="called")],
    "test_header": [t.TextContent(text="called")],
    # this check is about resuming closed streams, which this server does not support
    "test_reconnection": [t.TextContent(text="never closed")],
}


def same(content: list[t.ContentBlock]) -> Tool:
    async def tool(_ctx: Context, _params: Params, _tell: Tell) -> jobs.Answer:
        return t.CallToolResult(content=content)

    return tool


async def error_handling(_ctx: Context, _params: Params, _tell: Tell) -> jobs.Answer:
    return text("This tool intentionally returns an error for testing", is_error=True)


async def logging(ctx: Context, _params: Params, _tell: Tell) -> jobs.Answer:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
    return text("logged")


async def progress(_ctx: Context, _params: Params, tell: Tell) -> jobs.Answer:
    for fraction in (0.0, 0.5, 1.0):
        tell(fraction, "working")
        await anyio.sleep(STEP)
    return text("done")


def form(message: str, required: tuple[str, ...] = (), **properties: Any) -> t.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampled(question: str, tokens: int = 100) -> t.CreateMessageRequest:
    message = t.SamplingMessage(role="user", content=t.TextContent(text=question))
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


async def sampling(ctx: Context, params: Params, _tell: Tell) -> jobs.Answer:
    messages = sampled(str((params.arguments or {}).get("prompt"))).params.messages
    answer = await ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)
    return text(f"LLM response: {answer.content.model_dump(mode='json')}")


def elicits(asking: Callable[[Mapping[str, Any]], t.ElicitRequest]) -> Tool:
    """Asks while the call waits; only in the handshake era."""

    async def tool(ctx: Context, params: Params, _tell: Tell) -> jobs.Answer:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(t.INVALID_PARAMS, "not in this era")
        wanted = asking(params.arguments or {}).params
        assert isinstance(wanted, t.ElicitRequestFormParams)
        question = wanted.message, wanted.requested_schema
        answer = await ctx.session.elicit_form(*question, related_request_id=ctx.request_id)
        return text(f"action={answer.action}, content={json.dumps(answer.content)}")

    return tool


DEFAULTS = form(
    "Please fill in",
    name={**TEXT, "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={**TEXT, "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
NUMBERED = [f"option{number}" for number in (1, 2, 3)]
ENUMS = form(
    "Please choose",
    untitledSingle={**TEXT, "enum": NUMBERED},
    titledSingle={**TEXT, "oneOf": TITLED},
    legacyEnum={
        **TEXT,
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {**TEXT, "enum": NUMBERED}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)
NAME = {"user_name": form("What is your name?", ("name",), name=TEXT)}
CAPITAL = {"capital_question": sampled("What is the capital of France?")}
ROOTS = {"client_roots": t.ListRootsRequest()}
CONFIRM = {"confirm": form("Please confirm", ("ok",), ok={"type": "boolean"})}
STEPS = (
    {"step1": form("Step 1: What is your name?", ("name",), name=TEXT)},
    {"step2": form("Step 2: What is your favorite color?", ("color",), color=TEXT)},
)
CONTEXT = {"user_context": form("What context should the prompt use?", ("context",), context=TEXT)}


def ask(questions: Asked, state: str | None = None) -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests=dict(questions), request_state=state)


def answered(params: Any, questions: Asked) -> bool:
    """True if there is an answer of the right kind to each question; an answer of another kind is requested once
    more.
    """
    kinds = {
        t.ElicitRequest: t.ElicitResult,
        t.CreateMessageRequest: t.CreateMessageResult,
        t.ListRootsRequest: t.ListRootsResult,
    }
    responses = params.input_responses or {}
    return all(isinstance(responses.get(key), kinds[type(question)]) for key, question in questions.items())


def answers_json(params: Any) -> str:
    """All answers as text."""
    answers = {
        key: response.model_dump(mode="json") for key, response in (params.input_responses or {}).items()
    }
    return json.dumps(answers, sort_keys=True)


def once(questions: Asked, state: str | None = None) -> Tool:
    """Asks once; with a state, only the same state returns with an answer."""

    async def tool(_ctx: Context, params: Params, _tell: Tell) -> jobs.Answer:
        if not answered(params, questions) or params.request_state != state:
            return ask(questions, state)
        return text(f"{state or 'answered'}: {answers_json(params)}")

    return tool


async def greeted(_ctx: Context, params: Params, _tell: Tell) -> jobs.Answer:
    answer = (params.input_responses or {}).get("user_name")
    if not isinstance(answer, t.ElicitResult) or not isinstance((answer.content or {}).get("name"), str):
        return ask(NAME)
    return text(f"Hello, {(answer.content or {})['name']}!")


async def in_rounds(_ctx: Context, params: Params, _tell: Tell) -> jobs.Answer:
    done = int(params.request_state or 0)
    if done and answered(params, STEPS[done - 1]):
        return (
            ask(STEPS[done], str(done + 1)) if done < len(STEPS) else text(f"ended: {answers_json(params)}")
        )
    return ask(STEPS[0], "1")


async def of_capabilities(ctx: Context, params: Params, _tell: Tell) -> jobs.Answer:
    declared = ctx.session.client_capabilities
    questions: dict[str, t.InputRequest] = {}
    if declared and declared.elicitation:
        questions |= NAME
    if declared and declared.sampling:
        questions |= CAPITAL
    return text(answers_json(params)) if not questions or answered(params, questions) else ask(questions)


async def needs_sampling(ctx: Context, _params: Params, _tell: Tell) -> jobs.Answer:
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs sampling.", needed)
    return text("sampling is there")


def changes(publish: Callable[[ServerEvent], None], event: ServerEvent) -> Tool:
    async def tool(_ctx: Context, _params: Params, _tell: Tell) -> jobs.Answer:
        publish(event)
        return text("changed")

    return tool


def tools(publish: Callable[[ServerEvent], None]) -> dict[str, Tool]:
    """All tools except those of the tasks extension."""
    both = {**NAME, "greeting": sampled("Generate a greeting", 50), **ROOTS}
    return {
        **{name: same(content) for name, content in CONTENT.items()},
        "test_error_handling": error_handling,
        "test_tool_with_logging": logging,
        "test_logging_tool": logging,
        "test_tool_with_progress": progress,
        "test_sampling": sampling,
        "test_elicitation": elicits(
            lambda arguments: form(
                str(arguments.get("message")), ("username", "email"), username=TEXT, email=TEXT
            )
        ),
        "test_elicitation_sep1034_defaults": elicits(lambda _arguments: DEFAULTS),
        "test_elicitation_sep1330_enums": elicits(lambda _arguments: ENUMS),
        "test_input_required_result_elicitation": greeted,
        "test_streaming_elicitation": greeted,
        "test_input_required_result_sampling": once(CAPITAL),
        "test_input_required_result_list_roots": once(ROOTS),
        "test_input_required_result_request_state": once(CONFIRM, "state-ok"),
        "test_input_required_result_tampered_state": once(CONFIRM, "state-ok"),
        "test_input_required_result_multiple_inputs": once(both, "all"),
        "test_input_required_result_multi_round": in_rounds,
        "test_input_required_result_capabilities": of_capabilities,
        "test_missing_capability": needs_sampling,
        "test_trigger_tool_change": changes(publish, ToolsListChanged()),
        "test_trigger_prompt_change": changes(publish, PromptsListChanged()),
    }


ADDRESS = {"$anchor": "addressDef", "type": "object", "properties": {"street": TEXT, "city": TEXT}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": ADDRESS},
        "properties": {
            "name": TEXT,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {**TEXT, "enum": ["phone", "email"]},
            "phone": TEXT,
            "email": TEXT,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_header": {"type": "object", "properties": {"region": {**TEXT, "x-mcp-header": "Region"}}},
    "test_elicitation": {"type": "object", "properties": {"message": TEXT}, "required": ["message"]},
    "test_sampling": {"type": "object", "properties": {"prompt": TEXT}, "required": ["prompt"]},
}

PROMPTS: dict[str, tuple[str, ...]] = {  # with their arguments
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def prompt(params: t.GetPromptRequestParams) -> t.GetPromptResult | t.InputRequiredResult:
    """The prompt with this name. Raises MCPError for an unknown one."""
    arguments = params.arguments or {}
    if params.name == "test_input_required_result_prompt" and not answered(params, CONTEXT):
        return ask(CONTEXT)
    content: dict[str, list[t.ContentBlock]] = {
        "test_simple_prompt": [t.TextContent(text="This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            t.TextContent(
                text=f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            )
        ],
        "test_prompt_with_embedded_resource": [
            embedded(arguments.get("resourceUri", ""), "Embedded resource content for testing."),
            t.TextContent(text="Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, t.TextContent(text="Please analyze the image above.")],
        "test_input_required_result_prompt": [
            t.TextContent(text=f"With this context: {answers_json(params)}")
        ],
    }
    if params.name not in content:
        raise MCPError(t.INVALID_PARAMS, "There is no such prompt.")
    messages = [t.PromptMessage(role="user", content=block) for block in content[params.name]]
    return t.GetPromptResult(messages=messages)


RESOURCES = {"test://static-text": "text/plain", "test://static-binary": "image/png", "test://watched-resource": "text/plain"}  # fmt: skip
TEMPLATE = "test://template/{id}/data"


def resource(uri: str) -> t.TextResourceContents | t.BlobResourceContents | None:
    if uri == "test://static-binary":
        return t.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    if uri in RESOURCES:
        words = "This is the content of the static text resource."
        return t.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    match = re.fullmatch(r"test://template/([^/]+)/data", uri)
    if match is None:
        return None
    document = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
    return t.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(document))
