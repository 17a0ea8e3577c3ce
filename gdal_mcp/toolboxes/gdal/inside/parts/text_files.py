"""Finds what GDAL leaves out of text files: cells beyond the header, titles above it, further pages of a service."""

import csv
import os
import re

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip

MOST_BYTES = 16 << 20  # bytes of a table that is read
PART = 1 << 16  # bytes at each end of a file that describe it
SEPARATORS = ",;\t|"
TABLES, PAGES = (".csv", ".tsv"), (".geojson", ".json", ".gml", ".xml")
OF_TABLES = ("cells_left_out", "header_in_rows")
MARKS = (b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-16
CUT = re.compile(rb'"exceededTransferLimit"\s*:\s*true')
NEXT = re.compile(rb'"rel"\s*:\s*"next"')
MATCHED = re.compile(rb'"?\b(?:numberMatched|totalFeatures)"?\s*[:=]\s*"?(\d+)')
RETURNED = re.compile(rb'"?\bnumberReturned"?\s*[:=]\s*"?(\d+)')


def checks(path):
    """Checks a text file by the ending of its name. A listing has files that cannot be read."""
    name = path.lower()
    if not os.access(path, os.R_OK):
        return
    if name.endswith(PAGES):
        yield from page_checks(path)
    elif name.endswith(TABLES) and os.path.getsize(path) > MOST_BYTES:
        skip(*OF_TABLES)
    elif name.endswith(TABLES):
        yield from table_checks(path)


def is_utf16(path):
    """True if a text file is in UTF-16, which GDAL's drivers do not read."""
    if not path.lower().endswith((*TABLES, *PAGES)) or not os.access(path, os.R_OK):
        return False
    with open(path, "rb") as file:
        return file.read(2) in MARKS


def table_checks(path):
    """Reports rows with more cells than the header, and a first line that is a title."""
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        first = file.readline()
        separator = max(SEPARATORS, key=first.count)
        second = file.readline() if first.count(separator) == 0 else ""
        if second:
            likely = max(SEPARATORS, key=second.count)
            if second.count(likely) and all(line.count(likely) == second.count(likely) for line in file):
                yield {"code": "title_as_header"}
            return
        file.seek(0)
        try:
            rows = csv.reader(file, delimiter=separator)
            header, *widths = (
                max((i for i, cell in enumerate(row, 1) if cell.strip()), default=0) for row in rows
            )
        except ValueError:  # the file is empty
            return
        except csv.Error:
            skip(*OF_TABLES)
            return
    if wider := sum(width > header for width in widths):
        yield {"code": "cells_left_out", "count": wider, "of": len(widths)}


def page_checks(path):
    """Reports a file that is one page of the features of a service."""
    with open(path, "rb") as file:
        head = file.read(PART)
        file.seek(max(0, os.path.getsize(path) - PART))
        tail = file.read()
    about = (
        head.partition(b'"features"')[0] + b" " + tail.rpartition(b'"geometry"')[2]
        if b"{" in head[:8]
        else head[:4096]
    )
    matched, returned = (pattern.search(about) for pattern in (MATCHED, RETURNED))
    of, count = (int(found[1]) if found else None for found in (matched, returned))
    if of is not None and count is None:
        count = features(path)
    if of is not None and count is not None and count < of:
        yield {"code": "page_of_service", "count": count, "of": of}
    elif CUT.search(about) or (count is None and NEXT.search(about)):
        yield {"code": "page_of_service"}


def features(path):
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR)
    return dataset.GetLayer(0).GetFeatureCount() if dataset is not None and dataset.GetLayerCount() else None
