"""`query` and `query_to_file`: one SELECT over the layers of several files, its rows as an answer or as a file."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, WithJsonSchema

from gdal_mcp.plan import Command, Draft, Output, OutputKind, PrintedOutput, Work
from gdal_mcp.toolboxes.base import Arguments, CallAnswer, Tool, schema_and_draft, spelling
from gdal_mcp.toolboxes.gdal.answers.words import Count, Measure, many, shape, valid_parts
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.formats import driver_for, output_format
from gdal_mcp.toolboxes.gdal.catalogue.sql import check_allowed, check_statement
from gdal_mcp.tools.algorithm import algorithm_named
from gdal_mcp.tools.common import WRITES_OUTPUT, DraftContext, OutputPath, present_output

SQL: Final = "vector sql"
MAX_FILES: Final = 20
_ALIAS: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_RECORDS: Final[Mapping[str, str]] = {"json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "object": "object"}
_MEMBERS: Final = frozenset({"type", "features", "name", "crs", "bbox"})  # defined by GeoJSON or by GDAL
_UNITS: Final = shape(units=many(shape(column=Count, unit=Measure), 100))
_Path = Annotated[str, Field(min_length=1)]
Inputs = Annotated[
    Mapping[str, _Path] | Sequence[_Path],
    Field(max_length=MAX_FILES),
    # pydantic's own schema is three times as long
    WithJsonSchema(
        {
            "type": ["object", "array"],
            "description": 'Files by alias, {"a": "x.gpkg"}, or a list, with stems as aliases',
        }
    ),
]
Geometry = Literal["none", "wkt", "geojson"]


class QueryArguments(Arguments):
    inputs: Inputs = Field(default_factory=dict)
    sql: str = Field(
        description="One SELECT (SQLite with spatial functions). A file's only layer is the table ALIAS, one of several "
        "ALIAS_LAYER; its geometry is the column geom"
    )
    limit: int = Field(100, ge=1, le=10_000)
    geometry: Geometry = "none"


class QueryToFileArguments(Arguments):
    inputs: Annotated[Inputs, WithJsonSchema({"type": ["object", "array"]})] = Field(default_factory=dict)
    sql: str
    output: OutputPath
    output_format: str | None = Field(
        None, description="Default: by extension; `object`: JSON of one row as an object"
    )
    geometry: Geometry = "wkt"
    members: Mapping[str, Any] | None = Field(None, description="Foreign members of a GeoJSON")
    overwrite: bool = False


def _draft(arguments: QueryArguments | QueryToFileArguments, context: DraftContext) -> Draft:
    algorithm_named(SQL, context)  # raises if `vector sql` is excluded
    check_allowed(context.settings.allow_sql, "sql")
    sql = check_statement(arguments.sql, "sql")
    paths = _aliases(arguments.inputs)
    sources = [context.paths.source(path) for path in paths.values()]
    tables = [[alias, source.name] for alias, source in zip(paths, sources, strict=True)]
    extra: dict[str, Any] = {"sql": sql, "tables": tables, "geometry": arguments.geometry, "form": None}
    outputs: tuple[Output, ...] = ()
    sql_arguments = {"sql": (sql,), "dialect": ("SQLITE",)}
    if any(source.name.lower().endswith((".csv", ".tsv")) for source in sources):
        # these are the names under which the container opens the files
        sql_arguments["open-option"] = ("AUTODETECT_TYPE=YES",)
    if isinstance(arguments, QueryToFileArguments):
        form = _form(arguments.output, arguments.output_format, context)
        kind: OutputKind = "file" if form in _RECORDS.values() else "dataset"
        output = context.paths.output(
            arguments.output, inputs=tuple(sources), overwrite=arguments.overwrite, kind=kind
        )
        extra |= {"form": form, "members": _members(arguments, form)}
        outputs = (output,)
        sql_arguments["output-format"] = (form,)
    else:
        extra["limit"] = arguments.limit
    words = (f"--sql={sql}", *(f"{alias}={name}" for alias, name in tables))
    return Draft(
        Command("query", words, output=outputs[0].inside if outputs else None, extra=extra),
        tuple(source.located for source in sources),
        outputs,
        work=Work(
            SQL, sql_arguments, tuple(("input", source.located) for source in sources if source.is_plain)
        ),
        printed=PrintedOutput(is_json=True),
    )


def draft_rows(arguments: Mapping[str, Any], context: DraftContext) -> Draft:
    """Drafts `vector sql` without an output as a query, so that its rows are in the answer. Raises ArgumentRefused."""
    values = {spelling(name): value for name, value in arguments.items()}
    sql, inputs = values.pop("sql", ""), values.pop("input", None)
    sql = sql[0] if isinstance(sql, list) and len(sql) == 1 else sql
    inputs = [inputs] if isinstance(inputs, str) else inputs
    if str(values.pop("dialect", "SQLITE")).upper() != "SQLITE" or values:
        raise ArgumentRefused(
            "`vector sql` without an output takes only inputs and one statement in the SQLITE dialect.",
            "Set output, or use `query`.",
        )
    return _draft(QueryArguments.model_validate({"inputs": inputs, "sql": sql}), context)


def _aliases(inputs: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    """Paths by alias. A list gets the stems as aliases, with _ for other characters and a number for duplicates."""
    if isinstance(inputs, Mapping):
        wrong = next((alias for alias in inputs if not _ALIAS.fullmatch(alias)), None)
        if wrong is not None or len({alias.lower() for alias in inputs}) < len(inputs):
            raise ArgumentRefused(
                "an alias is not a plain word, or two aliases differ only in case.",
                "Use letters, digits and _.",
            )
        return inputs
    paths: dict[str, str] = {}
    for path in inputs:
        stem = re.sub(r"[^A-Za-z0-9_]", "_", path.rpartition("/")[2].partition(".")[0])[:40]
        stem = alias = stem if _ALIAS.fullmatch(stem) else f"_{stem}"
        number = 1
        while alias.lower() in {known.lower() for known in paths}:
            number += 1
            alias = f"{stem}_{number}"
        paths[alias] = path
    return paths


def _form(output: str, named: str | None, context: DraftContext) -> str:
    """The form of the result: `json`, `jsonl`, `object`, or the driver of output_format or of the extension. Raises
    ArgumentRefused.
    """
    if named:
        low = named.lower()
        return _RECORDS[low] if low in _RECORDS else output_format(context.catalogue, named, "vector")
    extension = output.rpartition(".")[2].lower()
    if extension in _RECORDS and extension != "object":
        return _RECORDS[extension]
    driver = driver_for(context.catalogue, output, "vector")
    if driver is None:
        raise ArgumentRefused(
            "the extension of the output does not belong to a vector format.",
            "Use .json (an array of records), .jsonl, .csv, .geojson, .gpkg or another one that `formats` lists.",
        )
    return output_format(context.catalogue, driver, "vector")


def _members(arguments: QueryToFileArguments, form: str) -> Mapping[str, Any]:
    members = arguments.members or {}
    if members and (form != "GeoJSON" or _MEMBERS & set(members)):
        raise ArgumentRefused(
            f"members can only be added to a GeoJSON, and cannot be {', '.join(sorted(_MEMBERS))}.",
            "Write to a .geojson file.",
        )
    return members


def _facts(answer: CallAnswer) -> Mapping[str, Any]:
    """Counts, flags, and the units of measured columns by the index of the column.

    The rows are text from files, so they stay under `untrusted`.
    """
    parsed = answer.parsed if isinstance(answer.parsed, dict) else {}
    rows = parsed.get("rows")
    count = len(rows) if isinstance(rows, list) else parsed.get("count")
    counted = {"row_count": count, "infinite": parsed.get("infinite")}
    facts: dict[str, Any] = {
        key: value for key, value in counted.items() if type(value) is int and (value or key == "row_count")
    }
    if units := valid_parts(_UNITS, {"units": parsed.get("units")}).get("units"):
        facts["units"] = [unit for unit in units if unit]
    return {**facts, "more": parsed.get("more") is True} if isinstance(rows, list) else facts


QUERY = Tool(
    name="query",
    title="Query with SQL",
    description="Rows of a SELECT over the layers of files, under `untrusted`. gdal_describe `vector sql` teaches it. "
    'Example: {"inputs": {"a": "towns.gpkg"}, "sql": "SELECT name FROM a ORDER BY pop DESC", "limit": 5}.',
    **schema_and_draft(QueryArguments, _draft),
    present=_facts,
    own_keys={"row_count": {"type": "integer"}, "more": {"type": "boolean"}},
    like=SQL,
    writes=False,
)
QUERY_TO_FILE = Tool(
    name="query_to_file",
    title="Write the rows of a query",
    description="As query, into .json (array of records), .jsonl, .csv, .geojson, .gpkg ... Example: "
    '{"inputs": ["towns.gpkg"], "sql": "SELECT * FROM towns", "output": "towns.json"}.',
    **schema_and_draft(QueryToFileArguments, _draft),
    like=SQL,
    **{**WRITES_OUTPUT, "present": lambda answer: {**present_output(answer), **_facts(answer)}},
)
