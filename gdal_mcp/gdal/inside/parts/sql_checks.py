"""What the words of a statement show to be wrong, beside the columns of the tables that it can name."""

import itertools

from osgeo import ogr

from gdal_mcp.gdal.inside.parts.joins import AGGREGATES, columns_of, cores_of, split, words_of
from gdal_mcp.gdal.inside.parts.tables import layers_of, shapes

INTEGERS = (ogr.OFTInteger, ogr.OFTInteger64)
EXACT = frozenset({"SUM", "COUNT", "MIN", "MAX"})  # of whole numbers they give whole numbers
OWN = frozenset({"rowid", "fid", "ogc_fid", "geometry", "geom", "ogr_style"})
# after which a name stands for a column, and not for a text that somebody put in the wrong quotes
BEFORE_A_COLUMN = frozenset("SELECT DISTINCT WHERE AND OR BY ON WHEN + - * /".split())


def word_checks(dataset, sql):
    kinds = {}
    for layer in layers_of(dataset):
        for name, kind in columns_of(layer).items():
            kinds.setdefault(name, set()).add(kind)
        for one in shapes(layer.GetLayerDefn()):
            kinds.setdefault(one.GetName().lower(), set()).add(None)
    tables = {one.GetName().lower() for one in layers_of(dataset)}
    if count := sum(1 for _ in unknown(sql, kinds.keys() | tables | OWN)):
        yield {"code": "column_unknown", "count": count}
    if any(divides(term, kinds) for core in cores_of(sql) for term in split(core.selected)):
        yield {"code": "integer_division"}


def unknown(sql, known):
    """Names in double quotes that are those of nothing: SQLite takes them for texts."""
    words = words_of(sql)
    known = known | {b.name for a, b in itertools.pairwise(words) if a.upper == "AS"}
    for i, one in enumerate(words[1:], 1):
        before, after = words[i - 1], words[i + 1 : i + 2]
        summed = before.text == "(" and words[i - 2].upper in AGGREGATES
        listed = before.text == "," and one.depth == 0
        is_column = summed or listed or before.upper in BEFORE_A_COLUMN
        if (
            one.text[0] == '"'
            and is_column
            and one.name not in known
            and not (after and after[0].text in ".(")
        ):
            yield one


def divides(term, kinds):
    """Whether a term is a quotient of whole numbers, of which SQLite leaves out the fraction. Bins of a fixed width are meant so."""
    marks = (i for i, one in enumerate(term) if one.upper == "AS" and one.depth == term[0].depth)
    term = term[: next(marks, None)]
    texts = [one.text for one in term]
    if "/" not in texts or any(
        after[:1].isdigit() for sign, after in itertools.pairwise(texts) if sign == "/"
    ):
        return False
    for one, after in zip(term, [*texts[1:], ""], strict=True):
        whole = kinds.get(one.name) and kinds[one.name] <= set(INTEGERS)
        if not (whole or one.text.isdecimal() or one.text in "+-*/()." or after == "." or one.upper in EXACT):
            return False
    return True
