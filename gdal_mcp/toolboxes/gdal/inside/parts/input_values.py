"""Examines the texts and the positions of layers that a call reads, in small files."""

import os
import re

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts import column_texts, positions
from gdal_mcp.toolboxes.gdal.inside.parts.beside import MAX_BYTES, SPANNING, VECTORS, is_of
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet, skip
from gdal_mcp.toolboxes.gdal.inside.parts.tables import is_named, layers_of, named_layers

DRIVERS = (*VECTORS, "XLSX", "ODS", "GML", "GPX", "KML", "LIBKML", "Parquet")
HEADERS = "--open-option=HEADERS="
MAX_LAYERS = 20
# commands whose result depends on where features are
BY_POSITION = SPANNING | {"rasterize", "index", "info", "clip", "buffer", "layer-algebra", "combine"}
GEOMETRY = re.compile(r"\b(?:st_\w+|geom\w*)\b", re.IGNORECASE)
# conditions that leave positions at 0, 0 out, and functions that correct positions
CORRECTIONS = re.compile(r"(?:=|<>|>)\s*0(?![\d.])|shift_?longitude|swap_?coord", re.IGNORECASE)


def checks(path, job):
    """Checks the layers of a file that the call names; all of them if it names none."""
    if not is_of(DRIVERS, path, gdal.OF_VECTOR):
        return
    if os.path.getsize(path) > MAX_BYTES:
        skip(*column_texts.CODES, *positions.CODES)
        return
    words = [str(word) for word in job.get("options", ())]
    words += [f"--sql={job['sql']}"] if job.get("sql") else []
    headers = [word.removeprefix("--open-option=") for word in words if word.startswith(HEADERS)]
    with quiet():
        dataset = gdal.OpenEx(path, gdal.OF_VECTOR, allowed_drivers=DRIVERS, open_options=headers)
        layers = layers_of(dataset, MAX_LAYERS) if dataset is not None else []
        named = named_layers(layers, " ".join(words))
        findings = [
            {**finding, "layer": number}
            for number, layer in enumerate(layers)
            if not named or layer.GetName() in named
            for finding in layer_checks(layer, words, writes=bool(job["outputs"]))
        ]
    yield from findings


def layer_checks(layer, words, *, writes):
    sql = next((word.removeprefix("--sql=") for word in words if word.startswith("--sql=")), "")
    yield from column_texts.checks(layer, sql)
    columns = positions.position_columns(layer)
    if uses_positions(columns, sql, words, writes=writes):
        yield from positions.checks(layer, columns)


def uses_positions(columns, sql, words, *, writes):
    """True if the call measures or draws with positions. `columns` are those with positions in a table."""
    if sql:
        uses = all(is_named(name, sql) for name in columns) if columns else GEOMETRY.search(sql)
        return bool(uses) and not CORRECTIONS.search(sql)
    if columns:  # a conversion to points names them
        return {name.casefold() for name in columns} <= {word.rpartition("=")[2].casefold() for word in words}
    return not writes or not BY_POSITION.isdisjoint(words)
