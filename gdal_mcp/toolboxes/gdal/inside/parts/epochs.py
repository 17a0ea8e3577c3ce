"""Reports coordinate epochs that an output has lost.

In a CRS that does not move with a plate, coordinates are valid at one moment: 20 years later, the same place has
other coordinates.
"""

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

MAX_SOURCES = 10  # inputs that are compared


def epoch_checks(dataset, sources):
    """Reports an output that lacks the epoch of its input although its CRS needs one."""
    with quiet():
        opened = [gdal.OpenEx(path) for path, row in sources[:MAX_SOURCES] if row]
        dated = [
            crs
            for source_dataset in opened
            if source_dataset is not None
            for crs in systems(source_dataset)
            if crs.GetCoordinateEpoch()
        ]
    for crs in systems(dataset):
        for source in dated:
            if not crs.GetCoordinateEpoch() and moves(crs, source):
                yield {"code": "epoch_lost", "epoch": source.GetCoordinateEpoch()}
                return


def moves(crs, source):
    """True if coordinates in a CRS change with time.

    Some formats do not store that a CRS is dynamic, so a CRS with the source's datum counts too.
    """
    return crs.IsDynamic() or crs.GetAttrValue("DATUM") in (source.GetAttrValue("DATUM"), "WGS_1984")


def systems(dataset):
    crs_list = [dataset.GetSpatialRef()] if dataset.RasterCount else []
    crs_list += [layer.GetSpatialRef() for layer in layers_of(dataset, 20)]
    return [crs for crs in crs_list if crs is not None]
