"""Finds the parts of a spreadsheet that GDAL does not read as its author sees them: formulas, merged cells, headers,
dates.
"""

import itertools
import re
import zipfile
from html import unescape

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip
from gdal_mcp.toolboxes.gdal.inside.parts.sheets import sheets_of, tags, text_of
from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS, fields, layers_of, named_layers

FIRST_ROWS = 200
MOST_HEADERS = 3  # rows at the top that may be titles and headers
UNNAMED = re.compile(r"Field\d+")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
OF_DATES = re.compile(r"(?:.*[_ ])?(?:date|datum|day|fecha|data)(?:[_ ].*)?|.*date", re.IGNORECASE)
DAYS = range(20_000, 60_000)  # days since 1899-12-30, for dates from 1954 to 2064
CELL = re.compile(r"<(?:\w+:)?c\s[^>]*(?<!/)>(.*?)</(?:\w+:)?c>", re.DOTALL)
FORMULA, VALUE = re.compile(r"<(?:\w+:)?f[ />]"), re.compile(r"<(?:\w+:)?(?:v|is)[ >]")
ROWS_OF_RANGE = re.compile(r"\$?[A-Z]+\$?(\d+):\$?[A-Z]+\$?(\d+)")
ODS_CELL = re.compile(r"<table:table-cell\s[^>]*>")
ODS_SPAN = re.compile(r'table:number-rows-spanned="(\d+)"')
ODS_HIDDEN = re.compile(
    r'<style:style style:name="([^"]+)"[^>]*>\s*<style:table-properties[^>]*table:display="false"'
)

OF_CELLS = ("formulas_unread", "cells_merged", "sheets_hidden")  # checks of the workbook's own XML


def checks(path, words):
    """Checks a workbook; if the words of the call name sheets, only these."""
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR, allowed_drivers=["XLSX", "ODS"])
    if dataset is None:
        return
    layers = layers_of(dataset)
    named = named_layers(layers, words)
    try:
        with zipfile.ZipFile(path) as packed:
            of_format = ods_cells if "content.xml" in packed.namelist() else xlsx_cells
            unread, merged, hidden = of_format(packed, named)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        skip(*OF_CELLS)
        return
    if unread:
        yield {"code": "formulas_unread", "count": unread}
    if merged:
        yield {"code": "cells_merged", "count": merged}
    if hidden:
        yield {"code": "sheets_hidden", "count": hidden, "of": len(layers)}
    for number, layer in enumerate(layers):
        if not named or layer.GetName() in named:
            findings = layer_checks(layer, says_headers="HEADERS=" in words)
            yield from ({**finding, "layer": number} for finding in findings)


def xlsx_cells(packed, named):
    """The numbers of formulas without a value, of cells merged over rows, and of hidden sheets."""
    unread = merged = 0
    for name, member in sheets_of(packed):
        if named and name not in named:
            continue
        text = text_of(packed, member)
        unread += sum(bool(FORMULA.search(cell) and not VALUE.search(cell)) for cell in CELL.findall(text))
        spans = (ROWS_OF_RANGE.fullmatch(tag.get("ref", "")) for tag in tags(text, "mergeCell"))
        merged += sum(bool(span) and span[1] != span[2] for span in spans)
    sheets = tags(text_of(packed, "xl/workbook.xml"), "sheet")
    states = {unescape(sheet.get("name", "")): sheet.get("state", "visible") for sheet in sheets}
    hidden = [name for name, state in states.items() if state != "visible" and (not named or name in named)]
    return unread, merged, len(hidden)


def ods_cells(packed, named):
    """Like `xlsx_cells`, for an OpenDocument spreadsheet."""
    text = text_of(packed, "content.xml")
    unread = merged = hidden = 0
    hides = set(ODS_HIDDEN.findall(text))
    for part in text.split("<table:table ")[1:]:
        about = dict(re.findall(r'([\w:-]+)="([^"]*)"', part.partition(">")[0]))
        if named and unescape(about.get("table:name", "")) not in named:
            continue
        cells = ODS_CELL.findall(part)
        unread += sum("table:formula=" in cell and "office:value-type=" not in cell for cell in cells)
        merged += sum(int(span) > 1 for cell in cells for span in ODS_SPAN.findall(cell))
        hidden += about.get("table:style-name") in hides
    return unread, merged, hidden


def layer_checks(layer, *, says_headers):
    """Checks a sheet. `says_headers` is true if the call says which row has the names of columns."""
    definitions = fields(layer.GetLayerDefn())
    rows = [
        [feature.GetFieldAsString(i).strip() for i in range(len(definitions))]
        for feature in itertools.islice(layer, FIRST_ROWS)
    ]
    layer.ResetReading()
    columns = [[row[i] for row in rows] for i in range(len(definitions))]
    unnamed = (
        not says_headers and definitions and all(UNNAMED.fullmatch(field.GetName()) for field in definitions)
    )
    if unnamed and any(map(has_header, columns)):
        yield {"code": "header_in_rows"}
    serials = [i for i, field in enumerate(definitions) if is_serial(field, columns[i])]
    if serials:
        yield {"code": "dates_as_numbers", "fields": serials}


def has_header(column):
    """True if texts at the top of a column are followed by numbers only."""
    texts = [at for at, value in enumerate(column) if value and not NUMBER.fullmatch(value)]
    rest = [value for value in column[(texts[-1] + 1) if texts else 0 :] if value]
    return bool(texts) and texts[-1] < MOST_HEADERS and bool(rest)


def is_serial(field, column):
    """True if a column whose name suggests dates contains only whole numbers that can be days."""
    if field.GetType() not in (*NUMBERS, ogr.OFTString) or not OF_DATES.fullmatch(field.GetName()):
        return False
    values = [value for value in column if value]
    return bool(values) and all(value.isdecimal() and int(value) in DAYS for value in values)
