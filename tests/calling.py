"""Calls through the whole pipeline of a server in this process, of one person."""

from collections.abc import Mapping
from typing import Any

import anyio

from gdal_mcp.approvals.model import Approver, NullApprover, Terminal
from gdal_mcp.calls.pipeline import Pipeline, Reply, Request
from gdal_mcp.policy.identity import local
from gdal_mcp.server.app import App

ANN = local("ann")


def person(*, yes: bool) -> Approver:
    """Who says yes to everything, or is not there."""
    return Terminal("ann", assume_yes=yes, how="a test")


def called(
    to: App | Pipeline, tool: str, arguments: Mapping[str, Any], approver: Approver | None = None
) -> Reply:
    """What a call of Ann's is answered; without an approver nobody can be asked."""
    pipeline = to.pipeline if isinstance(to, App) else to
    request = Request(tool, arguments, ANN, "test", approver or NullApprover())
    reply: Reply = anyio.run(pipeline.call, request)
    return reply
