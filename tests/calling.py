"""Calls by one person through the whole pipeline of a server in this process."""

from collections.abc import Mapping
from typing import Any

import anyio

from gdal_mcp.approvals.model import Approver, NullApprover, Terminal
from gdal_mcp.calls.pipeline import Pipeline, Reply, Request
from gdal_mcp.policy.identity import local
from gdal_mcp.server.app import App

ANN = local("ann")


def person(*, yes: bool) -> Approver:
    """A person at a terminal who approves everything, or who is not there to be asked."""
    return Terminal("ann", assume_yes=yes, how="a test")


def called(
    to: App | Pipeline, tool: str, arguments: Mapping[str, Any], approver: Approver | None = None
) -> Reply:
    """The reply to a call by `ANN`. Without an approver, nobody can be asked for approval."""
    pipeline = to.pipeline if isinstance(to, App) else to
    request = Request(tool, arguments, ANN, "test", approver or NullApprover())
    reply: Reply = anyio.run(pipeline.call, request)
    return reply
