"""The one way from an algorithm's name and arguments to a draft."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from gdal_mcp.gdal.catalogue.binding import bind_json
from gdal_mcp.gdal.catalogue.model import Algorithm
from gdal_mcp.gdal.datasets.operations import (
    ALWAYS_ASKED,
    FILE_OPERATIONS,
    check_identified,
    plan_operation,
)
from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.algorithm import PIPELINES, binding_context, draft_algorithm
from gdal_mcp.tools.model import DraftContext
from gdal_mcp.tools.pipelines import draft_pipeline


def draft_call(algorithm: Algorithm, arguments: Mapping[str, Any], context: DraftContext) -> Draft:
    """The draft of any algorithm. Raises ToolError, ArgumentRefused."""
    if algorithm.path in PIPELINES:
        return draft_pipeline(algorithm.path, arguments, context)
    if algorithm.path in FILE_OPERATIONS:
        return _draft_operation(algorithm, arguments, context)
    return draft_algorithm(algorithm, arguments, context)


def _draft_operation(algorithm: Algorithm, arguments: Mapping[str, Any], context: DraftContext) -> Draft:
    """Copying, renaming, moving and deleting files: GDAL looks, the host acts (`gdal_mcp.gdal.datasets.operations`)."""
    bound = bind_json(algorithm, arguments, binding_context(context))
    given = {one.name: one.values for one in bound.arguments}
    work = plan_operation(algorithm.path, given, context.paths)
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
