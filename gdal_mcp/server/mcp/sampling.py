"""Asks the client's own model about a finished call, in both protocol eras, if the client supports sampling.

Invariants:
* the call is finished, published and recorded before the model is asked: no answer changes what was done;
* without an answer, for whatever reason, the result is sent unchanged, and says that no model looked at it;
* in protocol 2026-07-28 the question is the reply, and the result waits for the repeated call, which runs nothing.
  The number of waiting results is bounded, so that clients that never repeat a call do not fill the memory.
"""

import base64
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import anyio
import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.toolboxes.base import ModelQuestion, Tool
from gdal_mcp.toolboxes.untrusted import shown_text

KEY: Final = "model"
ASK_SECONDS: Final = 60.0  # seconds for the client's model, and for its user to permit the question
MAX_WAITING: Final = 8  # waiting results, each of which may have a picture of some megabytes
MAX_TOKENS: Final = 500
MAX_WORDS: Final = 2000  # characters of an answer


@dataclass(frozen=True, slots=True)
class Sampling:
    """The results that wait for an answer of the client's model, by the ids of their calls."""

    waiting: dict[str, tuple[float, Reply, ModelQuestion]] = field(default_factory=dict)

    async def with_model_answer(
        self, ctx: ServerRequestContext, tool: Tool, arguments: Mapping[str, object], reply: Reply
    ) -> Reply | t.InputRequiredResult:
        """The reply with the model's answer, the unchanged reply if no model is asked, or the question in its place."""
        offered = ctx.session.client_capabilities
        attached = reply.done.attached if reply.done is not None else {}
        question = tool.ask_model(arguments, attached) if not reply.error else None
        if question is None or offered is None or offered.sampling is None:
            return reply
        params = _request(question)
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            answer, to = None, ServerMessageMetadata(related_request_id=ctx.request_id)
            # the user may refuse, or the client may have no channel for questions, be unable to answer, or take too
            # long
            with anyio.move_on_after(ASK_SECONDS), suppress(MCPError, ValidationError):
                sent = t.CreateMessageRequest(params=params)
                answer = await ctx.session.send_request(sent, t.CreateMessageResult, metadata=to)
            return _with_answer(reply, question, answer)
        for call in [call for call, (until, *_) in self.waiting.items() if until < time.monotonic()]:
            del self.waiting[call]
        if len(self.waiting) >= MAX_WAITING:
            return reply
        self.waiting[reply.call_id] = time.monotonic() + 2 * ASK_SECONDS, reply, question
        requests: t.InputRequests = {KEY: t.CreateMessageRequest(params=params)}
        return t.InputRequiredResult(
            input_requests=requests, request_state=json.dumps({"finished": reply.call_id})
        )

    def answered(self, ctx: ServerRequestContext, params: t.CallToolRequestParams) -> Reply | None:
        """The result that waited for this repeated call; None for a call that must still run.

        Raises MCPError if the result no longer waits: the call has run, and must not run again.
        """
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS or not params.request_state:
            return None
        state = json.loads(params.request_state)  # sealed by this process, so it is unchanged
        if "finished" not in state:
            return None
        if (entry := self.waiting.pop(state["finished"], None)) is None:
            raise MCPError(
                t.INVALID_PARAMS,
                f"The call {state['finished']} is over, and its result is no longer available. Its record is "
                f"gdal://calls/{state['finished']}.",
            )
        _, reply, question = entry
        answer = (params.input_responses or {}).get(KEY)
        return _with_answer(reply, question, answer if isinstance(answer, t.CreateMessageResult) else None)


def _request(question: ModelQuestion) -> t.CreateMessageRequestParams:
    pictures = (
        t.ImageContent(data=base64.b64encode(data).decode(), mime_type="image/jpeg")
        for data in question.pictures
    )
    blocks: list[t.ImageContent | t.TextContent] = [*pictures, t.TextContent(text=question.text)]
    return t.CreateMessageRequestParams(
        # one block for each message, because older protocols have no lists of blocks
        messages=[t.SamplingMessage(role="user", content=block) for block in blocks],
        model_preferences=t.ModelPreferences(hints=[t.ModelHint(name=question.hint)]),
        max_tokens=MAX_TOKENS,
    )


def _with_answer(reply: Reply, question: ModelQuestion, answer: t.CreateMessageResult | None) -> Reply:
    if answer is None or not isinstance(answer.content, t.TextContent):
        return reply
    model, words = shown_text(answer.model, 100), shown_text(answer.content.text, MAX_WORDS)
    return replace(reply, result=question.add_answer(reply.result, model, words))
