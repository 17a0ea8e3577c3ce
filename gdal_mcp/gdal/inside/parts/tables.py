"""Text columns of a table: those that hold numbers, and those that hold geometries, by their first values."""

import itertools
import re

from osgeo import ogr

FIRST = 50  # features
MOST = 20  # columns that are told
NAME = 64  # letters of a column's name
WKT = re.compile(
    r"\s*(?:SRID=\d+;)?(?:MULTI)?(?:POINT|LINESTRING|POLYGON|GEOMETRYCOLLECTION)\s*Z?M?\s*\(", re.IGNORECASE
)


def text_columns(dataset):
    """Of the first layer, by name, for the host to compare with what a call says; {} where there are none."""
    layer = dataset.GetLayer(0)
    definition = layer.GetLayerDefn()
    count = min(definition.GetFieldCount(), 200)
    columns = {
        i: name
        for i in range(count)
        if (field := definition.GetFieldDefn(i)).GetType() == ogr.OFTString
        and len(name := field.GetName()) <= NAME
    }
    if not columns:
        return {}
    values = {i: [] for i in columns}
    for feature in itertools.islice(layer, FIRST):
        for i, found in values.items():
            if feature.IsFieldSetAndNotNull(i) and (text := feature.GetFieldAsString(i).strip()):
                found.append(text)
    layer.ResetReading()
    return {
        "numbers": [columns[i] for i, found in values.items() if found and all(map(is_number, found))][:MOST],
        "geometries": [columns[i] for i, found in values.items() if found and all(map(WKT.match, found))][
            :MOST
        ],
    }


def is_number(text):
    """What arithmetic would take: no code such as 007, which is no number for being made of digits."""
    try:
        float(text)
    except ValueError:
        return False
    digits = text.lstrip("+-")
    return not (len(digits) > 1 and digits[0] == "0" and digits[1] not in ".eE") and "_" not in text
