"""What geometries make wrong in a statement that measures, sums or compares them: invalid, absent, overlapping ones, and points on edges."""

import itertools
import re

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.joins import owners_of
from gdal_mcp.toolboxes.gdal.inside.parts.tables import shapes

CUTS = re.compile(
    r"(?:ST_)?(?:AREA|PERIMETER|INTERSECTION|DIFFERENCE|SYMDIFFERENCE|BUFFER|CENTROID)|ST_(?:UNION|UNARYUNION)|GUNION"
)
MAKES_VALID = ("ST_MAKEVALID", "MAKEVALID", "ST_BUFFER", "BUFFER")
AREAS = ("ST_AREA", "AREA")
SUMS = ("SUM", "TOTAL")
TESTS = re.compile(r"(?:ST_)?IS(?:VALID|EMPTY|SIMPLE|CLOSED|RING)")
INSIDE = re.compile(r"(?:ST_)?(?:CONTAINS|WITHIN)")
MEETS = re.compile(r"(?:ST_)?INTERSECTS")
POINTS, POLYGONS = (ogr.wkbPoint, ogr.wkbMultiPoint), (ogr.wkbPolygon, ogr.wkbMultiPolygon)
MOST_SHAPES = 20_000
SLIVER = 1e-6  # of the smaller area: edges of neighbours that were drawn twice overlap by less


def geometry_checks(counting):
    for check in (invalid_measured, null_tested, on_edges, partly_inside, areas_overlap):
        yield from check(counting)


def invalid_measured(counting):
    """Polygons that cross themselves, of the tables whose geometries are measured or cut."""
    words = counting.core.words
    if any(one.upper in MAKES_VALID for one in words):
        return
    named = [
        item
        for i, one in enumerate(words)
        if CUTS.fullmatch(one.upper)
        for item in named_in(counting, words, i)
    ]
    for item in dict.fromkeys(named):
        for shape in drawn(counting, item, POLYGONS):
            asked = f'SELECT count(*), sum(ST_IsValid("{shape}") = 0) FROM "{item.table}"'  # noqa: S608 - names of a layer
            if (found := counting.numbers(asked)) and found[1]:
                yield {"code": "invalid_measured", "count": found[1], "of": found[0]}
                return


def null_tested(counting):
    """Rows whose geometry is absent, or an empty one that SQLite cannot read, where a sum adds what a test gives of them."""
    words = counting.core.selected
    for i, one in enumerate(words):
        if one.upper not in (*SUMS, "AVG") or i + 2 >= len(words) or not TESTS.fullmatch(words[i + 2].upper):
            continue
        inner = inside(words, i + 2)
        rest = words[i + 5 + len(inner) :][:1]
        if rest and rest[0].text != ")":  # it is compared
            continue
        text = counting.core.sql[inner[0].start : inner[-1].end] if inner else "NULL"
        where = f"WHERE {counting.core.text('WHERE')}" if counting.core.text("WHERE") else ""
        asked = f"SELECT count(*), sum({words[i + 2].text}({text}) = -1) FROM {counting.core.text('FROM')} {where}"  # noqa: S608 - read token by token
        if (found := counting.numbers(asked)) and found[1]:
            yield {"code": "null_tested", "count": found[1], "of": found[0]}
            return


def on_edges(counting):
    """Points that touch the polygons that they are asked to be within."""
    for part in ("FROM", "WHERE"):
        words = counting.core.words_in(part)
        for i, one in enumerate(words):
            if not INSIDE.fullmatch(one.upper):
                continue
            items = named_in(counting, words, i)
            kinds = [any(drawn(counting, item, kinds) for item in items) for kinds in (POINTS, POLYGONS)]
            if not all(kinds):
                continue
            inner = inside(words, i)
            text = counting.core.sql[inner[0].start : inner[-1].end]
            touching = with_relation(counting.core, one, "ST_Touches")
            # of a row that a LEFT JOIN found nothing for the relation is -1
            if count := counting.count(f"SELECT sum(ST_Touches({text}) = 1) FROM {touching}"):  # noqa: S608 - read token by token
                yield {"code": "on_edges", "count": count}
                return


