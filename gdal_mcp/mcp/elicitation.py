"""Asks the client's user by elicitation, in both protocol eras."""

import json
from dataclasses import dataclass

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.approval.model import Approver, Decision, Question, Suspended

KEY = "approval"
# Accepting the form is the yes: a form without fields, so that no client can fill in a yes as a default value.
_FORM = {"type": "object", "properties": {}}


def approver(ctx: ServerRequestContext, params: t.CallToolRequestParams, user: str) -> Approver:
    """The way to ask this client's user. A client without form elicitation is asked nothing."""
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return Elicitation(ctx, params, user, modern=modern)


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Handshake era: a question while the call waits. 2026-07-28: the reply is the question, and the call comes again."""

    ctx: ServerRequestContext
    params: t.CallToolRequestParams
    user: str
    modern: bool

    def answered(self) -> tuple[str, Decision] | None:
        given = (self.params.input_responses or {}).get(KEY)
        if not self.modern or not isinstance(given, t.ElicitResult) or not self.params.request_state:
            return None
        state = json.loads(self.params.request_state)  # sealed by us, so whole and ours
        return str(state["approval"]), self._decision(given)

    async def ask(self, question: Question) -> Decision | None:
        if not self._can_ask():
            return None
        if self.modern:
            form = t.ElicitRequestFormParams(message=question.text, requested_schema=_FORM)
            raise Suspended(
                t.InputRequiredResult(
                    input_requests={KEY: t.ElicitRequest(params=form)},
                    request_state=json.dumps({"approval": question.approval_id}),
                )
            )
        try:
            given = await self.ctx.session.elicit_form(
                question.text, _FORM, related_request_id=self.ctx.request_id
            )
        except MCPError:
            return None  # it offers elicitation but answered with an error: nobody was asked
        return self._decision(given)

    def _can_ask(self) -> bool:
        capabilities = self.ctx.session.client_capabilities
        offered = capabilities.elicitation if capabilities else None
        return offered is not None and not (offered.url is not None and offered.form is None)

    def _decision(self, given: t.ElicitResult) -> Decision:
        return Decision(approved=given.action == "accept", by=self.user, how=f"elicitation: {given.action}")
