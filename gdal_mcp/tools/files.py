"""The algorithms that copy, rename, move and delete files, as drafts: GDAL looks, the host acts (`gdal_mcp.gdal.datasets.operations`)."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from gdal_mcp.gdal.catalogue.binding import bind_json
from gdal_mcp.gdal.catalogue.model import Algorithm
from gdal_mcp.gdal.datasets.operations import ALWAYS_ASKED, check_identified, plan_operation
from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.algorithm import context_of
from gdal_mcp.tools.model import DraftContext


def draft_operation(algorithm: Algorithm, arguments: Mapping[str, Any], desk: DraftContext) -> Draft:
    """Raises ToolError, ArgumentRefused."""
    bound = bind_json(algorithm, arguments, context_of(desk))
    given = {one.name: one.values for one in bound.arguments}
    work = plan_operation(algorithm.path, given, desk.paths)
    return Draft(
        Command("gdal", work.argv),
        work.inputs,
        work.outputs,
        copies=work.copies,
        transfers=work.transfers,
        removes=work.removes,
        listings=work.listings,
        verify=partial(check_identified, work.identified) if work.identified else None,
        always_asked=algorithm.path in ALWAYS_ASKED or bool(work.removes),
        algorithm=algorithm.path,
        arguments=given,
    )
