"""Likely mistakes in SQL statements and conditions: units, misleading column values, slow searches. Pure."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, make_finding, same_crs
from gdal_mcp.toolboxes.gdal.preflight.checks.crs import MERCATOR_SLACK, mercator_factor
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.sql import reading
from gdal_mcp.toolboxes.gdal.preflight.sql.mistakes import mistakes

_DEGREES: Final = frozenset({"EPSG:4326", "EPSG:4258", "EPSG:4269"})
_MANY_PAIRS: Final = 20_000_000
# pairs per second; about one million were measured, and a call is refused only if a machine twice as fast would be too
# slow
_PAIRS_A_SECOND: Final = 2_000_000


def _statements(call: AlgorithmCall) -> list[str]:
    """The SQL texts of a call: its statement and its condition."""
    return [text for name in ("sql", "where") if (text := call.text(name))]


def _layers(call: AlgorithmCall) -> list[DatasetFacts]:
    return [layer for layer in (*call.inputs, call.flowing) if layer and layer.kind == "vector"]


def _in_degrees(call: AlgorithmCall, code: str) -> bool:
    """True if a CRS that the statement names is in degrees, by its code or a container's description."""
    extents = [extent for layer in _layers(call) for extent in layer.named(code)]
    return code in _DEGREES or any(extent.degrees for extent in extents)


def measure_in_degrees(call: AlgorithmCall) -> Iterator[Finding]:
    drawn = [layer.degrees for layer in _layers(call) if layer.geometry != "None"]
    texts = _statements(call)
    as_they_are = drawn and all(drawn) and any(map(reading.measures, texts))
    codes = {code for text in texts for code in reading.codes_measured(text)}
    if as_they_are or any(_in_degrees(call, code) for code in codes):
        yield make_finding("measured_in_degrees")


def measure_in_feet(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds areas and lengths in the units of a CRS that is not in metres."""
    units = [layer.unit_metres for layer in _layers(call) if layer.geometry != "None"]
    # results on the ellipsoid are in metres in any CRS
    if units and units[0] and any(map(reading.measures, _statements(call))):
        yield make_finding("measured_in_feet", {"unit": units[0], "square": units[0] ** 2})


def measure_in_mercator(call: AlgorithmCall) -> Iterator[Finding]:
    facts, texts = call.input or call.flowing, _statements(call)
    factor, own = mercator_factor(facts), same_crs(facts.crs if facts else None, "EPSG:3857")
    measures = own and (call.path == "vector buffer" or any(map(reading.measures, texts)))
    transformed = any("EPSG:3857" in reading.codes_measured(text) for text in texts)
    if factor >= MERCATOR_SLACK and (measures or transformed):
        yield make_finding("measured_in_mercator", {"factor": factor, "square": factor**2})


def crs_as_text(call: AlgorithmCall) -> Iterator[Finding]:
    if reading.changes_crs_by_text(call.text("sql")):
        yield make_finding("crs_as_text", refuses=True)


def mistaken(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds parts of a statement that SQLite accepts and that do not do what they seem to say."""
    if call.text("dialect").upper() == "SQLITE":
        yield from map(make_finding, mistakes(call.text("sql")))


def number_as_text(call: AlgorithmCall) -> Iterator[Finding]:
    statements = _statements(call)
    compared = {name for text in statements for name in reading.columns_compared(text)}
    as_numbers = compared.union(*map(reading.columns_added, statements))
    if any(map(reading.compares_text_of_date, statements)):
        yield make_finding("date_compared")
    elif as_numbers & _columns(call, "mixed_texts"):
        yield make_finding("mixed_compared")
    elif as_numbers & _columns(call, "unit_texts"):
        yield make_finding("units_compared")
    elif compared & _columns(call, "number_texts", detected=False):
        by_csv = call.vector and call.vector.driver == "CSV"
        yield make_finding(
            "text_compared", change={"open-option": ("AUTODETECT_TYPE=YES",)} if by_csv else None
        )


def misread(call: AlgorithmCall) -> Iterator[Finding]:
    """Finds misleading values in columns that the call writes or its statement names, such as decimal commas."""
    sql = call.text("sql")
    for name, correction, columns in (
        ("decimal_comma", "replace", _columns(call, "comma_texts")),
        ("local_dates", "substr", _columns(call, "date_texts")),
        # integers too large for GDAL's types, and times that GDAL rounds
        ("long_values", None, _columns(call, "long_texts", detected=True)),
        ("rounded_keys", None, _columns(call, "rounded_keys")),
    ):
        used = columns and (reading.names(sql, columns) if sql else call.driver)
        if used and not (correction and correction in sql.lower()):
            yield make_finding(name)


def _columns(call: AlgorithmCall, kind: str, *, detected: bool | None = None) -> set[str]:
    """The lower-case names of the columns of a kind in the tables of the call.

    With `detected`, only those of tables for which the call requests type detection; if it is False, only those of
    other tables.
    """
    detects = any("AUTODETECT_TYPE" in option.upper() for option in call.texts("open-option"))
    tables = [table for table in (call.vector, *(call.inputs[1:] if call.text("sql") else ())) if table]
    fit = [table for table in tables if detected in (None, detects and table.driver == "CSV")]
    return {name.lower() for table in fit if table.kind == "vector" for name in table.columns.get(kind, ())}


def compares_all(call: AlgorithmCall) -> Iterator[Finding]:
    counts = sorted(dataset.features or 0 for dataset in call.inputs if dataset and dataset.kind == "vector")
    pairs = math.prod(counts[-2:]) if len(counts) > 1 else 0
    if pairs >= _MANY_PAIRS and reading.compares_all_pairs(call.text("sql")):
        too_long = pairs / _PAIRS_A_SECOND > call.limits.wall_seconds / 2
        yield make_finding("all_pairs", {"millions": pairs / 1e6}, refuses=too_long)


def layers_as_table(draft: Draft, inputs: Sequence[DatasetFacts | None]) -> Iterator[Finding]:
    """Finds files with several layers that a query uses as one table.

    Files with unknown layer names are not checked.
    """
    aliases = [alias for alias, _ in draft.command.extra.get("tables", ())]
    layers = {
        alias: dataset.columns.get("layer_names", ())
        for alias, dataset in zip(aliases, inputs, strict=False)
        if dataset
    }
    named = {name.casefold() for names in layers.values() for name in names}
    read = reading.tables_read(draft.command.extra["sql"]) if any(layers.values()) else ()
    for number, (alias, names) in enumerate(layers.items()):
        if names and alias.casefold() in read and alias.casefold() not in named:
            words = {"alias": alias, "count": len(names)}
            yield make_finding("layers_as_table", words, refuses=True, inputs=(number,))


CHECKS: Final = (
    measure_in_degrees,
    measure_in_feet,
    measure_in_mercator,
    crs_as_text,
    mistaken,
    number_as_text,
    misread,
    compares_all,
)
