"""How far areas in a CRS differ from those on the ground, where the data is."""

from osgeo import ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import code_of, reference, traditional
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import layers_of

SIDE = 0.01  # degrees; of the square whose areas are compared
MOST = 0.05  # fraction of an area; national grids stay below
MERCATOR = "EPSG:3857"  # has a check before the call


def checks(dataset, outline):
    """Reports a measurement in a CRS that changes areas noticeably at the first feature of a table."""
    layers = [layer for layer in layers_of(dataset) if layer.GetName().lower() in outline["reads"]]
    with quiet():
        for code in outline["measured_in"]:
            for layer in layers:
                crs = reference(code) if code else layer.GetSpatialRef()
                place = place_of(layer)
                factor = area_factor(crs, *place) if place and crs and crs.IsProjected() else 1.0
                if abs(factor - 1) > MOST and code_of(crs) != MERCATOR:
                    yield {"code": "areas_distorted", "percent": round(factor * 100, 1)}
                    return


def place_of(layer):
    """The longitude and latitude of the centre of the layer's first geometry; None if it has none."""
    layer.ResetReading()
    feature = layer.GetNextFeature()
    layer.ResetReading()
    geometry = feature.GetGeometryRef() if feature is not None else None
    own = layer.GetSpatialRef()
    if geometry is None or geometry.IsEmpty() or own is None:
        return None
    west, east, south, north = geometry.GetEnvelope()
    change = osr.CreateCoordinateTransformation(traditional(own), traditional(reference("EPSG:4326")))
    return change.TransformPoint((west + east) / 2, (south + north) / 2)[:2] if change is not None else None


def area_factor(crs, x, y):
    """The area of a small square in a CRS, divided by its area on the ellipsoid; 1 if it cannot be computed."""
    ring = [(x, y), (x + SIDE, y), (x + SIDE, y + SIDE), (x, y + SIDE), (x, y)]
    square = ogr.CreateGeometryFromWkt(f"POLYGON (({', '.join(f'{a} {b}' for a, b in ring)}))")
    square.AssignSpatialReference(traditional(reference("EPSG:4326")))
    ground = square.GeodesicArea()
    if square.TransformTo(traditional(crs)) != 0 or ground <= 0:
        return 1.0
    return square.GetArea() * crs.GetLinearUnits() ** 2 / ground
