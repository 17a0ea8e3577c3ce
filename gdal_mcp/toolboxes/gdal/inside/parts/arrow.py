"""Adds the Arrow types of the columns, with PyArrow's names, to GDAL's report of a Parquet or Arrow file."""

import ctypes
import json

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.precision import name_of
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet

DRIVERS = ("Parquet", "Arrow")
UNITS = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
# format strings of Arrow's C data interface
PLAIN = {
    **dict(
        zip(
            "bcCsSiIlLefg",
            "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64".split(),
            strict=True,
        )
    ),
    "u": "string",
    "U": "large_string",
    "vu": "string_view",
    "z": "binary",
    "Z": "large_binary",
    "vz": "binary_view",
    "tdD": "date32",
    "tdm": "date64",
}
NESTED = {"+l": "list", "+L": "large_list", "+s": "struct", "+m": "map"}


class ArrowSchema(ctypes.Structure):
    """The first fields of `struct ArrowSchema`."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p))


def with_arrow_types(text, job):
    """The report with the Arrow types of the columns; unchanged for a file of another format."""
    if not any(f'"driverShortName":"{name}"' in text.replace(" ", "") for name in DRIVERS):
        return text
    report = json.loads(text)
    with quiet():
        dataset = gdal.OpenEx(name_of(job), gdal.OF_VECTOR)
        for row in report.get("layers", ()) if dataset is not None else ():
            layer = dataset.GetLayerByName(row.get("name"))
            if layer is not None:
                types = types_of(layer)
                row["arrowTypes"] = [types.get(field.get("name"), "other") for field in row.get("fields", ())]
    return json.dumps(report)


def types_of(layer):
    """The Arrow types of the columns, by column name."""
    schema = layer.GetArrowStream().GetSchema()
    children = [schema.GetChild(i) for i in range(schema.GetChildrenCount())]
    heads = [ArrowSchema.from_address(int(child.this)) for child in children]
    return {head.name.decode("utf-8", "replace"): type_of(head.format.decode()) for head in heads}


def type_of(form):
    if form.startswith("ts"):
        return f"timestamp[{UNITS[form[2]]}{', with time zone' if form[4:] else ''}]"
    if form.startswith("tt"):
        return f"time{32 if form[2] in 'sm' else 64}[{UNITS[form[2]]}]"
    if form.startswith("d:"):
        return "decimal"
    return PLAIN.get(form) or NESTED.get(form) or "other"
