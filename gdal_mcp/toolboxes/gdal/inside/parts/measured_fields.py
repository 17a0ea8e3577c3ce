"""Reports fields with areas, lengths, coordinates or counts of the geometries that the features had before.

GDAL copies the fields of a feature when a command cuts, moves or merges its geometry. A field is judged by its name and
by its values: it must have agreed with the geometries of the input, up to a factor for the unit.
"""

import itertools
import math
import re

from osgeo import osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import traditional
from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS, fields

MOST_FEATURES = 500
MEASURES = {
    "area": re.compile(r"(?:.*[_ ])?(?:shape|st|geom)?[_ ]?area(?:[_ ].*)?|(?:hectares?|acres?|sq_?k?m|ha)"),
    "length": re.compile(r"(?:.*[_ ])?(?:shape|st|geom)?[_ ]?(?:length|leng|len|perimeter|perim)(?:[_ ].*)?"),
    "x": re.compile(r"(?:point|center|centre|centroid|coord)?[_ ]?(?:x|easting|xcoord|x_coord)"),
    "y": re.compile(r"(?:point|center|centre|centroid|coord)?[_ ]?(?:y|northing|ycoord|y_coord)"),
    "lon": re.compile(r"(?:.*[_ ])?(?:lon|long|lng|longitude)"),
    "lat": re.compile(r"(?:.*[_ ])?(?:lat|latitude)"),
}
COUNT = re.compile(
    r"(?:.*[_ ])?(?:pop|popul|population|inhabitants|residents|households|persons|people|dwellings|jobs)(?:[_ ]?\d*)"
)
# units of areas and lengths in square metres and metres, or in other units of a CRS
FACTORS = {
    "area": (1, 1e-2, 1e-4, 1e-6, 1 / 4046.8564224, 1 / 0.09290304, 1 / 2589988.110336),
    "length": (1, 1e-3, 1 / 0.3048, 1 / 1609.344),
}
COORDINATES = ("x", "y", "lon", "lat")
CLOSE = 0.01  # fraction by which a field of the input may differ from its geometry
APART = 0.03  # fraction by which a field of the output must differ to count as another value
NEAR = {True: 1e-4, False: 1.0}  # degrees, and units of other CRSs
ROUNDED = 0.006  # by which values with two decimals differ
AGREE = 0.9  # fraction of the features of the input that must be close; all must not be apart


class MeasuredGeometry:
    """A geometry with its measures, by the name of the measure; each has one or two values, on the map and on the earth."""

    def __init__(self, geometry, degrees, change):
        self._geometry, self._degrees, self._change = geometry, degrees, change

    def of(self, kind):
        if kind == "area":
            return [self._geometry.Area(), self._geometry.GeodesicArea()]
        if kind == "length":
            line = self._geometry.Boundary() if self._geometry.GetDimension() == 2 else self._geometry
            return [line.Length(), line.GeodesicLength()] if line is not None else [math.nan]
        middle = self._geometry.Centroid()
        if kind in ("lon", "lat"):
            middle.Transform(self._change)
        return [middle.GetX() if kind in ("x", "lon") else middle.GetY()]

    @property
    def dimension(self):
        return self._geometry.GetDimension()

    def near(self, kind):
        return NEAR[kind in ("lon", "lat") or self._degrees]


class LayerSample:
    """The first features of a layer: their shapes and the values of their fields."""

    def __init__(self, layer):
        crs = layer.GetSpatialRef()
        self.names = [one.GetName() for one in fields(layer.GetLayerDefn())]
        kinds = [one.GetType() for one in fields(layer.GetLayerDefn())]
        self.numeric = {name for name, kind in zip(self.names, kinds, strict=True) if kind in NUMBERS}
        self.rows, degrees = [], bool(crs and crs.IsGeographic())
        world = osr.SpatialReference(epsg=4326)
        change = crs and osr.CreateCoordinateTransformation(traditional(crs), traditional(world))
        for feature in itertools.islice(layer, MOST_FEATURES if change else 0):
            geometry = feature.GetGeometryRef()
            if geometry is not None and not geometry.IsEmpty():
                values = {name: feature.GetField(i) for i, name in enumerate(self.names)}
                self.rows.append((MeasuredGeometry(geometry.Clone(), degrees, change), values))
        layer.ResetReading()

    @property
    def dimensions(self):
        return {shape.dimension for shape, _ in self.rows}

    def pairs(self, name):
        return [(shape, float(values[name])) for shape, values in self.rows if values[name] is not None]


