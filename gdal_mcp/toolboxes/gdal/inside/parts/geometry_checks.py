"""Checks of geometries that a statement measures, sums or compares, such as invalid or overlapping ones."""

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.tables import shapes

POINTS, POLYGONS = (ogr.wkbPoint, ogr.wkbMultiPoint), (ogr.wkbPolygon, ogr.wkbMultiPolygon)
LINES = (ogr.wkbLineString, ogr.wkbMultiLineString)
MOST_SHAPES = 20_000
SLIVER = 1e-6  # fraction of the smaller area: separately digitized edges of neighbours overlap by less


def geometry_checks(counting):
    for check in (
        *(invalid_measured, null_tested, on_edges, partly_inside, areas_overlap),
        *(centroid_outside, difference_empty, empty_missed),
    ):
        yield from check(counting)


def invalid_measured(counting):
    """Reports invalid polygons in tables whose geometries are measured or cut."""
    named = [item for columns in counting.select["measured"] for item in tables_of(counting, columns)]
    for item in {item["alias"]: item for item in named}.values():
        for name in geometries(counting, item, POLYGONS):
            statement = f'SELECT count(*), sum(ST_IsValid("{name}") = 0) FROM "{item["table"]}"'  # noqa: S608 - names of a layer
            if (counts := counting.numbers(statement)) and counts[1]:
                yield {"code": "invalid_measured", "count": counts[1], "of": counts[0]}
                return


def null_tested(counting):
    """Reports rows without a readable geometry in a sum of test results; the test returns -1 for these rows.

    SQLite cannot read an empty geometry.
    """
    for test in counting.select["tested"]:
        statement = f"SELECT count(*), sum({test['call']} = -1) FROM {counting.rows()}"  # noqa: S608 - parts of a statement that the host has checked
        if (counts := counting.numbers(statement)) and counts[1]:
            yield {"code": "null_tested", "count": counts[1], "of": counts[0]}
            return


def on_edges(counting):
    """Reports points on the edge of polygons, which ST_Within and ST_Contains exclude."""
    for relation in counting.select["inside"]:
        items = tables_of(counting, relation["columns"])
        kinds = [any(geometries(counting, item, kinds) for item in items) for kinds in (POINTS, POLYGONS)]
        # the relation is -1 if a LEFT JOIN matched nothing
        statement = f"SELECT sum({relation['test']}) FROM {relation['rows']}"  # noqa: S608 - as above
        if all(kinds) and (count := counting.count(statement)):
            yield {"code": "on_edges", "count": count}
            return


def partly_inside(counting):
    """Reports a sum of the whole areas of polygons that ST_Intersects selects and that are only partly inside."""
    meeting = counting.select["meeting"][:1]
    for columns in counting.select["area_sums"] if meeting and counting.select["joins_others"] else ():
        owners, items = tables_of(counting, columns), tables_of(counting, meeting[0]["columns"])
        others = [item for item in items if item not in owners]
        if len(owners) != 1 or owners[0] not in items or not others:
            continue
        if not geometries(counting, others[0], POLYGONS):
            continue
        inner = meeting[0]["covered" if items[0] == owners[0] else "covering"]
        of, inside = (counting.count(f"SELECT count(*) FROM {rows}") for rows in (meeting[0]["rows"], inner))  # noqa: S608 - as above
        if inside < of:
            yield {"code": "partly_inside", "count": of - inside, "of": of}
            return


def areas_overlap(counting):
    """Reports overlapping polygons in a sum of the areas of one table."""
    select = counting.select
    alone = len(counting.items) == 1 and counting.tables and not (select["where"] or select["group"])
    if not (alone and select["area_sums"]):
        return
    layer = counting.layer_of(counting.items[0])
    count = overlapping(layer) if layer.GetFeatureCount() <= MOST_SHAPES else None
    if count is None:
        yield {"code": "rows_unexamined"}
    elif count:
        yield {"code": "areas_overlap", "count": count, "of": layer.GetFeatureCount()}


