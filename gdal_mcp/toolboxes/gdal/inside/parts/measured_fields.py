"""Reports fields that still contain areas, lengths, coordinates or counts of the input's geometries.

When a command cuts, moves or merges the geometry of a feature, GDAL copies its fields unchanged. A field is judged by
its name and its values: in the input, they must have agreed with the geometries, up to a factor for the unit.
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
# factors from square metres and metres, or a CRS's own units, to the units that fields use
FACTORS = {
    "area": (1, 1e-2, 1e-4, 1e-6, 1 / 4046.8564224, 1 / 0.09290304, 1 / 2589988.110336),
    "length": (1, 1e-3, 1 / 0.3048, 1 / 1609.344),
}
COORDINATES = ("x", "y", "lon", "lat")
CLOSE = 0.01  # largest fraction by which a field of the input may differ from its geometry
DIFFERENT_SHARE = 0.03  # fraction from which a field of the output counts as different from its geometry
NEAR = {True: 1e-4, False: 1.0}  # tolerance of coordinates: degrees, or units of another CRS
ROUNDED = 0.006  # difference that rounding to two decimals can make
AGREE = 0.9  # fraction of the input's features that must be within CLOSE; all must be within APART


class MeasuredGeometry:
    """A geometry and its measures by name.

    An area or a length has two values, on the map and on the ellipsoid.
    """

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
        self.names = [field.GetName() for field in fields(layer.GetLayerDefn())]
        kinds = [field.GetType() for field in fields(layer.GetLayerDefn())]
        self.numeric = {name for name, kind in zip(self.names, kinds, strict=True) if kind in NUMBERS}
        self.rows, degrees = [], bool(crs and crs.IsGeographic())
        self.degrees = degrees
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
    """Reports fields of an output that agree with the input's geometries and not with those of the output."""
    names = [field.GetName() for field in fields(layer.GetLayerDefn())]
    wanted = {name: kind for name in names if (kind := kind_of(name)) is not None}
    origins = {name: origin for name in wanted if (origin := origin_of(name, sources)) is not None}
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
    """The kind of measure that the name of a field stands for; None if it stands for none."""
    plain = without_prefix(name.lower())
    kinds = (kind for kind, pattern in MEASURES.items() if pattern.fullmatch(plain))
    return next(kinds, "count" if COUNT.fullmatch(plain) else None)


def without_prefix(name):
    return name.removeprefix("input_").removeprefix("method_")


def origin_of(name, sources):
    """The number of the source that a field comes from, and the field's name there; None if no source has it.

    `vector layer-algebra` prefixes the names of fields.
    """
    numbers = range(len(sources))
    for number in reversed(numbers) if name.startswith("method_") else numbers:
        own = {field.GetName() for field in fields(sources[number].GetLayerDefn())}
        for old_name in (name, without_prefix(name)):
            if old_name in own:
                return number, old_name
    return None


def is_stale(kind, old, new):
    """True if a field agreed with its geometries in the input and does not in the output.

    `old` and `new` are pairs of a table and the name of the field in it.
    """
    (before, old_name), (after, name) = old, new
    # points and borders of polygons may have the areas of the polygons intentionally
    if kind not in COORDINATES and not after.dimensions <= before.dimensions:
        return False
    if kind == "count":
        return has_cut_features(before, after, name)
    were, are = before.pairs(old_name), after.pairs(name)
    for factor in FACTORS.get(kind, (1,)):
        close = sum(agrees(shape, value, kind, factor, CLOSE) for shape, value in were)
        if were and close >= AGREE * len(were) and agree(were, kind, factor):
            return not agree(are, kind, factor)
    return False


def agree(pairs, kind, factor):
    return all(agrees(shape, value, kind, factor, DIFFERENT_SHARE) for shape, value in pairs)


def agrees(shape, value, kind, factor, slack):
    if kind in FACTORS:
        return any(
            math.isclose(value, measure * factor, rel_tol=slack, abs_tol=ROUNDED)
            for measure in shape.of(kind)
        )
    return abs(value - shape.of(kind)[0]) <= shape.near(kind) * slack / CLOSE


def has_cut_features(before, after, name):
    """True if a feature kept its count and other values although its area or length became smaller."""
    new_names = {without_prefix(new): new for new in after.names} | {new: new for new in after.names}
    common = [(old, new_names[old]) for old in before.names if old in new_names]
    shapes_before = {}
    for shape, values in before.rows:
        shapes_before.setdefault(tuple(values[old] for old, _ in common), []).append(shape)
    for shape, values in after.rows:
        shapes = shapes_before.get(tuple(values[new] for _, new in common), ())
        if values[name] and len(shapes) == 1 and is_part(shape, shapes[0], before.degrees == after.degrees):
            return True
    return False


def is_part(shape, origin, same_units):
    """True if a geometry is smaller than its origin: on the ellipsoid, and also on the map if both have the same units.

    Exchanged axes change only the size on the ellipsoid.
    """
    if not origin.dimension:
        return False  # GDAL's area of a point on the ellipsoid is -1
    kind = "area" if origin.of("area")[1] else "length"
    smaller = [
        part < (1 - DIFFERENT_SHARE) * all_of_it
        for part, all_of_it in zip(shape.of(kind), origin.of(kind), strict=True)
    ]
    return all(smaller) if same_units else smaller[1]
