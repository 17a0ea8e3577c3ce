"""Labels: features whose vertices move as the pixels do, cut off at the edges of the image."""

import numpy as np
from osgeo import gdal, ogr, osr

from gdal_mcp.toolboxes.augment.inside import moving, rasters

DRIVERS = {"gpkg": "GPKG", "geojson": "GeoJSON"}
LAYER = "labels"
RESERVED = ("fid", "geom")  # columns that GeoPackage itself creates


class Labels:
    """Features in coordinates of pixel corners: pairs of a geometry and its values.

    `points` are all their vertices, in order.
    """

    def __init__(self, features, definition):
        self._features, self.fields, self.written = features, definition, 0
        self.points = np.concatenate([np.zeros((0, 2)), *(points_of(geometry) for geometry, _ in features)])

    def features(self, scene):
        """The features in pixels as they are now, cut off at the image's edges."""
        frame, there = rectangle(0, 0, *scene.raster.size), iter(scene.points.tolist())
        moved = [(placed(geometry, there), values) for geometry, values in self._features]
        return [(part, values) for geometry, values in moved if (part := clipped(geometry, frame))]

    def write(self, path, scene):
        """Writes the labels in the image's CRS, or in pixels from its upper left corner if it lost its georeference."""
        features = self.features(scene)
        place = scene.raster.place
        if place is not None:
            features = [(mapped(geometry, place), values) for geometry, values in features]
        self.written = len(features)
        save(path, features, self.fields, scene.raster.crs if place is not None else None)


class Layer:
    """A dataset of labels, from which the features in a part of a raster are read."""

    def __init__(self, path, crs):
        self._dataset = gdal.OpenEx(path, gdal.OF_VECTOR)
        if self._dataset is None or not self._dataset.GetLayerCount():
            raise rasters.Unreadable("the labels are no vector dataset that GDAL can open")
        self._layer = self._dataset.GetLayer(0)
        definition = self._layer.GetLayerDefn()
        fields = [definition.GetFieldDefn(number) for number in range(definition.GetFieldCount())]
        self.fields = [(field.GetName(), field.GetType(), field.GetSubType()) for field in fields]
        own = self._layer.GetSpatialRef()
        self._to = self._back = None
        if own is not None and crs is not None and not own.IsSame(crs):
            own.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
            self._to, self._back = (osr.CoordinateTransformation(*pair) for pair in ((own, crs), (crs, own)))

    def within(self, raster):
        """The features that touch the raster, in pixels of the raster."""
        width, height = raster.size
        place = raster.place or (0, 1, 0, 0, 0, 1)
        frame = rectangle(0, 0, width, height)
        there = mapped(frame, place)
        if self._back is not None:
            there.Segmentize(max(there.GetEnvelope()[1] - there.GetEnvelope()[0], 1e-9) / 16)
            there.Transform(self._back)
        self._layer.SetSpatialFilter(there)
        backward = gdal.InvGeoTransform(place)
        features = []
        for feature in self._layer:
            geometry = feature.GetGeometryRef()
            if geometry is None or geometry.IsEmpty():
                continue
            geometry = geometry.GetLinearGeometry()
            geometry.FlattenTo2D()
            if self._to is not None:
                geometry.Transform(self._to)
            inside = mapped(geometry, backward)
            if (part := clipped(inside, frame)) is not None:  # features outside have no pixels to move with
                features.append((part, [feature.GetField(number) for number in range(len(self.fields))]))
        return Labels(features, self.fields)


def lines(geometry):
    """The points and lines that a geometry is made of."""
    parts = [geometry.GetGeometryRef(number) for number in range(geometry.GetGeometryCount())]
    return [line for part in parts for line in lines(part)] if parts else [geometry]


def points_of(geometry):
    return np.array([point for line in lines(geometry) for point in line.GetPoints(2) or ()]).reshape(-1, 2)


def placed(geometry, points):
    """The same geometry with the next of these points as its vertices."""
    copy = geometry.Clone()
    for line in lines(copy):
        for number in range(line.GetPointCount()):
            line.SetPoint_2D(number, *next(points))
    return copy


def mapped(geometry, place):
    """The geometry with its vertices transformed by a geotransform."""
    a, b, c, d, e, f = place
    there = moving.moved(points_of(geometry), np.array([[b, c, a], [e, f, d]]))
    return placed(geometry, iter(there.tolist()))


def clipped(geometry, frame):
    """The part of a geometry inside the frame; None if it is empty, or only an edge or a point of an area."""
    if frame.Contains(geometry):
        return geometry
    with_errors = geometry if geometry.IsValid() else geometry.MakeValid()
    inside = with_errors.Intersection(frame) if with_errors is not None else None
    if inside is None or inside.IsEmpty() or inside.GetDimension() < geometry.GetDimension():
        return None
    return inside


def rectangle(left, top, right, bottom):
    ring = ogr.Geometry(ogr.wkbLinearRing)
    for x, y in ((left, top), (right, top), (right, bottom), (left, bottom), (left, top)):
        ring.AddPoint_2D(float(x), float(y))
    polygon = ogr.Geometry(ogr.wkbPolygon)
    polygon.AddGeometry(ring)
    return polygon


def save(path, features, fields, crs, layer=LAYER):
    """Writes features of any kind of geometry; the extension decides the format."""
    kind = DRIVERS[path.rpartition(".")[2]]
    dataset = gdal.GetDriverByName(kind).Create(path, 0, 0, 0, gdal.GDT_Unknown)
    options = ["COORDINATE_PRECISION=9"] if kind == "GeoJSON" else []
    table = dataset.CreateLayer(layer, crs, ogr.wkbUnknown, options)
    numbers = [number for number, field in enumerate(fields) if field[0].lower() not in RESERVED]
    for number in numbers:
        name, type_, subtype = fields[number]
        field = ogr.FieldDefn(name, type_)
        field.SetSubType(subtype)
        table.CreateField(field)
    for geometry, values in features:
        row = ogr.Feature(table.GetLayerDefn())
        row.SetGeometry(geometry)
        for number in numbers:
            if values[number] is not None:
                row.SetField(fields[number][0], values[number])
        table.CreateFeature(row)
    if dataset.Close() != gdal.CE_None:
        raise RuntimeError("the labels could not be written")