def field_checks(layer, sources):
    """Reports fields of an output whose values were measures of the input's geometries, and are not those of its own."""
    names = [one.GetName() for one in fields(layer.GetLayerDefn())]
    wanted = {name: kind for name in names if (kind := kind_of(name)) is not None}
    origins = {name: found for name in wanted if (found := origin_of(name, sources)) is not None}
    if not origins:
        return
    after, tables = LayerSample(layer), {}
    stale = []
    for name, (number, old_name) in origins.items():
        before = tables.setdefault(number, None) or LayerSample(sources[number])
        tables[number] = before
        both = old_name in before.numeric and name in after.numeric
        if both and is_stale(wanted[name], (before, old_name), (after, name)):
            stale.append(names.index(name))
    if stale:
        yield {"code": "fields_stale", "fields": stale}


def kind_of(name):
    """What a field measures, by its name; None if the name says nothing."""
    plain = without_prefix(name.lower())
    found = (kind for kind, pattern in MEASURES.items() if pattern.fullmatch(plain))
    return next(found, "count" if COUNT.fullmatch(plain) else None)


def without_prefix(name):
    return name.removeprefix("input_").removeprefix("method_")


def origin_of(name, sources):
    """The number of the source that a field comes from, and its name there; None if no source has it.

    `vector layer-algebra` prefixes the names of fields.
    """
    numbers = range(len(sources))
    for number in reversed(numbers) if name.startswith("method_") else numbers:
        own = {one.GetName() for one in fields(sources[number].GetLayerDefn())}
        for old_name in (name, without_prefix(name)):
            if old_name in own:
                return number, old_name
    return None


def is_stale(kind, old, new):
    """True if a field, as a table and a name, agreed with its geometries in the input and does not in the output."""
    (before, old_name), (after, name) = old, new
    # points and borders of polygons may have the areas of the polygons on purpose
    if kind not in COORDINATES and not after.dimensions <= before.dimensions:
        return False
    if kind == "count":
        return is_cut(before, after, name)
    were, are = before.pairs(old_name), after.pairs(name)
    for factor in FACTORS.get(kind, (1,)):
        close = sum(agrees(shape, value, kind, factor, CLOSE) for shape, value in were)
        if were and close >= AGREE * len(were) and agree(were, kind, factor):
            return not agree(are, kind, factor)
    return False


def agree(pairs, kind, factor):
    return all(agrees(shape, value, kind, factor, APART) for shape, value in pairs)


def agrees(shape, value, kind, factor, slack):
    if kind in FACTORS:
        return any(
            math.isclose(value, one * factor, rel_tol=slack, abs_tol=ROUNDED) for one in shape.of(kind)
        )
    return abs(value - shape.of(kind)[0]) <= shape.near(kind) * slack / CLOSE


def is_cut(before, after, name):
    """True if a feature with a count has only a part of the area or length that it had with the same values."""
    new_names = {without_prefix(one): one for one in after.names} | {one: one for one in after.names}
    common = [(one, new_names[one]) for one in before.names if one in new_names]
    whole = {}
    for shape, values in before.rows:
        whole.setdefault(tuple(values[one] for one, _ in common), []).append(size(shape))
    for shape, values in after.rows:
        sizes = whole.get(tuple(values[one] for _, one in common), ())
        if values[name] and len(sizes) == 1 and size(shape) < (1 - APART) * sizes[0]:
            return True
    return False


def size(shape):
    return shape.of("area")[1] or shape.of("length")[1]
