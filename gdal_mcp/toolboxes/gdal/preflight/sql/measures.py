"""Finds the columns of a result that are lengths, areas or angles, with the geometries that they measure. Pure.

The container knows the CRSs of the tables and adds the units (`inside/parts/units.py`).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gdal_mcp.toolboxes.gdal.preflight.sql.origins import Budget, origins
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import bare, first_select, function, plain, selected, text_of

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

# functions that measure, each with the power of the unit and the number of arguments from which the function measures
# on the ellipsoid, in metres
MEASURES: Final[Mapping[str, tuple[int, int]]] = {
    "area": (2, 2),
    **dict.fromkeys(("length", "3dlength", "glength", "perimeter"), (1, 2)),
    "distance": (1, 3),
    "maxdistance": (1, 99),
    "azimuth": (0, 99),  # in radians, whatever the CRS
}
# functions that return a value in the unit of their first argument
_SAME_UNIT: Final = frozenset("sum total avg min max round abs coalesce ifnull ceil floor".split())


def measured_columns(tree: "Expr") -> list[Mapping[str, Any]]:
    """The terms of a statement that are lengths, areas or angles. Calculations with them are omitted."""
    budget = Budget()
    rows = (_measured(term, budget) for term in selected(first_select(tree)))
    return [row for row in rows if row is not None]


def _measured(term: "Expr", budget: Budget) -> Mapping[str, Any] | None:
    call = plain(term)
    while function(call) in _SAME_UNIT and call.expressions:
        call = plain(call.expressions[0])
    name = function(call)
    if name == "length" or bare(name) not in MEASURES:  # LENGTH without a prefix counts characters
        return None
    power, on_ellipsoid = MEASURES[bare(name)]
    places = {origin for part in call.expressions[:2] for origin in origins(part, budget)}
    return {
        "column": term.alias or text_of(term),
        "power": power,
        "on_ellipsoid": len(call.expressions) >= on_ellipsoid,
        "places": sorted([origin.table, origin.code] for origin in places),
    }
