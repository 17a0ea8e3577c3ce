"""Finds columns of a table that contain numbers, dates or geometries, by their types and first values."""

import itertools
import os
import re

from osgeo import ogr

FIRST = 50  # features
MOST = 20  # columns that are reported
MOST_FIELDS = 200  # columns that are examined
NUMBERS = (ogr.OFTInteger, ogr.OFTInteger64, ogr.OFTReal)
NAME = 64  # characters of a column's name, at most
HEADER = 1 << 16  # bytes of a header line
INT64 = range(-(1 << 63), 1 << 63)
DOUBLE = 1 << 53  # a double represents every whole number up to this one
INTEGER_TEXT = re.compile(r"[-+]?\d{1,4000}", re.ASCII)
# names of columns with keys, whose every digit matters
KEY = re.compile(r"(?:^|_)(?:\w*id|code|key|nr|no|number|ref)(?:$|[_\d])", re.IGNORECASE)
FINE_TIME = re.compile(
    r"(?:[-\d/]+[T ])?\d\d:\d\d:\d\d\.\d{3}\d*[1-9].*", re.ASCII
)  # GDAL stores milliseconds
DECIMAL = re.compile(r"[-+]?\d+,\d+")
# decimal commas, and numbers whose thousands are grouped
COMMA = re.compile(
    r"[-+]?(?:\d+,\d+|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:['\u2019\u00a0\u2009\u202f ]\d{3})+(?:[.,]\d+)?)",
    re.ASCII,
)
# amounts of money, percentages, numbers with a unit, negative numbers of accounts, limits of detection, and degrees with
# minutes, such as $1,200.50, 45%, 12 km, (4), <0.5 or 8°33'
WITH_UNIT = re.compile(
    r"(?:[<>≤≥~\u2212]\s?\d[\d,.]*|[-+]?(?:\(\d[\d,.]*\)|\d[\d,.]*-|\d+°\s?\d[\d.]*\s?['\u2032][^,;]*|[$€£¥]\s?\d[\d,.]*|\d[\d,.]*\s?(?:[%‰$€£¥]|°C?|[kcm]?m[2²³]?|ft|mi|ha|k?g|kWh|MW|USD|EUR|GBP|ppm)))",
    re.ASCII,
)
MISSING = frozenset(
    {"n/a", "na", "nan", "null", "none", "nil", "-", "--", "?", "missing", "unknown", "nodata"}
)
MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t|tember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
# dates and times whose texts do not sort by time, such as 31.12.2024, 31-Dec-2024, Dec 31, 2024, 2024-9-5, 9:05 and 8 PM
LOCAL_DATE = re.compile(
    rf"\d{{1,2}}([./-])\d{{1,2}}\1(?:\d{{4}}|\d{{2}})(?:[ T].*)?|(?:\d{{1,2}}[ .-]+)?{MONTH}[ .,-]+\d{{2,4}}(?:[ ,].*)?"
    rf"|{MONTH}\.? \d{{1,2}},? \d{{4}}(?:[ ,].*)?|\d{{4}}([-/])(?:\d\2\d\d?|\d\d\2\d)(?:[ T].*)?"
    r"|\d:\d\d(?::\d\d)?|\d{1,2}(?::\d\d){0,2} ?[AP]M",
    re.IGNORECASE | re.ASCII,
)
SORTED_DATE = re.compile(r"\d{4}([-/])\d\d\1\d\d(?:[ T].*)?|\d\d:\d\d(?::\d\d)?", re.ASCII)
WKT = re.compile(
    r"\s*(?:SRID=\d+;)?(?:MULTI)?(?:POINT|LINESTRING|POLYGON|GEOMETRYCOLLECTION)\s*Z?M?\s*\(", re.IGNORECASE
)


def fields(definition, most=None):
    return [definition.GetFieldDefn(i) for i in range(definition.GetFieldCount())[:most]]


def shapes(definition):
    """The geometry fields of a layer definition."""
    return [definition.GetGeomFieldDefn(i) for i in range(definition.GetGeomFieldCount())]


def layers_of(dataset, most=None):
    return [dataset.GetLayer(i) for i in range(dataset.GetLayerCount())[:most]]


def named_layers(layers, words):
    """The names of the layers that the words of a call choose; empty for all layers.

    In a query, the name of a layer may follow an alias and `_`.
    """
    if "--sql" not in words and "--input-layer" not in words:
        return set()
    return {name for layer in layers if is_named(name := layer.GetName(), words)}


def is_named(name, words):
    """True if a text has the name of a layer or a column."""
    return re.search(rf"(?<![^\W_]){re.escape(name)}(?!\w)", words, re.IGNORECASE) is not None


