"""Asks the client's user by elicitation, in both protocol eras."""

import json
from dataclasses import dataclass

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gdal_mcp.access.policy import Way
from gdal_mcp.approval.model import Approver, Decision, Question, Suspended

KEY = "approval"
# Accepting the form is the yes: a form without fields, so that no client can fill in a yes as a default value.
_FORM = {"type": "object", "properties": {}}
_LEAD = "To be decided in the server's console, which asks who you are. "


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

    def asks(self, ways: frozenset[Way]) -> bool:
        return "elicitation" in ways and self._takes_forms

    def answered(self) -> tuple[str, Decision | None] | None:
        given = (self.params.input_responses or {}).get(KEY)
        if not self.modern or not isinstance(given, t.ElicitResult) or not self.params.request_state:
            return None
        state = json.loads(self.params.request_state)  # sealed by us, so whole and ours
        approval = str(state["approval"])
        if state.get("page") and given.action == "accept":
            return approval, None  # to have opened a page is no answer: it is given there
        return approval, self._decision(given)

    async def ask(self, question: Question) -> Decision | None:
        form = self.asks(question.ways)
        if not form and not (question.url and self._takes_pages):
            return None
        if self.modern:
            raise Suspended(self._suspended(question, form=form))
        try:
            if form:
                return self._decision(await self._elicited(question))
            await self._shown(question)
        except MCPError:
            pass  # it offers elicitation but answered with an error: nobody was asked
        return None

    def _suspended(self, question: Question, *, form: bool) -> t.InputRequiredResult:
        asked = (
            t.ElicitRequestFormParams(message=question.text, requested_schema=_FORM)
            if form
            else t.ElicitRequestURLParams(message=_LEAD + question.text, url=question.url or "")
        )
        return t.InputRequiredResult(
            input_requests={KEY: t.ElicitRequest(params=asked)},
            request_state=json.dumps({"approval": question.approval_id, "page": not form}),
        )

    async def _elicited(self, question: Question) -> t.ElicitResult:
        return await self.ctx.session.elicit_form(
            question.text, _FORM, related_request_id=self.ctx.request_id
        )

    async def _shown(self, question: Question) -> None:
        """Only leads the user to the page; the row is watched meanwhile."""
        await self.ctx.session.elicit_url(
            _LEAD + question.text,
            question.url or "",
            question.approval_id,
            related_request_id=self.ctx.request_id,
        )

    @property
    def _offered(self) -> t.ElicitationCapability | None:
        capabilities = self.ctx.session.client_capabilities
        return capabilities.elicitation if capabilities else None

    @property
    def _takes_forms(self) -> bool:
        offered = self._offered
        return offered is not None and not (offered.url is not None and offered.form is None)

    @property
    def _takes_pages(self) -> bool:
        offered = self._offered
        return offered is not None and offered.url is not None

    def _decision(self, given: t.ElicitResult) -> Decision:
        return Decision(
            approved=given.action == "accept",
            by=self.user,
            how=f"elicitation: {given.action}",
            way="elicitation",
        )