def centroid_outside(counting):
    """Reports polygons that are placed in other polygons by a centroid that lies outside the polygon itself."""
    for columns in counting.select["centroids"]:
        for item in tables_of(counting, columns):
            for name in geometries(counting, item, POLYGONS):
                outside = f'ST_Intersects("{name}", ST_Centroid("{name}")) = 0'
                statement = f'SELECT count(*), sum({outside}) FROM "{item["table"]}"'  # noqa: S608 - names of a layer
                if (counts := counting.numbers(statement)) and counts[1]:
                    yield {"code": "centroid_outside", "count": counts[1], "of": counts[0]}
                    return


def difference_empty(counting):
    """Reports differences that are all empty, although the reverse order of the two geometries is not."""
    for first, second in counting.select["differences"]:
        left, other = (
            f"(coalesce(ST_Area({difference}), 0) + coalesce(ST_Length({difference}), 0) > 0)"
            for difference in (f"ST_Difference({first}, {second})", f"ST_Difference({second}, {first})")
        )
        statement = f"SELECT count(*), sum({left}), sum({other}) FROM {counting.rows()}"  # noqa: S608 - as above
        if (counts := counting.numbers(statement)) and counts[2] and not counts[1]:
            yield {"code": "difference_empty", "count": counts[0]}
            return


def empty_missed(counting):
    """Reports empty lines and points for which SpatiaLite's ST_IsEmpty is 0: it counts no points, and NaN as a point."""
    named = [item for columns in counting.select["emptied"] for item in tables_of(counting, columns)]
    for item in {item["alias"]: item for item in named}.values():
        for name in geometries(counting, item, (*POINTS, *LINES)):
            is_empty = f'coalesce(ST_NumPoints("{name}"), ST_X("{name}") IS NOT NULL) = 0'
            statement = f'SELECT sum(ST_IsEmpty("{name}") = 0 AND {is_empty}) FROM "{item["table"]}"'  # noqa: S608 - names of a layer
            if count := counting.count(statement):
                yield {"code": "empty_missed", "count": count}
                return


def overlapping(layer):
    """The number of polygons that overlap another one.

    The polygons are swept from west to east, and compared if their boxes intersect.
    """
    layer.ResetReading()
    copies = [feature.GetGeometryRef().Clone() for feature in layer if feature.GetGeometryRef() is not None]
    layer.ResetReading()
    polygons = [
        (shape.GetEnvelope(), shape) for shape in copies if shape.GetDimension() == 2 and shape.IsValid()
    ]
    polygons.sort(key=lambda pair: pair[0][0])
    hit, open_numbers = set(), []
    for number, (box, shape) in enumerate(polygons):
        open_numbers = [n for n in open_numbers if polygons[n][0][1] > box[0]]
        for other in open_numbers:
            theirs, its = polygons[other]
            if theirs[2] < box[3] and theirs[3] > box[2] and share(shape, its):
                hit |= {number, other}
        open_numbers.append(number)
    return len(hit)


def share(shape, other):
    if not shape.Intersects(other) or shape.Touches(other):
        return False
    common = shape.Intersection(other)
    return common is not None and common.GetArea() > SLIVER * min(shape.GetArea(), other.GetArea())


def tables_of(counting, columns):
    """The tables of columns, in order; if all are unqualified, every table with such a geometry column."""
    tables = [item for table, _ in columns for item in counting.tables if item["name"] == table]
    if not tables:
        names = {name for _, name in columns}
        tables = [item for item in counting.tables if names & {*counting.geometries_of(item), "geometry"}]
    return list({item["alias"]: item for item in tables}.values()) or counting.owners_of(columns)


def geometries(counting, item, kinds):
    """The geometry columns of a table with one of these types, in any dimension, or of unknown type."""
    definition = counting.layer_of(item).GetLayerDefn()
    wanted = (*kinds, ogr.wkbUnknown)
    return [
        column.GetName() or "geometry"
        for column in shapes(definition)
        if ogr.GT_Flatten(column.GetType()) in wanted
    ]
