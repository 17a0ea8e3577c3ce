"""The one way from an algorithm's name and arguments to a draft."""

from collections.abc import Mapping
from typing import Any

from gdal_mcp.gdal.catalogue.model import Algorithm
from gdal_mcp.gdal.datasets.operations import FILE_OPERATIONS
from gdal_mcp.plan import Draft
from gdal_mcp.tools.algorithm import PIPELINES, draft_algorithm
from gdal_mcp.tools.files import draft_operation
from gdal_mcp.tools.model import DraftContext
from gdal_mcp.tools.pipelines import draft_pipeline


def draft_call(algorithm: Algorithm, arguments: Mapping[str, Any], desk: DraftContext) -> Draft:
    """The draft of any algorithm. Raises ToolError, ArgumentRefused."""
    if algorithm.path in PIPELINES:
        return draft_pipeline(algorithm.path, arguments, desk)
    if algorithm.path in FILE_OPERATIONS:
        return draft_operation(algorithm, arguments, desk)
    return draft_algorithm(algorithm, arguments, desk)
