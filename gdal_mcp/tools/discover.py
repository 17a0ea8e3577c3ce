"""Tools for discovery: `gdal_search`, `gdal_describe`, `formats` and `find_crs`."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from gdal_mcp.plan import Command, Draft, PrintedOutput
from gdal_mcp.toolboxes.base import Arguments, CallAnswer, ImmediateResult, Tool, schema_and_draft, spelling
from gdal_mcp.toolboxes.gdal.answers.described import CRS_MATCH
from gdal_mcp.toolboxes.gdal.answers.words import valid_parts
from gdal_mcp.toolboxes.gdal.discovery.cities import find_city
from gdal_mcp.toolboxes.gdal.discovery.describe import describe, describe_step
from gdal_mcp.toolboxes.gdal.discovery.formats import formats
from gdal_mcp.toolboxes.gdal.discovery.search import absent, search
from gdal_mcp.toolboxes.gdal.discovery.sql import sql_of
from gdal_mcp.tools.algorithm import algorithm_named, path_named
from gdal_mcp.tools.common import DegreesBox, DraftContext

Limit = Annotated[int, Field(ge=1, le=50)]
_UNKNOWN_PLACE: Final = "No CRS or place of EPSG has these words. For a town or a region give its `bbox`."
_CRS_TEXTS: Final = ("code", "name", "area", "unit", "matched")


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
    query: str = Field(
        "",
        description="Such as `equal area europe`, `lambert 93`",
        max_length=200,
    )
    bbox: DegreesBox | None = None
    input: str | None = Field(None, description="Instead of `bbox`: a dataset", max_length=4096)
    limit: Limit = 5

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if (self.bbox is None) == (self.input is None) and (self.input or not self.query.strip()):
            raise ValueError("give `query`, or one of `bbox` and `input`, or `query` with one of them")
        return self


def _search(arguments: SearchArguments, context: DraftContext) -> ImmediateResult:
    picked = [
        (tool.name, tool.title, tool.description, tool.writes)
        for tool in context.surface.callable.values()
        if tool is not GDAL_SEARCH and path_named(context.catalogue, tool.name) is None
    ]
    results = search(context.catalogue, arguments.query, limit=50, picked=picked)
    hits = [hit for hit in results if not hit.path or context.surface.permits(hit.path)]
    missing = absent(arguments.query)
    rows = [hit.as_dict() for hit in hits[: arguments.limit]]
    return ImmediateResult({"hits": rows} | ({"not_available": missing} if missing else {}))


def _describe(arguments: DescribeArguments, context: DraftContext) -> ImmediateResult:
    catalogue, name = context.catalogue, arguments.algorithm
    path = path_named(catalogue, name)
    step = next((key for key in catalogue.steps if spelling(key) == spelling(name)), None)
    if step is not None and path is None:
        return ImmediateResult(describe_step(catalogue, step))
    tool = context.surface.callable.get(name.strip())
    if tool is None or (path is not None and "_" in name):  # a tool generated from the catalogue
        return ImmediateResult(describe(catalogue, algorithm_named(name, context)))
    known = describe(catalogue, algorithm_named(name, context)) if path is not None else {}
    # a hand-written tool, whose description has an example
    described = {
        "tool": tool.name,
        "line": tool.description,
        "writes": tool.writes,
        "like": tool.like or None,
        "input_schema": tool.input_schema,
        **sql_of(tool.name),
    }
    return ImmediateResult(described | {key: known[key] for key in known.keys() & {"steps", "related"}})


def _find_crs(arguments: FindCrsArguments, context: DraftContext) -> Draft:
    query, box = arguments.query, arguments.bbox
    if box is None and arguments.input is None:
        query, box = find_city(query)
    extra = {"query": query, "limit": arguments.limit, "bbox": box}
    if arguments.input is None:
        # the answer comes from the image's PROJ database, which is as trusted as the image
        return Draft(
            Command("find_crs", (), extra=extra),
            (),
            printed=PrintedOutput(is_json=True, present=_matches_answer),
        )
    source = context.paths.source(arguments.input)
    command = Command("find_crs", (), (source.name,), extra=extra)
    return Draft(
        command, (source.located,), printed=PrintedOutput(is_json=True, present=_matches_near_dataset)
    )


def _matches_answer(answer: CallAnswer) -> dict[str, Any]:
    report = answer.parsed if isinstance(answer.parsed, dict) else {}
    words = {name: report[name] for name in ("unknown_words", "corrected_words") if report.get(name)}
    if words.get("unknown_words"):
        words["suggestion"] = _UNKNOWN_PLACE
    return {"matches": report.get("matches") or [], **words}


def _matches_near_dataset(answer: CallAnswer) -> dict[str, Any]:
    """The matches for a dataset. Only codes and numbers are facts, because the container has opened the dataset.

    All texts go under `untrusted`.
    """
    rows = [row for row in _matches_answer(answer)["matches"] if isinstance(row, dict)]
    texts = [{name: row[name] for name in _CRS_TEXTS if name in row} for row in rows]
    return {"matches": [valid_parts(CRS_MATCH, row) for row in rows], "untrusted": {"matches": texts}}


GDAL_SEARCH = Tool(
    name="gdal_search",
    title="Find a GDAL algorithm",
    description='Finds algorithms by what they do, best first. Example: {"query": "shade the mountains"}.',
    **schema_and_draft(SearchArguments, _search),
    writes=False,
    runs=False,
)
GDAL_DESCRIBE = Tool(
    name="gdal_describe",
    title="Describe a GDAL algorithm",
    description='Schema of its arguments, effects and examples. Example: {"algorithm": "vector buffer"}.',
    **schema_and_draft(DescribeArguments, _describe),
    writes=False,
    runs=False,
)
FORMATS = Tool(
    name="formats",
    title="List formats",
    description="Formats that GDAL reads and writes, or one with the options that may be set.",
    **schema_and_draft(
        FormatsArguments,
        lambda arguments, context: ImmediateResult(
            formats(context.catalogue, arguments.kind, arguments.name)
        ),
    ),
    writes=False,
    runs=False,
)
FIND_CRS = Tool(
    name="find_crs",
    title="Find a CRS",
    description='CRSs by purpose, place, name or former name, most common first. Example: {"query": "equal area", "bbox": [5, 45, 15, 55]}.',
    **schema_and_draft(FindCrsArguments, _find_crs),
    own_keys={"matches": {"type": "array"}},
    writes=False,
)
