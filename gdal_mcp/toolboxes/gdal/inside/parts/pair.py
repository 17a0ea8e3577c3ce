"""Compares a written layer with the layer it was made from."""

import re

from osgeo import ogr, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import in_degrees, traditional
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import skip
from gdal_mcp.toolboxes.gdal.inside.parts.survey import MAX_FIELDS, TIMES, Survey
from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS, fields

MANY_FEATURES = 1_000_000  # a larger layer is not counted just for a comparison
NEAR = 1e-8  # fraction of a coordinate: less than a centimetre
# degrees, or units of other CRSs; definitions of the same CRS differ by less
MIN_MOVED = {True: 1e-5, False: 1.0}
# formats whose types are guessed from the text, or missing
TEXT_ONLY = ("CSV", "GML", "GeoJSONSeq", "KML", "GPX")
FIXED = ("KML", "LIBKML", "GPX", "DXF")  # formats that add their own fields
TILES = ("MVT", "PMTiles", "MBTiles")  # formats that cut features into pieces
SHEETS = ("XLSX", "ODS")  # formats whose first row is read as names or as values, depending on its content
UNTITLED = re.compile(r"Field\d+")
INTEGER_TYPES = {ogr.OFTInteger, ogr.OFTInteger64}


class Pair:
    """A written layer and its source.

    `places` has the index in the layer of each field of the source; None for a missing field.
    """

    def __init__(self, layer, source, driver, clock, keeps):
        self.layer, self.source, self.driver, self.keeps = layer, source, driver, keeps
        self.own, self.theirs = layer.GetLayerDefn(), source.GetLayerDefn()
        self.types = [field.GetType() for field in fields(self.theirs, MAX_FIELDS)]
        self.places = matched(self.own, self.theirs, new="values" in keeps and driver not in FIXED)
        self.resolved = set(resolved_domains(self.own, self.theirs, self.places))
        kinds = [field.GetType() for field in fields(self.own, MAX_FIELDS)]
        for place, kind in zip(self.places, self.types, strict=True):
            if place is not None and place < len(kinds):
                kinds[place] = kind  # both are compared as the type of the source
        self.after = Survey(layer, clock, kinds, valid=True)
        self.before = Survey(source, clock)

    def checks(self):
        names, theirs = ([field.GetName() for field in fields(each)] for each in (self.own, self.theirs))
        if self.driver in SHEETS and names != theirs and all(map(UNTITLED.fullmatch, names)):
            yield {"code": "header_as_row"}
            return
        if "features" in self.keeps and self.driver not in TILES:
            yield from self._features()
        yield from self._fields()
        if "added" in self.keeps and self.before.spans and self._moved():
            yield {"code": "crs_mismatch"}
        if self.driver in TILES or not (self.before.is_complete and self.after.is_complete):
            return
        if "values" in self.keeps:
            yield from self._dimensions()
        if self.before.features != self.after.features:
            return
        if "values" in self.keeps:
            yield from self._values()
        if "coordinates" in self.keeps and "rounded" not in self.keeps:
            yield from self._coordinates()

    def _fields(self):
        # a field may have become the id of the features, as GeoPackage does with `fid` and `id`
        own_id = (self.layer.GetFIDColumn() or "").casefold()
        missing = (self.theirs.GetFieldDefn(i) for i, place in enumerate(self.places) if place is None)
        lost = sum(field.GetName().casefold() != own_id for field in missing)
        if lost:
            yield {"code": "fields_lost", "count": lost, "of": len(self.places)}
        changed = [
            place
            for place, kind in zip(self.places, self.types, strict=True)
            if place is not None
            and (own := self.own.GetFieldDefn(place).GetType()) != kind
            and not {own, kind} <= INTEGER_TYPES
            and place not in self.resolved
        ]
        if changed and self.driver not in TEXT_ONLY:
            yield {"code": "field_type_changed", "fields": changed}
        names = [(self.theirs.GetFieldDefn(i).GetName(), place) for i, place in enumerate(self.places)]
        renamed = [
            place
            for name, place in names
            if place is not None and self.own.GetFieldDefn(place).GetName() not in (name, f"ogr_{name}")
        ]
        if renamed and self.driver not in FIXED:
            yield {"code": "field_name_cut", "fields": renamed}

    def _features(self):
        """Compares the feature counts, unless counting would read a very large layer."""
        quick = self.source.TestCapability(ogr.OLCFastFeatureCount)
        if not quick and self.layer.GetFeatureCount() > MANY_FEATURES:
            skip("features_lost")
            return
        were, are = self.source.GetFeatureCount(), self.layer.GetFeatureCount()
        if self.before.is_complete and self.before.features < were:
            were = self.before.features  # a count that is stored in the file may be stale
        if 0 <= are < were:
            yield {"code": "features_lost", "count": were - are, "of": were}
        elif 0 <= were < are:
            yield {"code": "features_added", "count": are - were, "of": were}

    def _dimensions(self):
        """Reports lost geometries, heights and measures. GPX has heights in a field."""
        if self.before.spans and not self.after.spans and self.own.GetFieldCount() <= len(self.places):
            yield {"code": "geometry_left_out"}  # no column contains the geometry either
        if not (self.before.spans and self.after.spans):
            return
        if self.before.has_z and not self.after.has_z and self.driver != "GPX":
            yield {"code": "z_lost"}
        if self.before.has_m and not self.after.has_m:
            yield {"code": "m_lost"}

    def _values(self):
        """Reports fields whose values differ from those of the source, by the kind of change."""
        changes = {}
        for old, place in zip(self.before.columns, self.places, strict=False):
            compared = place is not None and place < MAX_FIELDS and place not in self.resolved
            new = self.after.columns[place] if compared else None
            # a sheet has no time zones; if all times have the same zone, only its name is lost
            same_clock = (
                self.driver in SHEETS and len(old.zones) == 1 and old.local == new.local if new else False
            )
            if new is not None and not same_clock and (old.digest, old.nulls) != (new.digest, new.nulls):
                changes.setdefault(what_happened(old, new), []).append(place)
        yield from ({"code": code, "fields": places} for code, places in changes.items())
        # a shapefile stores empty texts and NULL in one way
        blanks = sum(column.blank for column in self.before.columns if 0 < column.blank < column.nulls)
        if self.driver == "ESRI Shapefile" and blanks:
            yield {"code": "empty_texts_lost", "count": blanks}

    def ids(self):
        """Reports lost feature ids: the layer has them neither as ids nor as a field, and they do more than count
        features.
        """
        before, after = self.before, self.after
        compared = before.is_complete and after.is_complete and before.features == after.features
        # a GML id is a name that contains the number, and it is a field
        if (
            not compared
            or before.numbered
            or is_sheet(self.source)
            or self.theirs.GetFieldIndex("gml_id") >= 0
        ):
            return
        digests = (after.ids_digest, *(column.digest for column in after.columns))
        if "values" in self.keeps and before.ids_digest not in digests:
            yield {"code": "fids_lost", "count": before.features}

    def _coordinates(self):
        """Reports coordinates that changed without a transformation, or did not change although the CRS did."""
        if not self.before.spans or len(self.before.spans) != len(self.after.spans):
            return
        gap = max(abs(a - b) for a, b in zip(self.before.middle, self.after.middle, strict=True))
        moved = self._moved()
        same = gap <= NEAR * max(1.0, *map(abs, self.before.middle))
        if moved and same:
            yield {"code": "crs_changed", "units": moved}
        elif not moved and not same:
            yield {"code": "coordinates_changed", "units": gap}

    def _moved(self):
        """The distance by which a transformation to the layer's CRS moves the source's coordinates; 0 for the same
        CRS.
        """
        theirs, own = self.source.GetSpatialRef(), self.layer.GetSpatialRef()
        if theirs is None or own is None or theirs.IsSame(own):
            return 0
        change = osr.CreateCoordinateTransformation(traditional(theirs), traditional(own))
        west, south, *_ = self.before.middle
        there = change.TransformPoint(west, south) if change else (west, south)
        far = max(abs(there[0] - west), abs(there[1] - south))
        return far if far > MIN_MOVED[in_degrees(own)] else 0


def is_sheet(layer):
    """True if feature ids are row numbers of a spreadsheet."""
    dataset = layer.GetDataset()
    return dataset is not None and dataset.GetDriver().ShortName in SHEETS


def resolved_domains(own, theirs, places):
    """Yields the indexes of fields whose codes GDAL may have replaced with their meanings."""
    for old, place in zip(fields(theirs, MAX_FIELDS), places, strict=True):
        if place is not None and old.GetDomainName() and not own.GetFieldDefn(place).GetDomainName():
            yield place


def matched(own, theirs, *, new):
    """The index in the layer of each field of the source, by name; None for a missing field.

    If a new layer has the same number of fields, different names were changed for the format, and the order is that
    of the source.
    """
    names, here = ([field.GetName().casefold() for field in fields(each)] for each in (theirs, own))
    if new and len(here) == len(names) and set(here) != set(names):
        return list(range(min(len(names), MAX_FIELDS)))
    # GPX adds the prefix
    indexes = {name.removeprefix("ogr_"): i for i, name in reversed(list(enumerate(here)))}
    indexes |= {name: i for i, name in reversed(list(enumerate(here)))}
    return [indexes.get(name) for name in names[:MAX_FIELDS]]


def what_happened(old, new):
    """The code of the change in a field whose values differ from the source."""
    if new.nulls < old.nulls:
        return "nulls_replaced"
    if old.kind in NUMBERS:
        return "value_lost"
    if old.kind in TIMES:
        return "time_changed"
    return "text_cut" if new.characters < old.characters else "text_changed"
