"""Draws layers: polygons lightly filled with an outline, lines, and points of a size that can be seen."""

import math
import time

from osgeo import gdal, ogr, osr

from gdal_mcp.gdal.inside.parts.extents import crs_facts

MOST_LAYERS = 8
MOST_BYTES = 64 << 20  # of their geometries, as WKB
# Okabe and Ito's colours, which most colour-blind people tell apart; without black and yellow, which show on few grounds
COLORS = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (230, 159, 0))
FILL = 70  # of 255; what lies below shows through
NARROWEST = 16  # pixels of the shorter side
MARGIN = 0.03  # of the longer side
DOT = 2.5  # pixels from the middle of a point's mark to its side


def paint(dataset, asked):
    """An RGBA dataset in memory and what it shows; None without a geometry."""
    drawing = Drawing(asked["seconds"], asked["features"])
    for number in range(min(dataset.GetLayerCount(), MOST_LAYERS)):
        drawing.add(dataset.GetLayer(number))
    box = drawing.box()
    if box is None:
        return None
    canvas = Canvas(box, asked["pixels"])
    for number, shapes in enumerate(drawing.layers):
        canvas.draw(shapes, COLORS[number % len(COLORS)])
    shown = {
        "kind": "vector",
        "layers": [len(shapes) for shapes in drawing.layers],
        "complete": drawing.complete and dataset.GetLayerCount() <= MOST_LAYERS,
        "extent": canvas.extent,
        "crs": crs_facts(drawing.crs),
    }
    return canvas.image, shown


class Drawing:
    """Geometries by layer, all in the CRS of the first layer, and no more than can be drawn in time."""

    def __init__(self, seconds, features):
        self.layers, self.crs, self.complete = [], None, True
        self._left, self._bytes, self._end = features, MOST_BYTES, time.monotonic() + seconds
        self._boxes = []

    def add(self, layer):
        kept, change = [], self._change(layer)
        layer.SetIgnoredFields(ignorable(layer))
        layer.ResetReading()
        for feature in layer:
            if not self._room():
                self.complete = False
                break
            geometry = drawable(feature.GetGeometryRef(), change)
            if geometry is not None:
                self._count(geometry)
                kept.append(geometry)
        layer.SetIgnoredFields([])
        self.layers.append(kept)

    def box(self):
        """[west, south, east, north] of all that is drawn."""
        if not self._boxes:
            return None
        wests, easts, souths, norths = zip(*self._boxes, strict=True)
        return [min(wests), min(souths), max(easts), max(norths)]

    def _change(self, layer):
        """From the layer's CRS to that of the picture, where both are known and differ."""
        own = layer.GetSpatialRef()
        if own is None or self.crs is None:
            self.crs = self.crs or own
            return None
        return None if own.IsSame(self.crs) else osr.CreateCoordinateTransformation(own, self.crs)

    def _room(self):
        self._left -= 1
        return self._left >= 0 and self._bytes > 0 and time.monotonic() < self._end

    def _count(self, geometry):
        self._bytes -= geometry.WkbSize()
        self._boxes.append(geometry.GetEnvelope())


def ignorable(layer):
    definition = layer.GetLayerDefn()
    if not layer.TestCapability(ogr.OLCIgnoreFields):
        return []
    return [definition.GetFieldDefn(i).GetName() for i in range(definition.GetFieldCount())]


def drawable(geometry, change):
    """A flat copy without curves, in the picture's CRS; None for what is empty or lies nowhere."""
    if geometry is None or geometry.IsEmpty():
        return None
    made = geometry.GetLinearGeometry() if geometry.HasCurveGeometry() else geometry.Clone()
    made.FlattenTo2D()
    if change is not None and made.Transform(change) != ogr.OGRERR_NONE:
        return None
    box = made.GetEnvelope()
    return made if all(math.isfinite(one) and abs(one) < 1e150 for one in box) else None


class Canvas:
    """A transparent picture of a box, with square pixels."""

    def __init__(self, box, pixels):
        west, south, east, north = box
        longer = max(east - west, north - south) or 1.0
        room = longer * (1 + 2 * MARGIN)
        step = room / pixels
        self._step = step
        width = max(NARROWEST, math.ceil((east - west + 2 * MARGIN * longer) / step))
        height = max(NARROWEST, math.ceil((north - south + 2 * MARGIN * longer) / step))
        width, height = min(width, pixels), min(height, pixels)
        left = (west + east) / 2 - width * step / 2
        top = (south + north) / 2 + height * step / 2
        self.extent = [left, top - height * step, left + width * step, top]
        self.image = gdal.GetDriverByName("MEM").Create("", width, height, 4, gdal.GDT_Byte)
        self.image.SetGeoTransform((left, step, 0, top, 0, -step))
        for band, color in enumerate(
            (gdal.GCI_RedBand, gdal.GCI_GreenBand, gdal.GCI_BlueBand, gdal.GCI_AlphaBand)
        ):
            self.image.GetRasterBand(band + 1).SetColorInterpretation(color)

    def draw(self, shapes, color):
        areas, lines, points = [], [], []
        for shape in shapes:
            sort(shape, areas, lines, points)
        outlines = [ogr.ForceToMultiLineString(area.Clone()) for area in areas]
        self._burn(areas, (*color, FILL))
        self._burn(outlines + lines, (*color, 255))
        self._burn([self._mark(point) for point in points], (*color, 255))

    def _burn(self, shapes, color):
        if not shapes:
            return
        store = gdal.GetDriverByName("MEM").Create("", 0, 0, 0, gdal.GDT_Unknown)
        layer = store.CreateLayer("", None, ogr.wkbUnknown)
        definition = layer.GetLayerDefn()
        for shape in shapes:
            feature = ogr.Feature(definition)
            feature.SetGeometryDirectly(shape)
            layer.CreateFeature(feature)
        gdal.RasterizeLayer(
            self.image, [1, 2, 3, 4], layer, burn_values=list(color), options=["ALL_TOUCHED=TRUE"]
        )

    def _mark(self, point):
        x, y, side = point.GetX(), point.GetY(), DOT * self._step
        ring = ogr.Geometry(ogr.wkbLinearRing)
        for dx, dy in ((-side, -side), (side, -side), (side, side), (-side, side), (-side, -side)):
            ring.AddPoint_2D(x + dx, y + dy)
        mark = ogr.Geometry(ogr.wkbPolygon)
        mark.AddGeometryDirectly(ring)
        return mark


def sort(shape, areas, lines, points):
    """Every simple part of a geometry into the list of its kind; surfaces of triangles are areas."""
    kind = ogr.GT_Flatten(shape.GetGeometryType())
    if kind in (ogr.wkbPolygon, ogr.wkbTriangle):
        areas.append(ogr.ForceToPolygon(shape.Clone()))
    elif kind == ogr.wkbLineString:
        lines.append(shape.Clone())
    elif kind == ogr.wkbPoint:
        points.append(shape)
    else:
        for i in range(shape.GetGeometryCount()):
            sort(shape.GetGeometryRef(i), areas, lines, points)
