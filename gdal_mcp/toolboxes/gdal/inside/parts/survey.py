"""One pass over the features of a layer, limited in features and time, for facts that only the features show."""

import hashlib
import json
import re
import time
from datetime import UTC, datetime

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS, fields

MAX_FEATURES = 20_000  # features of a layer that is read completely
FIRST_FEATURES = 2_000  # features that are read of a larger layer
MAX_SECONDS = 1.5  # seconds of CPU time for all layers of a call together
MAX_FIELDS = 100
MANY_DIGITS = 16  # the number from which a double may not represent a whole number
MOST_GAPS = 2  # largest feature id per feature that can be explained by deleted features
TIMES = (ogr.OFTDate, ogr.OFTTime, ogr.OFTDateTime)
LISTS = (ogr.OFTIntegerList, ogr.OFTInteger64List, ogr.OFTRealList, ogr.OFTStringList)
OGR_LIST = re.compile(r"\(\d+:(.*)\)", re.DOTALL)
# bytes that are not UTF-8, as Python decodes them with surrogateescape
GARBLED = re.compile("[\udc80-\udcff]")
ZONED = re.compile(r"(.*[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d(?::?\d\d)?)")
OGR_TIME = re.compile(r"^(\d{4})/(\d\d)/(\d\d)")


class Clock:
    """The remaining CPU time for the surveys of a call, and the number of features that each survey may read.

    Only the surveys use up this time. CPU time is counted so that a busy machine examines as much as an idle one.
    """

    def __init__(self):
        self._left, self.features = MAX_SECONDS, MAX_FEATURES

    def limit(self, counts):
        """Reduces the number of features if a layer is large. `counts` are feature counts, or None if unknown.

        The same number is read from both layers of a pair.
        """
        if any((count or 0) > MAX_FEATURES for count in counts):
            self.features = FIRST_FEATURES

    def __enter__(self):
        self._from = time.thread_time()
        return self

    def __exit__(self, *_):
        self._left -= time.thread_time() - self._from

    @property
    def spent(self):
        """True if no time is left; for use between surveys."""
        return self._left <= 0

    @property
    def over(self):
        return time.thread_time() - self._from > self._left


HALF_TURN = 180.0  # degrees


class Column:
    """Counts and digests of the values of one field, independent of the order of features."""

    def __init__(self, kind):
        self.kind, self.nulls, self.digest, self.characters, self.garbled = kind, 0, 0, 0, 0
        self.largest = 0.0  # largest absolute value of the numbers with many digits
        self.zones, self.local = set(), 0  # of times: UTC offsets, and a digest of the local times

    def add(self, value):
        if value is None:
            self.nulls += 1
            return
        self.garbled += GARBLED.search(value) is not None
        self.digest = (self.digest + number_of(value)) % (1 << 64)
        self.characters += len(value)
        if self.kind in NUMBERS and len(value) >= MANY_DIGITS:
            self.largest = max(self.largest, size_of(value))

    def add_local(self, text):
        """Adds a time as it is written, with or without a time zone."""
        match = ZONED.fullmatch(text.strip())
        self.zones.add(match[2] if match else "")
        self.local = (self.local + number_of((match[1] if match else text).replace(" ", "T"))) % (1 << 64)


def size_of(text):
    """The absolute value of a number in a text; 0 if it is none, as in a format that stores everything as text."""
    try:
        return abs(float(text))
    except ValueError:
        return 0.0


def number_of(text):
    word = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(word, "big")


class Survey:
    """Facts about the features of a layer.

    `is_complete` is False if the limit ended the pass; the facts are then those of the first features.
    """

    def __init__(self, layer, clock, kinds=None, *, valid=False):
        own = [field.GetType() for field in fields(layer.GetLayerDefn(), MAX_FIELDS)]
        self.columns = [Column(kind) for kind in (kinds or own)]
        self.features = self.empty = self.invalid = self.checked = 0
        self.geometries, self.spans, self.is_complete = set(), [], True
        self.ids = []
        # west and east of each feature, or of each part of features wider than half of the earth, because those may be
        # cut at the antimeridian
        self.part_spans = []
        self.has_z = self.has_m = False
        self._edges = [0.0, 0.0, 0.0, 0.0]
        self._valid = valid
        layer.ResetReading()
        with clock:
            for feature in layer:
                if self.features == clock.features or clock.over:
                    self.is_complete = False
                    break
                self._add(feature, own)
        layer.ResetReading()

    def _add(self, feature, own):
        self.features += 1
        self.ids.append(feature.GetFID())
        for i, column in enumerate(self.columns[: len(own)]):
            column.add(value_of(feature, i, own[i], column.kind))
            if own[i] == ogr.OFTDateTime and feature.IsFieldSetAndNotNull(i):
                column.add_local(feature.GetFieldAsISO8601DateTime(i))
        geometry = feature.GetGeometryRef()
        if geometry is None or geometry.IsEmpty():
            self.empty += 1
            return
        kind = geometry.GetGeometryType()
        self.geometries.add(ogr.GT_Flatten(kind))
        self.has_z, self.has_m = self.has_z or bool(ogr.GT_HasZ(kind)), self.has_m or bool(ogr.GT_HasM(kind))
        west, east, south, north = geometry.GetEnvelope()
        self.spans.append((west, east))
        self.part_spans += spans_of_parts(geometry) if east - west > HALF_TURN else [(west, east)]
        self._edges = [a + b for a, b in zip(self._edges, (west, south, east, north), strict=True)]
        if self._valid and geometry.GetDimension() == 2:
            self.checked += 1
            self.invalid += not geometry.IsValid()

    @property
    def numbered(self):
        """True if the feature ids count the features from 0 or 1, with gaps where some were deleted.

        Ids with larger gaps may be keys that other data refers to.
        """
        return not self.ids or (min(self.ids) >= 0 and max(self.ids) <= MOST_GAPS * len(self.ids))

    @property
    def ids_digest(self):
        """The digest that a column with the feature ids would have."""
        column = Column(ogr.OFTInteger64)
        for number in self.ids:
            column.add(str(number))
        return column.digest

    @property
    def middle(self):
        """The mean west, south, east and north of the geometries; None if there are none."""
        count = len(self.spans)
        return [edge / count for edge in self._edges] if count else None


