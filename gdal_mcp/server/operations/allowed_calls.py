"""Calls that the server makes for a person who views a page or a map.

They run in a container, within the principal's policy, rates and limits like every other call, but never ask for
approval.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio

from gdal_mcp.approvals.model import ApprovalQuestion, Decision, NullApprover
from gdal_mcp.calls.operation import Operation
from gdal_mcp.calls.pipeline import Reply, Request
from gdal_mcp.policy.identity import Principal
from gdal_mcp.policy.policy import Channel
from gdal_mcp.server.app import App

UNLISTED: Final = Operation(in_history=False)


async def call_if_allowed(  # noqa: PLR0913 - who calls what
    app: App,
    who: Principal,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    client: str = "console",
    operation: Operation = UNLISTED,
) -> Reply | None:
    """The reply of the call, including a failed one; None if the policy requires approval."""
    with anyio.CancelScope() as scope:
        request = Request(tool, dict(arguments), who, client, _Unasked(scope), operation=operation)
        return await app.pipeline.call(request)
    return None


@dataclass(frozen=True, slots=True)
class _Unasked(NullApprover):
    """Cancels a call that needs approval, instead of asking for it."""

    scope: anyio.CancelScope

    def asks(self, ways: frozenset[Channel]) -> bool:  # noqa: ARG002 - the protocol's signature
        return True

    async def ask(self, question: ApprovalQuestion) -> Decision | None:  # noqa: ARG002 - the protocol's signature
        self.scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError
