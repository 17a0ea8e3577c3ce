"""A layer that was written beside the one that it was made of, of which it must hold something."""

from osgeo import ogr

from gdal_mcp.gdal.inside.parts.survey import MAX_FIELDS, NUMBERS, TIMES, Survey

MANY_FEATURES = 1_000_000  # more are not counted for a comparison alone
NEAR = 1e-8  # of a coordinate: less than a centimetre
TEXT_ONLY = ("CSV", "GML", "GeoJSONSeq")  # whose types are told by the text, or not at all
OWN_FIELDS = ("KML", "LIBKML", "GPX", "DXF", "PDF")  # that GDAL reads otherwise than it writes them
# which cut features into pieces, or whose first row is read as names or as values, as it looks
NO_PAIR = ("MVT", "PMTiles", "MBTiles", "XLSX", "ODS")
WHOLE = (ogr.OFTInteger, ogr.OFTInteger64)


class Pair:
    """`places` has the place of each field of the source in the layer; None for one that is not there."""

    def __init__(self, layer, source, driver, origin):
        self.layer, self.source, self.driver = layer, source, driver
        self.keeps, clock = origin.expected, origin.clock
        self.own, self.theirs = layer.GetLayerDefn(), source.GetLayerDefn()
        self.types = [
            self.theirs.GetFieldDefn(i).GetType() for i in range(min(self.theirs.GetFieldCount(), MAX_FIELDS))
        ]
        self.places = matched(self.own, self.theirs, new="values" in self.keeps)
        kinds = [self.own.GetFieldDefn(i).GetType() for i in range(min(self.own.GetFieldCount(), MAX_FIELDS))]
        for place, kind in zip(self.places, self.types, strict=True):
            if place is not None and place < len(kinds):
                kinds[place] = kind  # both are compared as what the source has
        self.after = Survey(layer, clock, kinds, valid=True)
        self.before = Survey(source, clock)

    def checks(self):
        if self.driver in NO_PAIR:
            return
        if "features" in self.keeps:
            yield from self._features()
        if self.driver in OWN_FIELDS:
            return
        yield from self._fields()
        if not (self.before.whole and self.after.whole and self.before.features == self.after.features):
            return
        if "values" in self.keeps:
            yield from self._values()
        if "coordinates" in self.keeps:
            yield from self._coordinates()

    def _fields(self):
        lost = sum(
            place is None and not is_id(self.layer, self.theirs.GetFieldDefn(i))
            for i, place in enumerate(self.places)
        )
        if lost:
            yield {"code": "fields_lost", "count": lost, "of": len(self.places)}
        changed = [
            place
            for place, kind in zip(self.places, self.types, strict=True)
            if place is not None and not alike(self.own.GetFieldDefn(place).GetType(), kind)
        ]
        if changed and self.driver not in TEXT_ONLY:
            yield {"code": "field_type_changed", "fields": changed}

    def _features(self):
        """Both are counted by the format, where it has the number at hand or there are not too many."""
        quick = self.source.TestCapability(ogr.OLCFastFeatureCount)
        if not quick and self.layer.GetFeatureCount() > MANY_FEATURES:
            return
        were, are = self.source.GetFeatureCount(), self.layer.GetFeatureCount()
        if 0 <= are < were:
            yield {"code": "features_lost", "count": were - are, "of": were}
        elif 0 <= were < are:
            yield {"code": "features_added", "count": are - were, "of": were}

    def _values(self):
        """Fields whose values are not those of the source, by what happened to them."""
        found = {}
        for old, place in zip(self.before.columns, self.places, strict=False):
            new = self.after.columns[place] if place is not None and place < MAX_FIELDS else None
            if new is not None and (old.digest, old.nulls) != (new.digest, new.nulls):
                found.setdefault(what_happened(old, new), []).append(place)
        yield from ({"code": code, "fields": places} for code, places in found.items())

    def _coordinates(self):
        if not self.before.spans or len(self.before.spans) != len(self.after.spans):
            return
        gap = max(abs(a - b) for a, b in zip(self.before.middle, self.after.middle, strict=True))
        if gap > NEAR * max(1.0, *map(abs, self.before.middle)):
            yield {"code": "coordinates_changed", "units": gap}


def matched(own, theirs, *, new):
    """By name. In a new layer with as many fields, names that differ were changed for the format, and the order is the source's."""
    names = [theirs.GetFieldDefn(i).GetName().casefold() for i in range(theirs.GetFieldCount())]
    here = [own.GetFieldDefn(i).GetName().casefold() for i in range(own.GetFieldCount())]
    if new and len(here) == len(names):
        return list(range(min(len(names), MAX_FIELDS)))
    found = {name: i for i, name in reversed(list(enumerate(here)))}
    return [found.get(name) for name in names[:MAX_FIELDS]]


def is_id(layer, field):
    """Whether the values of a field became the ids of the features, as GeoPackage does with `fid` and `id`."""
    return field.GetName().casefold() == (layer.GetFIDColumn() or "").casefold()


def alike(one, other):
    return one == other or (one in WHOLE and other in WHOLE)


def what_happened(old, new):
    """To the values of a field that are not those of the source."""
    if new.nulls < old.nulls:
        return "nulls_replaced"
    if old.kind in NUMBERS:
        return "value_lost"
    if old.kind in TIMES:
        return "time_changed"
    return "text_cut" if new.characters < old.characters else "text_changed"
