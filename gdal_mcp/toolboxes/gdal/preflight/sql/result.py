"""Predicts the layer that a SELECT in the SQLITE dialect makes: its columns, its geometry and its CRS. Pure.

A value is a geometry, not a geometry, or unknown. Everything that depends on something unknown is unknown: a table
whose columns no container reported, a function that is not listed here, a column without a name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts, LayerSchema
from gdal_mcp.toolboxes.gdal.preflight.layers import family
from gdal_mcp.toolboxes.gdal.preflight.sql.origins import (
    MOVES,
    Budget,
    defining,
    sources_of,
)
from gdal_mcp.toolboxes.gdal.preflight.sql.tree import (
    QUERIES,
    columns,
    definition,
    first_select,
    function,
    is_aggregate,
    is_star,
    level,
    number,
    plain,
    selected,
    sources,
    table_name,
    tree_of,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

GEOMETRY: Final = "geom"  # name of each geometry column in a query
_MAX_DEPTH: Final = 8  # nested subqueries
_POINT, _LINE, _POLYGON = "Point", "Line String", "Polygon"
# functions that return a geometry in the CRS of their argument, with the type; "" if it depends on the values
_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys("centroid pointonsurface startpoint endpoint pointn closestpoint".split(), _POINT),
    **dict.fromkeys("exteriorring makeline shortestline".split(), _LINE),
    **dict.fromkeys("buffer envelope expand".split(), _POLYGON),
    **dict.fromkeys(
        (
            "union unaryunion gunion collect intersection difference symdifference convexhull concavehull boundary geometryn "
            "collectionextract extent linemerge polygonize offsetcurve minimumrotatedrectangle interiorringn locatealong"
        ).split(),
        "",
    ),
}
# functions that also keep the type, except that parts may become a multi geometry, and Z and M may be lost
_KEEPS: Final = frozenset(
    "makevalid simplify simplifypreservetopology snaptogrid reverse translate scale rotate castto2d force2d casttoxy casttomulti "
    "multi segmentize forcelhr shiftlongitude swapcoordinates swapcoords".split()
)
# functions that make a geometry from numbers or text, with the position of the SRID among the arguments, from 0
CRS_AT: Final[Mapping[str, int]] = {
    **dict.fromkeys(("point", "makepoint"), 2),
    **dict.fromkeys(("makepointz", "makepointm", "buildcirclembr"), 3),
    "buildmbr": 4,
    **{
        f"{kind}from{form}": 1
        for kind in ("geom", "point", "line", "poly", "mpoint", "mline", "mpoly")
        for form in ("text", "wkb")
    },
}
# functions that return one of their arguments, which may be a geometry
_PASSES: Final = frozenset("coalesce ifnull nullif min max iif".split())
# functions that return a number or a text for a geometry
_VALUES: Final = frozenset(
    (
        "area length glength perimeter distance maxdistance ptdistwithin x y z m minx miny maxx maxy srid geometrytype numpoints npoints "
        "numgeometries isvalid isempty issimple isclosed isring isvalidreason dimension coorddim astext asgeojson aswkt asgml assvg "
        "azimuth intersects contains within covers coveredby overlaps touches crosses disjoint equals relate count typeof group_concat "
        "mbrintersects envintersects hausdorffdistance"
    ).split()
)


@dataclass(frozen=True, slots=True)
class ResultGeometry:
    """A geometry. `table` contains it unchanged; `source` is the dataset with the same CRS, None for another CRS."""

    geometry: str = ""
    crs: str | None = None
    has_crs: bool | None = None
    source: DatasetFacts | None = None
    table: DatasetFacts | None = None


Value: TypeAlias = ResultGeometry | bool  # False: not a geometry; True: unknown
_UNKNOWN: Final = True
_NONE: Final = False


def output_layer(
    statement: str, tables: Mapping[str, DatasetFacts], *, geometries: str = ""
) -> DatasetFacts | None:
    """The layer that a statement makes, without a driver; None if the statement cannot be parsed.

    `geometries` is the name of every geometry column, "" for the names in the tables.
    """
    tree = tree_of(statement)
    if tree is None:
        return None
    reader = _ResultReader(tables, geometries.lower(), Budget())
    parts = list(_branches(tree))
    layers = [reader.layer(select) for select in parts]
    first = layers[0]
    for other in layers[1:]:
        first = replace(first, features=None, extent=None)
        if other.geometry != first.geometry:
            first = replace(first, geometry="")
        if (other.crs, other.has_crs) != (first.crs, first.has_crs):
            first = replace(first, crs=None, has_crs=None, degrees=None)
    is_limited = any(tree.args.get(name) is not None for name in ("limit", "offset"))
    return replace(first, features=None, extent=None) if is_limited else first


def missing_columns(
    statement: str, tables: Mapping[str, DatasetFacts], *, geometries: str = ""
) -> Iterator[str]:
    """The columns in a statement, as spelled there, that none of their possible tables has."""
    tree = tree_of(statement)
    if tree is None:
        return
    reader = _ResultReader(tables, geometries.lower(), Budget())
    for column in columns(tree.walk()):
        if not is_star(column) and not column.this.args.get("quoted") and reader.is_missing(column):
            yield column.name


def _branches(query: "Expr") -> "Iterator[Expr]":
    """The SELECTs of a UNION, or the only SELECT."""
    if query.key == "select":
        yield query
    elif query.key in QUERIES:
        yield from _branches(query.this)
        yield from _branches(query.expression)
    elif query.key in ("subquery", "paren"):
        yield from _branches(query.this)


@dataclass(frozen=True, slots=True)
class _ResultReader:
    tables: Mapping[str, DatasetFacts]
    geometry_name: str
    budget: Budget

    def layer(self, select: "Expr") -> DatasetFacts:
        terms = [column for term in select.expressions for column in self._terms(term, select)]
        values = [value for _, value in terms]
        names = [name for name, value in terms if value is _NONE]
        facts = DatasetFacts("", "vector")
        if _UNKNOWN not in values and all(names):
            facts = replace(facts, schema=LayerSchema("", tuple(names)), fields=len(names))
        return replace(self._drawn(facts, values, select), features=self._count(select))

    def _terms(self, term: "Expr", select: "Expr") -> Iterator[tuple[str, Value]]:
        """The columns of a term of a SELECT: the name ("" if unknown), and the value, which says if it is a geometry."""
        if not is_star(term):
            named = term.alias or (term.name if plain(term).key == "column" else "")
            yield named, self.value(term)
            return
        wanted = term.text("table").lower() if term.key == "column" else ""
        for source in sources(select):
            if wanted in ("", str(source.alias_or_name).lower()):
                yield from self._of_source(source)

    def _of_source(self, source: "Expr") -> Iterator[tuple[str, Value]]:
        if (query := definition(source)) is not None:
            inner, above = first_select(query), query.parent
            alias = above.args.get("alias") if above is not None else None
            if alias is not None and alias.args.get("columns"):
                yield "", _UNKNOWN
                return
            for term in selected(query) if self.budget.spend() else ():
                yield from self._terms(term, inner)
            return
        facts = self.tables.get(table_name(source))
        if facts is None or facts.schema is None:
            yield "", _UNKNOWN
            return
        yield from ((name, _NONE) for name in facts.schema.fields)
        if facts.geometry != "None":
            yield GEOMETRY, _of_table(facts)

    def value(self, node: "Expr", depth: int = _MAX_DEPTH) -> Value:
        node = plain(node)
        if depth == 0 or not self.budget.spend():
            return _UNKNOWN
        if node.key == "column":
            return self._column(node, depth)
        if node.key in QUERIES or node.key == "subquery":
            terms = selected(node.this if node.key == "subquery" else node)
            return self.value(terms[0], depth - 1) if terms else _UNKNOWN
        if name := function(node):
            return self._function(name.removeprefix("st_"), node, depth)
        parts = [self.value(child, depth) for child in node.iter_expressions()]
        if node.key == "window":
            return self.value(node.this, depth)
        if node.key in ("case", "if"):
            return _NONE if all(part is _NONE for part in parts) else _UNKNOWN
        return _NONE  # arithmetic, comparisons, literals

    def _function(self, name: str, node: "Expr", depth: int) -> Value:
        arguments = node.expressions
        if name in _VALUES:
            return _NONE
        if name in MOVES:
            return self._moved(arguments, depth)
        if name in CRS_AT:
            return _constructed(name, arguments)
        if name in _PASSES and any(self.value(argument, depth) is not _NONE for argument in arguments):
            return self.value(arguments[0], depth) if len(arguments) == 1 else _UNKNOWN
        if name not in _TYPES and name not in _KEEPS:
            return _NONE if all(self.value(argument, depth) is _NONE for argument in arguments) else _UNKNOWN
        first = self.value(arguments[0], depth) if arguments else _UNKNOWN
        if not isinstance(first, ResultGeometry):
            return ResultGeometry(_TYPES.get(name, ""))
        geometry = (family(first.geometry) or first.geometry) if name in _KEEPS else _TYPES[name]
        return replace(first, geometry=geometry, table=None)

    def _moved(self, arguments: "Sequence[Expr]", depth: int) -> Value:
        code = number(arguments[1]) if len(arguments) == 2 else ""
        before = self.value(arguments[0], depth) if arguments else _UNKNOWN
        geometry = before.geometry if isinstance(before, ResultGeometry) else ""
        return ResultGeometry(geometry, f"EPSG:{code}", has_crs=True) if code else ResultGeometry(geometry)

    def _column(self, column: "Expr", depth: int) -> Value:
        values: list[Value] = []
        for source in sources_of(column, self.budget):
            if (query := definition(source)) is not None:
                inner = list(defining(column.name, query, self.budget, depth))
                values += [self.value(term, depth - 1) for term in inner]
            elif (
                own := self._in_table(column.name.lower(), self.tables.get(table_name(source)))
            ) is not None:
                values.append(own)
        return values[0] if len(values) == 1 else _UNKNOWN

    def _in_table(self, name: str, facts: DatasetFacts | None) -> Value | None:
        """The value of a column of a table; None if the table has no column of this name."""
        if facts is None or facts.schema is None:
            return _UNKNOWN
        if name in facts.schema.columns or name in _HIDDEN:
            return _NONE
        return _of_table(facts) if name in self._geometry_names(facts, facts.schema) else None

    def _geometry_names(self, facts: DatasetFacts, schema: LayerSchema) -> frozenset[str]:
        """The lower-case names that the geometry columns of a table may have."""
        if facts.geometry == "None":
            return frozenset()
        if self.geometry_name and (schema.is_predicted or len(schema.geometries) == 1):
            return frozenset({self.geometry_name})
        return frozenset(name.lower() or "geometry" for name in schema.geometries)

    def is_missing(self, column: "Expr") -> bool:
        if column.text("db") or _is_alias(column):
            return False
        wanted, select, seen = column.text("table").lower(), column.parent_select, False
        while select is not None:
            for source in sources(select) if select.key == "select" else ():
                if wanted not in ("", str(source.alias_or_name).lower()):
                    continue
                seen = True
                if (
                    definition(source) is not None
                    or self._in_table(column.name.lower(), self.tables.get(table_name(source))) is not None
                ):
                    return False
            if select.key != "select":  # a term of ORDER BY in a UNION
                return False
            select = select.parent_select
        return seen

    def _drawn(self, layer: DatasetFacts, values: Sequence[Value], select: "Expr") -> DatasetFacts:
        """The layer with its geometry, if it has one and the geometry is known."""
        shapes = [value for value in values if isinstance(value, ResultGeometry)]
        if _UNKNOWN in values or len(shapes) > 1:
            return layer
        if not shapes:
            return replace(layer, geometry="None", has_crs=False)
        shape = shapes[0]
        layer = replace(layer, geometry=shape.geometry, crs=shape.crs, has_crs=shape.has_crs)
        if shape.source is not None:
            own = shape.source
            places = own.crs_extents
            if not shape.table:
                places = {name: replace(place, extent=None) for name, place in places.items()}
            layer = replace(layer, degrees=own.degrees, unit_metres=own.unit_metres, crs_extents=places)
            is_complete = shape.table is not None and self._keeps_rows(select)
            return replace(layer, extent=own.extent) if is_complete else layer
        known = [place for facts in self.tables.values() for place in facts.named(shape.crs or "")]
        return replace(layer, degrees=next((place.degrees for place in known), None))

    def _count(self, select: "Expr") -> int | None:
        tables = sources(select)
        facts = self.tables.get(table_name(tables[0])) if len(tables) == 1 else None
        return facts.features if facts is not None and self._keeps_rows(select) else None

    def _keeps_rows(self, select: "Expr") -> bool:
        """True if each row of the only table is one row of the result."""
        restricted = any(
            select.args.get(name) for name in ("where", "group", "having", "distinct", "limit", "offset")
        )
        sums = any(is_aggregate(node) for term in select.expressions for node in level(term))
        return len(sources(select)) == 1 and not restricted and not sums


# columns that a table has but does not list
_HIDDEN: Final = frozenset(
    "rowid oid _rowid_ fid ogc_fid id ogr_style ogr_native_data ogr_native_media_type ogr_geometry ogr_geom_wkt ogr_geom_area".split()
)


def _of_table(facts: DatasetFacts) -> ResultGeometry:
    return ResultGeometry(facts.geometry, facts.crs, facts.has_crs, facts, facts)


def _constructed(name: str, arguments: "Sequence[Expr]") -> ResultGeometry:
    """The geometry that a function makes from numbers or text."""
    geometry, at = _POINT if "point" in name else "", CRS_AT[name]
    code = number(arguments[at]) if len(arguments) == at + 1 else ""
    if code and code != "0":
        return ResultGeometry(geometry, f"EPSG:{code}", has_crs=True)
    return ResultGeometry(geometry, has_crs=False if len(arguments) <= at else None)


def _is_alias(column: "Expr") -> bool:
    """True for a name that a term of the same SELECT defines."""
    select = column.parent_select
    terms = selected(select) if select is not None else ()
    return not column.text("table") and any(term.alias.lower() == column.name.lower() for term in terms)
