"""`gdal-mcp policy check`: the policy's decision about a call. Nothing is recorded and no container is started."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from gdal_mcp.calls.refusals import no_such_tool
from gdal_mcp.cli.exits import Exit
from gdal_mcp.cli.streams import json_object, out_json
from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.policy.policy import Allow, Deny, PolicyRule, Verdict, case, explained
from gdal_mcp.server.app import App, local_user, running
from gdal_mcp.server.operations.uploading import UPLOAD, draft_upload
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import ImmediateResult


def check(settings: Settings, tool: str, arguments: str, principal: str | None) -> Exit:
    """Prints the decision as JSON. Raises SettingsError and the errors of `running`."""
    settings.require_workspaces()
    answer = _decision(settings, tool, json_object(arguments), principal or local_user().id)
    out_json(answer)
    return Exit.FAILED if answer["decision"] == "error" else Exit.DONE


def _decision(settings: Settings, tool: str, arguments: Mapping[str, Any], principal: str) -> dict[str, Any]:
    """The decision and its rule, or the `error` of a call that would fail before it."""
    with running(settings) as app:
        try:
            draft = _draft(app, tool, arguments, principal)
        except ToolError as error:
            return {"decision": "error", **error.as_dict("")}
        except ValidationError as error:
            return {"decision": "error", "error": {"code": "INVALID_ARGUMENT", "message": str(error)}}
        if not isinstance(draft, Draft):
            return {"decision": "allow", "reason": "it starts no container", "effect": "read"}
        request = case(draft, tool, principal)
        verdict, rule = explained(request, app.entitlements.policy)
        return {
            "decision": {Allow: "allow", Deny: "deny"}.get(type(verdict), "require"),
            "reason": verdict.reason,
            "effect": str(request.effect),
            "workspaces": sorted(map(str, request.workspaces)),
            "principal": principal,
            "rule": _rule_answer(rule, app) if rule is not None else None,
            "mode": app.entitlements.policy.mode,
            "policy": app.entitlements.policy.source or None,
            **_ways(verdict, app, draft, tool, principal),
        }


def _draft(app: App, name: str, arguments: Mapping[str, Any], principal: str) -> Draft | ImmediateResult:
    reach = app.entitlements.of(principal)
    if name == UPLOAD:
        return draft_upload(app, reach, principal, arguments)
    tool = reach.surface.callable.get(name)
    if tool is None:
        raise no_such_tool(name, reach.surface)
    toolbox = reach.surface.toolboxes[tool.name]
    scope = app.pipeline.drafting.scope(reach, toolbox, principal, "0" * 16)
    draft = tool.draft(arguments, toolbox.analysis.context(scope))
    return replace(draft, addresses=scope.remote.addresses) if isinstance(draft, Draft) else draft


def _ways(verdict: Verdict, app: App, draft: Draft, tool: str, principal: str) -> dict[str, Any]:
    if isinstance(verdict, Allow | Deny):
        return {}
    folders = tuple(address.folder for address in draft.addresses)
    roots = tuple(map(str, draft.touched))
    grant = app.approvals.granted(principal, tool, roots, folders) if verdict.grantable else None
    left = {"id": grant.id, "seconds_left": round(grant.expires - time.time())} if grant else None
    return {"ways": sorted(verdict.ways), "grant": left}


def _rule_answer(rule: PolicyRule, app: App) -> dict[str, Any]:
    return {
        "number": app.entitlements.policy.rules.index(rule) + 1,
        "decision": rule.decision,
        "tools": list(rule.tools),
        "effects": sorted(map(str, rule.effects)),
        "workspaces": [str(place) for place in rule.workspaces],
        "principals": list(rule.principals),
    }
