"""Asks the client's user for approval by elicitation, in both protocol eras."""

import json
from dataclasses import dataclass, replace

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gdal_mcp.approvals.model import ApprovalQuestion, Decision, Suspended
from gdal_mcp.policy.policy import Channel

KEY = "approval"
# Accepting the form means yes. It has no fields, so that no client can fill in a yes as a default value.
_FORM = {"type": "object", "properties": {}}
_LEAD = "Decide this in the server's console, where you sign in. "


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Asks the user of the client that sent this request; a client without elicitation gets no question.

    In the handshake era, the question is sent while the call waits. In 2026-07-28, the reply is the question, and the
    client repeats the call with the answer.
    """

    ctx: ServerRequestContext
    params: t.CallToolRequestParams
    user: str
    has_answer: bool = True  # False if the answer in the request, if any, belongs to an earlier question

    def asks(self, ways: frozenset[Channel]) -> bool:
        offered = self._offered
        forms = offered is not None and not (offered.url is not None and offered.form is None)
        return "elicitation" in ways and forms

    def answered(self) -> tuple[str, Decision | None] | None:
        response = (self.params.input_responses or {}).get(KEY)
        if not self.has_answer:
            return None
        if self.ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS or not self.params.request_state:
            return None
        state = json.loads(self.params.request_state)  # sealed by this process, so it is unchanged
        approval = str(state["approval"])
        # opening the page is not an answer, because the answer is given on the page; a malformed answer is not one
        # either
        if not isinstance(response, t.ElicitResult) or (state.get("page") and response.action == "accept"):
            return approval, None
        return approval, self._decision(response)

    def again(self) -> "Elicitation":
        return replace(self, has_answer=False)

    async def ask(self, question: ApprovalQuestion) -> Decision | None:
        form = self.asks(question.ways)
        offered, url = self._offered, question.url or ""
        if not form and not (url and offered is not None and offered.url is not None):
            return None
        if self.ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            params = (
                t.ElicitRequestFormParams(message=question.row.summary, requested_schema=_FORM)
                if form
                else t.ElicitRequestURLParams(message=_LEAD + question.row.summary, url=url)
            )
            raise Suspended(
                t.InputRequiredResult(
                    input_requests={KEY: t.ElicitRequest(params=params)},
                    request_state=json.dumps({"approval": question.row.id, "page": not form}),
                )
            )
        session, request_id = self.ctx.session, self.ctx.request_id
        try:
            if form:
                answer = await session.elicit_form(question.row.summary, _FORM, related_request_id=request_id)
                return self._decision(answer)
            # only opens the page for the user; the caller waits for the decision in the approvals
            await session.elicit_url(
                _LEAD + question.row.summary, url, question.row.id, related_request_id=request_id
            )
        except (MCPError, ValidationError):
            # the client offers elicitation, but replied with an error or not at all, so no person was asked
            pass
        return None

    @property
    def _offered(self) -> t.ElicitationCapability | None:
        capabilities = self.ctx.session.client_capabilities
        return capabilities.elicitation if capabilities else None

    def _decision(self, response: t.ElicitResult) -> Decision:
        return Decision(
            approved=response.action == "accept",
            by=self.user,
            how=f"elicitation: {response.action}",
            way="elicitation",
        )
