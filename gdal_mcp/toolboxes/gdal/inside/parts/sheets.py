"""Finds spreadsheet cells that GDAL misreads: times as dates, titles as values.

GDAL does not know the format `h:mm:ss`, which is the default of openpyxl.
"""

import re
import zipfile
from html import unescape

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.pair import UNTITLED
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields

MOST_BYTES = 32 << 20  # bytes of the XML of one sheet
SECOND = 1 / 86_400  # fraction of a day
TAG = r"<(?:\w+:)?{}\s([^>]*)>"
ATTRIBUTE = re.compile(r'([\w:]+)="([^"]*)"')
# a cell with a number that has a fraction
CELL = re.compile(r'<(?:\w+:)?c\s[^>]*?r="([A-Z]{1,3})\d+"[^>]*>\s*<(?:\w+:)?v>(\d{1,7}\.\d+)</')


def time_count(path):
    """The number of cells with a time of day in columns that GDAL reads as dates; 0 if the file is not an XLSX file."""
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR, allowed_drivers=["XLSX"])
    if dataset is None:
        return 0
    try:
        with zipfile.ZipFile(path) as packed:
            return sum(of_sheet(dataset.GetLayerByName(name), packed, at) for name, at in sheets_of(packed))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        skip("times_cut")
        return 0


def untitled_sheets(path):
    """The indexes of sheets whose first row has text in each cell and is read as values.

    GDAL reads a first row as names only if another row has a number.
    """
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR, allowed_drivers=["XLSX", "ODS"])
    layers = [dataset.GetLayer(i) for i in range(dataset.GetLayerCount())] if dataset is not None else []
    return [i for i, layer in enumerate(layers) if may_have_titles(layer)]


def may_have_titles(layer):
    named, first = fields(layer.GetLayerDefn()), layer.GetNextFeature()
    if first is None or len(named) < 2 or layer.GetFeatureCount() < 2:
        return False
    titles = {first.GetFieldAsString(i).strip() for i in range(len(named))}
    untitled = all(
        UNTITLED.fullmatch(field.GetName()) and field.GetType() == ogr.OFTString for field in named
    )
    return (
        untitled
        and len(titles) == len(named)
        and not any(title == "" or title[0].isdigit() for title in titles)
    )


def of_sheet(layer, packed, member):
    kinds = fields(layer.GetLayerDefn()) if layer is not None else []
    dates = {i for i, field in enumerate(kinds) if field.GetType() == ogr.OFTDate}
    cells = CELL.finditer(text_of(packed, member)) if dates else ()
    return sum(column(cell[1]) in dates and float(cell[2]) % 1 > SECOND for cell in cells)


def sheets_of(packed):
    """Names of sheets, with the path of each in the archive."""
    targets = {
        tag.get("Id"): tag.get("Target", "").removeprefix("/xl/")
        for tag in tags(text_of(packed, "xl/_rels/workbook.xml.rels"), "Relationship")
    }
    for tag in tags(text_of(packed, "xl/workbook.xml"), "sheet"):
        if target := targets.get(tag.get("r:id")):
            yield unescape(tag.get("name", "")), f"xl/{target}"


def tags(text, name):
    return [dict(ATTRIBUTE.findall(tag)) for tag in re.findall(TAG.format(name), text)]


def text_of(packed, member):
    with packed.open(member) as file:
        return file.read(MOST_BYTES).decode("utf-8", "replace")


def column(letters):
    """The index of a column, from 0: A is 0, AA is 26."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1
