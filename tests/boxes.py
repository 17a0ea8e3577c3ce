"""GDAL's toolbox from the packaged catalogue, and the objects that tests make from it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from gdal_mcp.approvals.model import Authorization
from gdal_mcp.calls.entitlements import Entitlements
from gdal_mcp.calls.invocation import Access, Invocation, Prepared
from gdal_mcp.plan import Plan
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import Tool
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged, packaged_text
from gdal_mcp.toolboxes.gdal.preflight.service import Preflight
from gdal_mcp.toolboxes.surface import Surface, Toolboxes
from gdal_mcp.tools.toolbox import gdal_toolbox

GDAL = gdal_toolbox(packaged_text())
BOXES = Toolboxes((GDAL,))


def surface(settings: Settings, outside: Iterable[str] = ()) -> Surface:
    return BOXES.surface(settings, outside)


def known_tools() -> Mapping[str, Tool]:
    return GDAL.tools


def preflight(settings: Settings) -> Preflight:
    return Preflight(settings.limits(), packaged())


def parsed(call: Invocation, tool: str = "convert") -> Invocation:
    """A call by someone who has the access that default settings give."""
    settings = Settings()
    reach = Entitlements(
        settings, cast("Any", None), surface(settings), settings.limits(), {"gdal": preflight(settings)}
    )
    return replace(call, access=Access(reach, GDAL.tools[tool], GDAL))


def planned(call: Invocation, plan: Plan, host: Any = None, approval: str = "") -> Invocation:
    """The same call with a plan and the reason why it may run."""
    invocation = parsed(call, plan.tool)
    return replace(invocation, prepared=Prepared(plan, host), authorization=Authorization(approval))