def partly_inside(counting):
    """A sum of whole areas of polygons that a join by ST_Intersects chooses, and that lie beyond what they meet."""
    core = counting.core
    for i, one in enumerate(core.selected):
        if one.upper not in SUMS or i + 2 >= len(core.selected) or core.selected[i + 2].upper not in AREAS:
            continue
        owners = set(named_in(counting, core.selected, i + 2))
        places = [word for part in ("FROM", "WHERE") for word in core.words_in(part)]
        meets = [(n, word) for n, word in enumerate(places) if MEETS.fullmatch(word.upper)]
        if len(owners) != 1 or not meets or not core.joins_others:
            continue
        at, word = meets[0]
        items = named_in(counting, places, at)
        (own,), others = tuple(owners), [item for item in items if item not in owners]
        if own not in items or not others or not drawn(counting, others[0], POLYGONS):
            continue
        whole = with_relation(core, word, "ST_CoveredBy" if items[0] == own else "ST_Covers")
        counts = [
            counting.count(f"SELECT count(*) FROM {text}")  # noqa: S608 - read token by token
            for text in (with_relation(core, word, word.text), whole)
        ]
        if counts[1] < counts[0]:
            yield {"code": "partly_inside", "count": counts[0] - counts[1], "of": counts[0]}
            return


def areas_overlap(counting):
    """Polygons of the one table whose areas are summed, of which two have a part in common."""
    core = counting.core
    sums = (
        a.upper in SUMS and b.upper in AREAS for a, b in zip(core.selected, core.selected[2:], strict=False)
    )
    if (
        not any(sums)
        or len(core.items) != 1
        or not counting.tables
        or core.text("WHERE")
        or "GROUP" in core.parts
    ):
        return
    layer = counting.layers[core.items[0].table]
    count = overlapping(layer) if layer.GetFeatureCount() <= MOST_SHAPES else 0
    if count is None or layer.GetFeatureCount() > MOST_SHAPES:
        yield {"code": "rows_unexamined"}
    elif count:
        yield {"code": "areas_overlap", "count": count, "of": layer.GetFeatureCount()}


def overlapping(layer):
    """How many polygons share a part of their area with another one: from west to east, those whose boxes meet."""
    layer.ResetReading()
    found = [one.GetGeometryRef().Clone() for one in layer if one.GetGeometryRef() is not None]
    layer.ResetReading()
    polygons = [(one.GetEnvelope(), one) for one in found if one.GetDimension() == 2 and one.IsValid()]
    polygons.sort(key=lambda pair: pair[0][0])
    hit, open_ones = set(), []
    for number, (box, shape) in enumerate(polygons):
        open_ones = [n for n in open_ones if polygons[n][0][1] > box[0]]
        for other in open_ones:
            theirs, its = polygons[other]
            if theirs[2] < box[3] and theirs[3] > box[2] and share(shape, its):
                hit |= {number, other}
        open_ones.append(number)
    return len(hit)


def share(one, other):
    if not one.Intersects(other) or one.Touches(other):
        return False
    common = one.Intersection(other)
    return common is not None and common.GetArea() > SLIVER * min(one.GetArea(), other.GetArea())


def inside(words, at):
    """The words between the brackets of the call whose name stands at a place."""
    level = words[at].depth
    return list(itertools.takewhile(lambda one: one.depth > level, words[at + 2 :]))


def named_in(counting, words, at):
    """The tables whose columns a call's arguments name, in their order; all, where they name a geometry without its table."""
    inner, found = inside(words, at), []
    for i, one in enumerate(inner):
        after = inner[i + 1 : i + 2]
        if after and after[0].text == ".":
            found += [item for item in counting.tables if item.name == one.name]
    if not found:
        found = [
            item for item in counting.tables if any(one.name in shapes_named(counting, item) for one in inner)
        ]
    return list(dict.fromkeys(found)) or list(owners_of(inner, counting))


def shapes_named(counting, item):
    return {*counting.shapes_of(item), "geometry"}


def drawn(counting, item, kinds):
    """The names of a table's columns of geometries of one of these kinds, whatever their dimension; unknown ones count."""
    definition = counting.layers[item.table].GetLayerDefn()
    wanted = (*kinds, ogr.wkbUnknown)
    return [
        one.GetName() or "geometry" for one in shapes(definition) if ogr.GT_Flatten(one.GetType()) in wanted
    ]


def with_relation(core, word, name):
    """The FROM and WHERE of a SELECT, with another name for the relation that one of their words is."""
    parts = [
        (core.parts[part][0].start, core.parts[part][-1].end, part)
        for part in ("FROM", "WHERE")
        if core.parts.get(part)
    ]
    texts = []
    for start, end, part in parts:
        text = core.sql[start:end]
        if start <= word.start < end:
            at = word.start - start
            text = text[:at] + name + text[at + len(word.text) :]
        texts.append(text if part == "FROM" else f"WHERE {text}")
    return " ".join(texts)