def columns(dataset):
    """Columns of the first layer by name, for the host to compare with the call."""
    layer = dataset.GetLayer(0)
    definitions = fields(layer.GetLayerDefn(), MOST_FIELDS)
    named = {i: field.GetName() for i, field in enumerate(definitions) if len(field.GetName()) <= NAME}
    texts = {i: [] for i in named if definitions[i].GetType() == ogr.OFTString}
    keys = {i for i, name in named.items() if definitions[i].GetType() == ogr.OFTReal and KEY.search(name)}
    rounded = set()
    for feature in itertools.islice(layer, FIRST if texts or keys else 0):
        rounded |= {i for i in keys if abs(feature.GetFieldAsDouble(i)) >= DOUBLE}
        for i, values in texts.items():
            if feature.IsFieldSetAndNotNull(i) and (text := feature.GetFieldAsString(i).strip()):
                values.append(text)
    layer.ResetReading()
    read_commas = DECIMAL.fullmatch if by_semicolons(dataset) else lambda _text: None
    tests = {
        "number_texts": lambda text: is_number(text) or read_commas(text),
        "geometry_texts": WKT.match,
    }
    kinds = {}
    for kind, test in tests.items():
        kinds[kind] = [named[i] for i, values in texts.items() if values and all(map(test, values))]
    unread = {
        "comma_texts": (lambda text: COMMA.fullmatch(text) and not read_commas(text), tests["number_texts"]),
        "unit_texts": (WITH_UNIT.fullmatch, is_number),
        "date_texts": (LOCAL_DATE.fullmatch, SORTED_DATE.fullmatch),
    }
    for kind, (is_unread, is_read) in unread.items():
        kinds[kind] = [named[i] for i, values in texts.items() if are_written(values, is_unread, is_read)]
    kinds["long_texts"] = [named[i] for i, values in texts.items() if are_long(values)]
    kinds["rounded_keys"] = [named[i] for i in sorted(rounded)]
    shares = {i: sum(map(is_number, values)) / len(values) for i, values in texts.items() if values}
    kinds["mixed_texts"] = [named[i] for i, share in shares.items() if 0.5 <= share < 1]
    kinds["number_fields"] = [name for i, name in named.items() if definitions[i].GetType() in NUMBERS]
    names = [layer.GetName() for layer in layers_of(dataset)]
    listed = 1 < len(names) <= MOST and max(map(len, names)) <= NAME  # either all names or none
    limited = {kind: matching[:MOST] for kind, matching in kinds.items()}
    return {**limited, "layer_names": names if listed else [], **schema(dataset)}


def schema(dataset):
    """The names of the only layer, its fields and its geometries; empty for several layers or too many fields."""
    layer = dataset.GetLayer(0)
    definition = layer.GetLayerDefn()
    if dataset.GetLayerCount() != 1 or definition.GetFieldCount() > MOST_FIELDS:
        return {}
    return {
        "layer": [definition.GetName()],
        "fields": [field.GetName() for field in fields(definition)],
        # a statement can name this column, although it is not a field
        "feature_id": layer.GetFIDColumn(),
        "geometries": [column.GetName() for column in shapes(definition)],
    }


def by_semicolons(dataset):
    """True if a dataset is a CSV in which GDAL reads decimal commas when it detects types."""
    path = dataset.GetDescription()
    if dataset.GetDriver().ShortName != "CSV" or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        first = file.readline(HEADER)
    return first.count(b";") > first.count(b",")


def are_long(texts):
    """True if texts lose digits when their types are detected: GDAL reads whole numbers among fractions as floating
    point.
    """
    integers = [int(text) for text in texts if INTEGER_TEXT.fullmatch(text)]
    if any(map(FINE_TIME.match, texts)) or any(number not in INT64 for number in integers):
        return True
    fractions = len(integers) < len(texts) and all(map(is_number, texts))
    return fractions and any(abs(number) > DOUBLE for number in integers)


def are_written(texts, is_unread, is_read):
    """True if some texts are written in a way that GDAL does not read, and the others are read or missing.

    Grouped thousands are absent in small numbers, and decimals in whole numbers.
    """
    values = [text for text in texts if text.lower() not in MISSING]
    return any(map(is_unread, values)) and all(is_read(text) or is_unread(text) for text in values)


def is_number(text):
    """True for a number that arithmetic would accept, but not for a code such as 007."""
    try:
        float(text)
    except ValueError:
        return False
    digits = text.lstrip("+-")
    return not (len(digits) > 1 and digits[0] == "0" and digits[1] not in ".eE") and "_" not in text
