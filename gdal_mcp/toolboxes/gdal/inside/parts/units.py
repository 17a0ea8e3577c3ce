"""The units of the lengths, areas and angles in the result of a statement."""

import re

from gdal_mcp.toolboxes.gdal.inside.parts.extents import in_degrees, reference
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

# metres per unit
UNITS = {1.0: "metre", 0.3048: "foot", 12 / 39.37: "US survey foot", 1000.0: "kilometre"}
SAME = 1e-9
SPACE = re.compile(r'[\s"]+')


def units_of(dataset, names, outline):
    """The unit of each measured column of a result, by the index of the column in `names`."""
    rows = outline["measured"] if outline is not None else ()
    plain = [spelling(name) for name in names]
    with quiet():
        units = [(spelling(row["column"]), unit_of(dataset, row)) for row in rows]
    return [{"column": plain.index(name), "unit": unit} for name, unit in units if plain.count(name) == 1]


def spelling(name):
    return SPACE.sub("", name).lower()


def unit_of(dataset, row):
    """The unit of a measured column; `unknown` without a CRS, or if it differs between tables."""
    if row["power"] == 0:
        return "radian"
    if row["on_ellipsoid"]:
        words = {"metre"}
    else:
        words = {unit_of_crs(crs) for place in row["places"] for crs in systems(dataset, *place)}
    if len(words) != 1 or None in words:
        return "unknown"
    [word] = words
    return f"square {word}" if row["power"] == 2 else word


def systems(dataset, table, code):
    """The CRSs that the geometries of a table may have, or the CRS that they are transformed to.

    If the table is unknown, it may be any table.
    """
    if code:
        return [reference(code)]
    layers = layers_of(dataset)
    matching = [layer for layer in layers if table in ("", layer.GetName().lower())] or layers
    return [layer.GetSpatialRef() for layer in matching if layer.GetLayerDefn().GetGeomFieldCount()]


def unit_of_crs(crs):
    if crs is None:
        return None
    if crs.IsGeographic():
        return "degree" if in_degrees(crs) else None
    size = crs.GetLinearUnits()
    return next((word for metres, word in UNITS.items() if abs(size / metres - 1) < SAME), None)
