"""Draws layers: polygons with a light fill and an outline, lines, and points in a visible size."""

import math
import time

from osgeo import gdal, ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import crs_facts, wgs84_box
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of

MAX_LAYERS = 8
MAX_BYTES = 64 << 20  # bytes of the geometries as WKB
# Okabe and Ito's colours, which most colour-blind people can tell apart; without black and yellow, which many
# backgrounds hide
COLORS = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (230, 159, 0))
FILL = 70  # alpha, of 255; layers below remain visible
NARROWEST = 16  # pixels of the shorter side, at least
MARGIN = 0.03  # fraction of the longer side
DOT = 2.5  # pixels from the middle of a point's mark to its side


def paint(dataset, request):
    """An in-memory RGBA dataset, and a description of what it shows; None if there are no geometries."""
    drawing = Drawing(request["seconds"], request["features"])
    for layer in layers_of(dataset, MAX_LAYERS):
        drawing.add(layer)
    if not drawing.boxes:
        return None
    wests, easts, souths, norths = zip(*drawing.boxes, strict=True)
    canvas = Canvas((min(wests), min(souths), max(easts), max(norths)), request["pixels"])
    for number, shapes in enumerate(drawing.layers):
        canvas.draw(shapes, COLORS[number % len(COLORS)])
    shown = {
        "kind": "vector",
        "layers": [len(shapes) for shapes in drawing.layers],
        "complete": drawing.complete and dataset.GetLayerCount() <= MAX_LAYERS,
        "extent": canvas.extent,
        "crs": crs_facts(drawing.crs),
        "wgs84": wgs84_box(canvas.extent, drawing.crs),
    }
    return canvas.image, shown


class Drawing:
    """Geometries by layer, all in the CRS of the first layer, and no more than can be drawn in time."""

    def __init__(self, seconds, features):
        self.layers, self.boxes, self.crs, self.complete = [], [], None, True
        self._features, self._bytes, self._end = features, MAX_BYTES, time.monotonic() + seconds

    def add(self, layer):
        geometries, change, own = [], None, layer.GetSpatialRef()
        if own is not None and self.crs is not None and not own.IsSame(self.crs):
            change = osr.CreateCoordinateTransformation(own, self.crs)
        self.crs = self.crs or own
        if layer.TestCapability(ogr.OLCIgnoreFields):
            layer.SetIgnoredFields([field.GetName() for field in fields(layer.GetLayerDefn())])
        layer.ResetReading()
        for feature in layer:
            self._features -= 1
            if self._features < 0 or self._bytes <= 0 or time.monotonic() >= self._end:
                self.complete = False
                break
            geometry = drawable(feature.GetGeometryRef(), change)
            if geometry is not None:
                self._bytes -= geometry.WkbSize()
                self.boxes.append(geometry.GetEnvelope())
                geometries.append(geometry)
        layer.SetIgnoredFields([])
        self.layers.append(geometries)


def drawable(geometry, change):
    """A 2D copy without curves, in the picture's CRS; None if it is empty or has no finite extent."""
    if geometry is None or geometry.IsEmpty():
        return None
    copy = geometry.GetLinearGeometry() if geometry.HasCurveGeometry() else geometry.Clone()
    copy.FlattenTo2D()
    if change is not None and copy.Transform(change) != ogr.OGRERR_NONE:
        return None
    box = copy.GetEnvelope()
    return copy if all(math.isfinite(coordinate) and abs(coordinate) < 1e150 for coordinate in box) else None


class Canvas:
    """A transparent picture of a box, with square pixels."""

    def __init__(self, box, pixels):
        west, south, east, north = box
        longer = max(east - west, north - south) or 1.0
        step = self._step = longer * (1 + 2 * MARGIN) / pixels
        sides = ((side + 2 * MARGIN * longer) / step for side in (east - west, north - south))
        width, height = (min(max(NARROWEST, math.ceil(side)), pixels) for side in sides)
        left = (west + east) / 2 - width * step / 2
        top = (south + north) / 2 + height * step / 2
        self.extent = [left, top - height * step, left + width * step, top]
        self.image = gdal.GetDriverByName("MEM").Create("", width, height, 4, gdal.GDT_Byte)
        self.image.SetGeoTransform((left, step, 0, top, 0, -step))
        colors = (gdal.GCI_RedBand, gdal.GCI_GreenBand, gdal.GCI_BlueBand, gdal.GCI_AlphaBand)
        for number, color in enumerate(colors, 1):
            self.image.GetRasterBand(number).SetColorInterpretation(color)

    def draw(self, shapes, color):
        areas, lines, marks = [], [], []
        for shape in shapes:
            self._sort(shape, areas, lines, marks)
        outlines = [ogr.ForceToMultiLineString(area.Clone()) for area in areas]
        self._burn(areas, (*color, FILL))
        self._burn(outlines + lines, (*color, 255))
        self._burn(marks, (*color, 255))

    def _sort(self, shape, areas, lines, marks):
        """Adds each simple part of a geometry to the list of its kind; surfaces of triangles are areas."""
        kind = ogr.GT_Flatten(shape.GetGeometryType())
        if kind in (ogr.wkbPolygon, ogr.wkbTriangle):
            areas.append(ogr.ForceToPolygon(shape.Clone()))
        elif kind == ogr.wkbLineString:
            lines.append(shape.Clone())
        elif kind == ogr.wkbPoint:
            x, y, side = shape.GetX(), shape.GetY(), DOT * self._step
            ring = ogr.Geometry(ogr.wkbLinearRing)
            for dx, dy in ((-side, -side), (side, -side), (side, side), (-side, side), (-side, -side)):
                ring.AddPoint_2D(x + dx, y + dy)
            mark = ogr.Geometry(ogr.wkbPolygon)
            mark.AddGeometryDirectly(ring)
            marks.append(mark)
        else:
            for i in range(shape.GetGeometryCount()):
                self._sort(shape.GetGeometryRef(i), areas, lines, marks)

    def _burn(self, shapes, color):
        if not shapes:
            return
        store = gdal.GetDriverByName("MEM").Create("", 0, 0, 0, gdal.GDT_Unknown)
        layer = store.CreateLayer("", None, ogr.wkbUnknown)
        for shape in shapes:
            feature = ogr.Feature(layer.GetLayerDefn())
            feature.SetGeometryDirectly(shape)
            layer.CreateFeature(feature)
        options = ["ALL_TOUCHED=TRUE"]
        gdal.RasterizeLayer(self.image, [1, 2, 3, 4], layer, burn_values=list(color), options=options)