def value_of(feature, index, own, kind):
    """The value as a text that is the same in all formats that can store it; None for null and for an empty text.

    `own` is the type of the field in this layer, `kind` the type as which it is compared.
    """
    if not feature.IsFieldSetAndNotNull(index):
        return None
    if kind in NUMBERS:
        return number_text(feature, index, own)
    if kind in LISTS:
        return list_text(feature, index, own, kind)
    if kind in TIMES:
        zoned = own == ogr.OFTDateTime  # the ISO 8601 form exists only for this type
        text = feature.GetFieldAsISO8601DateTime(index) if zoned else feature.GetFieldAsString(index)
        spelled = OGR_TIME.sub(r"\1-\2-\3", text.strip())
        try:
            moment = datetime.fromisoformat(spelled)
            return (moment.astimezone(UTC) if moment.tzinfo else moment).isoformat()
        except (
            ValueError,
            OverflowError,
        ):  # unchanged; the last day of the calendar cannot be converted to another time zone
            return spelled or None
    return feature.GetFieldAsString(index) or None


def number_text(feature, index, own):
    """Whole numbers in full, others with ten digits, which every format for such numbers preserves."""
    if own in (ogr.OFTInteger, ogr.OFTInteger64):
        return str(feature.GetFieldAsInteger64(index))
    text = feature.GetFieldAsString(index)
    if own != ogr.OFTReal and text.removeprefix("-").isdecimal():
        return str(int(text))
    try:
        number = float(text) if own != ogr.OFTReal else feature.GetFieldAsDouble(index)
    except ValueError:
        return text
    return short_text(number)


def list_text(feature, index, own, kind):
    """A list as JSON. Formats without lists store it as JSON or as OGR's text, such as `(2:a,b)`."""
    text = feature.GetFieldAsString(index)
    values = feature.GetField(index) if own in LISTS else listed(text)
    return (
        json.dumps([item_text(value, kind) for value in values]) if isinstance(values, list) else text or None
    )


def listed(text):
    """The items of a list in a text; None if the text is not a list."""
    if match := OGR_LIST.fullmatch(text):
        return match[1].split(",")
    try:
        return json.loads(text)
    except ValueError:
        return None


def item_text(value, kind):
    """The text of a list's item: a number as in `number_text`, a text unchanged."""
    text = str(value)
    if kind == ogr.OFTStringList or text.removeprefix("-").isdecimal():
        return text
    try:
        return short_text(float(text))
    except ValueError:
        return text


def short_text(number):
    return str(int(number)) if number.is_integer() else f"{number:.10g}"


def spans_of_parts(geometry):
    parts = [geometry.GetGeometryRef(index) for index in range(geometry.GetGeometryCount())]
    several = ogr.GT_IsSubClassOf(geometry.GetGeometryType(), ogr.wkbGeometryCollection)
    return [part.GetEnvelope()[:2] for part in (parts if several else [geometry]) if not part.IsEmpty()]


def antimeridian_bbox(spans):
    """West and east of the smallest box around spans of longitude, with west > east; None if there is no such box.

    There is one if the spans lie on both sides of the antimeridian, and more than half of the earth is free.
    """
    if not spans or any(not -180 <= west <= east <= 180 for west, east in spans):
        return None
    ordered = sorted(spans)
    gap, reach, edges = 180.0, ordered[0][1], None  # more than half of the earth must be free
    for west, east in ordered[1:]:
        if west - reach > gap:
            gap, edges = west - reach, [west, reach]
        reach = max(reach, east)
    return edges
