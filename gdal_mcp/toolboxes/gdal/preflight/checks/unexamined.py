"""Reports what could not be examined: too many inputs, an unknown format, SQL that cannot be parsed. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.preflight.call import Finding, make_finding
from gdal_mcp.toolboxes.gdal.preflight.checks.transformations import BALLPARK, crs_changes, is_new
from gdal_mcp.toolboxes.gdal.preflight.checks.values import (
    FEATURE_PROBES,
    REFUSING_PROBES,
    pixel_probes,
)
from gdal_mcp.toolboxes.gdal.preflight.estimate import size_text
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.sql.reading import may_relate, may_transform, relates
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import is_unread

# algorithms that are refused if an input has another CRS
COMPARES_CRS: Final = frozenset({"gdal_merge", "raster zonal-stats", "vector layer-algebra", "vector update"})
# maximum number of columns that GDAL reads from a sheet (OGR_XLSX_MAX_FIELD_COUNT, OGR_ODS_MAX_FIELD_COUNT)
_MOST_COLUMNS: Final = 2000
_SHEETS: Final = frozenset({"XLSX", "ODS"})

AddressTable = Sequence[tuple[int, DatasetFacts | None]]


def findings(
    draft: Draft, undescribed: Sequence[int] | None, inputs: AddressTable, catalogue: Catalogue
) -> Iterator[Finding]:
    """Findings for everything in a draft that was not examined.

    `undescribed` are the numbers of the inputs that a container should have described and did not; None before a
    container was asked.
    """
    looks = frozenset(pixel_probes(draft, catalogue)) if undescribed is not None else frozenset()
    if undescribed:
        numbers = {"count": len(undescribed), "of": len(inputs)}
        refuses = depends_on_crs(draft, catalogue) or bool(looks & REFUSING_PROBES)
        yield make_finding("inputs_unexamined", refuses=refuses, inputs=tuple(undescribed), numbers=numbers)
    missing = {number: _missing_looks(looks, facts) for number, facts in inputs if facts is not None}
    if unseen := tuple(number for number, names in missing.items() if names):
        refuses = any(names & REFUSING_PROBES for names in missing.values())
        numbers = {"count": len(unseen), "of": len(inputs)}
        yield make_finding("pixels_unexamined", refuses=refuses, inputs=unseen, numbers=numbers)
    if any(is_new(path, catalogue) for path, _ in draft.work.steps):
        yield make_finding("algorithm_unexamined", refuses=_units_differ(inputs))
    yield from _unread_statements(draft, inputs)
    for number, facts in inputs:
        where = (number,) if len(inputs) > 1 else ()
        if facts is not None and not facts.driver:
            yield make_finding("driver_unexamined", inputs=where)
        elif facts is not None and facts.driver in _SHEETS and facts.fields >= _MOST_COLUMNS:
            yield make_finding("columns_unexamined", {"most": _MOST_COLUMNS}, inputs=where)


def _missing_looks(looks: frozenset[str], facts: DatasetFacts) -> frozenset[str]:
    """The requested probes of an input that a container did not make; most probes are of pixels only."""
    wanted = looks if facts.kind == "raster" else looks & FEATURE_PROBES
    return wanted - facts.looks.keys()


def _unread_statements(draft: Draft, inputs: AddressTable) -> Iterator[Finding]:
    """The finding for SQL that cannot be parsed. It refuses if the functions in it may give wrong places."""
    texts = [*_texts(draft, "sql"), *_texts(draft, "where")]
    if any(map(is_unread, texts)):
        moves = any(map(may_transform, texts)) and BALLPARK not in draft.allows
        relates_unlike = any(map(may_relate, texts)) and _units_differ(inputs)
        yield make_finding("statement_unexamined", refuses=moves or relates_unlike)


def _units_differ(inputs: AddressTable) -> bool:
    """True if some inputs are in degrees and others are not, so that they never lie in the same place."""
    known = [facts for _, facts in inputs if facts is not None and facts.has_crs and facts.geometry != "None"]
    return {facts.degrees for facts in known} >= {True, False}


def space(uncertain: tuple[int, int, str] | None) -> Iterator[Finding]:
    """The finding for a result of `estimate.uncertain_space`. It never refuses, because most data compresses."""
    if uncertain is not None:
        most, limit, setting = uncertain
        words = {"most": size_text(most), "limit": size_text(limit), "setting": setting}
        yield make_finding("space_unknown", words, numbers={"most_bytes": most, "limit_bytes": limit})


def depends_on_crs(draft: Draft, catalogue: Catalogue) -> bool:
    """True if the call would be refused for an input in the wrong CRS."""
    named = {draft.work.algorithm, draft.command.program, *(path for path, _ in draft.work.steps)}
    joins = len(draft.inputs) > 1 and any(relates(text) or may_relate(text) for text in _texts(draft, "sql"))
    return bool(named & COMPARES_CRS) or joins or bool(crs_changes(draft, catalogue))


def _texts(draft: Draft, name: str) -> Sequence[str]:
    parts = (draft.work.steps, *draft.work.branches)
    return [text for steps in parts for _, arguments in steps for text in arguments.get(name, ())]
