"""Columns of a table that hold numbers or geometries, by their types and their first values."""

import itertools
import re

from osgeo import ogr

FIRST = 50  # features
MOST = 20  # columns that are told
MOST_FIELDS = 200  # that are looked at
NUMBERS = (ogr.OFTInteger, ogr.OFTInteger64, ogr.OFTReal)
NAME = 64  # letters of a column's name
WKT = re.compile(
    r"\s*(?:SRID=\d+;)?(?:MULTI)?(?:POINT|LINESTRING|POLYGON|GEOMETRYCOLLECTION)\s*Z?M?\s*\(", re.IGNORECASE
)


def columns(dataset):
    """Of the first layer, by name, for the host to compare with what a call says."""
    layer = dataset.GetLayer(0)
    definition = layer.GetLayerDefn()
    found = [definition.GetFieldDefn(i) for i in range(min(definition.GetFieldCount(), MOST_FIELDS))]
    named = {i: field.GetName() for i, field in enumerate(found) if len(field.GetName()) <= NAME}
    texts = {i: [] for i in named if found[i].GetType() == ogr.OFTString}
    for feature in itertools.islice(layer, FIRST if texts else 0):
        for i, values in texts.items():
            if feature.IsFieldSetAndNotNull(i) and (text := feature.GetFieldAsString(i).strip()):
                values.append(text)
    layer.ResetReading()
    numbers = [named[i] for i, values in texts.items() if values and all(map(is_number, values))]
    shapes = [named[i] for i, values in texts.items() if values and all(map(WKT.match, values))]
    fields = [name for i, name in named.items() if found[i].GetType() in NUMBERS]
    kinds = {"number_texts": numbers, "number_fields": fields, "geometry_texts": shapes}
    return {kind: names[:MOST] for kind, names in kinds.items()}


def is_number(text):
    """What arithmetic would take: no code such as 007, which is no number for being made of digits."""
    try:
        float(text)
    except ValueError:
        return False
    digits = text.lstrip("+-")
    return not (len(digits) > 1 and digits[0] == "0" and digits[1] not in ".eE") and "_" not in text
