"""Tools that tell what there is: `gdal_search`, `gdal_describe`, `formats` and `find_crs`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gdal_mcp.gdal.discovery.describe import describe, describe_step, sql_of
from gdal_mcp.gdal.discovery.formats import formats
from gdal_mcp.gdal.discovery.search import search
from gdal_mcp.plan import Command, Draft
from gdal_mcp.toolbox import Arguments, ImmediateResult, Tool, schema_of, spelling, typed
from gdal_mcp.tools.algorithm import algorithm_named, is_algorithm
from gdal_mcp.tools.common import DraftContext

Limit = Annotated[int, Field(ge=1, le=50)]


class SearchArguments(Arguments):
    query: str = Field(description="What to do, in plain words", min_length=1, max_length=500)
    limit: Limit = 8


class DescribeArguments(Arguments):
    algorithm: str = Field(
        description="Such as `raster hillshade`, or a step of pipelines such as `vector read`", max_length=100
    )


class FormatsArguments(Arguments):
    kind: Literal["raster", "vector", "multidim"] | None = None
    name: str | None = Field(None, description="One driver, with its options", max_length=64)


class FindCrsArguments(Arguments):
    query: str = Field(description="Code, name or area, such as `utm 33 north`", min_length=1, max_length=200)
    limit: Limit = 10


def _search(arguments: SearchArguments, context: DraftContext) -> ImmediateResult:
    picked = [
        (one.name, one.title, one.description, one.writes)
        for one in context.surface.callable.values()
        if one is not GDAL_SEARCH and not is_algorithm(context.catalogue, one.name)
    ]
    found = search(context.catalogue, arguments.query, limit=50, picked=picked)
    hits = [hit for hit in found if not hit.path or context.permits(hit.path)]
    return ImmediateResult({"hits": [hit.as_dict() for hit in hits[: arguments.limit]]})


def _describe(arguments: DescribeArguments, context: DraftContext) -> ImmediateResult:
    catalogue, name = context.catalogue, arguments.algorithm
    step = next((key for key in catalogue.steps if spelling(key) == spelling(name)), None)
    if step is not None and not is_algorithm(catalogue, name):
        return ImmediateResult(describe_step(catalogue, step))
    tool = context.surface.callable.get(name.strip())
    if tool is None or (is_algorithm(catalogue, name) and "_" in name):  # a generated tool
        return ImmediateResult(describe(catalogue, algorithm_named(name, context)))
    known = describe(catalogue, algorithm_named(name, context)) if is_algorithm(catalogue, name) else {}
    return ImmediateResult(_tool(tool) | {key: known[key] for key in known.keys() & {"steps", "related"}})


def _tool(tool: Tool) -> dict[str, Any]:
    """A tool that is picked by hand; its description has an example."""
    return {
        "tool": tool.name,
        "line": tool.description,
        "writes": tool.writes,
        "like": tool.like or None,
        "input_schema": tool.input_schema,
        **sql_of(tool.name),
    }


def _formats(arguments: FormatsArguments, context: DraftContext) -> ImmediateResult:
    return ImmediateResult(formats(context.catalogue, arguments.kind, arguments.name))


def _find_crs(arguments: FindCrsArguments, _context: DraftContext) -> Draft:
    extra = {"query": arguments.query, "limit": arguments.limit}
    return Draft(
        Command("find_crs", (), extra=extra),
        (),
        wants_json=True,
        # from the image's PROJ database, which is as trusted as the image
        present=lambda answer: {"matches": answer.parsed if isinstance(answer.parsed, list) else []},
    )


GDAL_SEARCH = Tool(
    name="gdal_search",
    title="Find a GDAL algorithm",
    description='Finds algorithms by what they do, best first. Example: {"query": "shade the mountains"}.',
    schema=schema_of(SearchArguments),
    draft=typed(SearchArguments, _search),
    writes=False,
    runs=False,
)
GDAL_DESCRIBE = Tool(
    name="gdal_describe",
    title="Describe a GDAL algorithm",
    description='Schema of its arguments, effects and examples. Example: {"algorithm": "vector buffer"}.',
    schema=schema_of(DescribeArguments),
    draft=typed(DescribeArguments, _describe),
    writes=False,
    runs=False,
)
FORMATS = Tool(
    name="formats",
    title="List formats",
    description="Formats that GDAL reads and writes, or one with the options that may be set.",
    schema=schema_of(FormatsArguments),
    draft=typed(FormatsArguments, _formats),
    writes=False,
    runs=False,
)
FIND_CRS = Tool(
    name="find_crs",
    title="Find a CRS",
    description='Coordinate reference systems by code, name or area. Example: {"query": "web mercator"}.',
    schema=schema_of(FindCrsArguments),
    draft=typed(FindCrsArguments, _find_crs),
    own_keys={"matches": {"type": "array"}},
    writes=False,
)
