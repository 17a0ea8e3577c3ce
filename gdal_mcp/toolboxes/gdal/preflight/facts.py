"""Facts about datasets, from the descriptions of containers. The server itself opens no dataset.

A container's answer is not trusted: each fact must pass the rule for its key, and impossible numbers are left out.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from gdal_mcp.remote.places import Remote
from gdal_mcp.toolboxes.gdal.answers import transformations
from gdal_mcp.toolboxes.gdal.answers.described import LOOK, value_range
from gdal_mcp.toolboxes.gdal.answers.described import facts as known_facts
from gdal_mcp.toolboxes.gdal.answers.words import Box as BoxList
from gdal_mcp.toolboxes.gdal.answers.words import Flag, many, shape, valid_parts
from sandbox.workspace import WorkspacePath

Box: TypeAlias = tuple[float, float, float, float]  # west, south, east, north, in the CRS of the context

# bytes per value, by GDAL's names of data types; UInt8 is the name of Byte on the command line
TYPE_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("Byte", "UInt8", "Int8"), 1),
    **dict.fromkeys(("UInt16", "Int16", "Float16"), 2),
    **dict.fromkeys(("UInt32", "Int32", "Float32", "CInt16", "CFloat16"), 4),
    **dict.fromkeys(("UInt64", "Int64", "Float64", "CInt32", "CFloat32"), 8),
    "CFloat64": 16,
}
# lowest and highest value; a type that is not listed has no limits here
TYPE_RANGE: Final[Mapping[str, tuple[int, int]]] = {
    "Byte": (0, 255),
    **{f"UInt{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
}
# drivers whose datasets are one file with its sidecar files; datasets of other drivers may refer to files anywhere,
# such as the sources of a VRT
SELF_CONTAINED: Final = frozenset(
    "GTiff COG LIBERTIFF AAIGrid XYZ ENVI EHdr SAGA HFA RST PCIDSK netCDF PNG JPEG JPEGXL WEBP GIF BMP JP2OpenJPEG DTED SRTMHGT USGSDEM "
    "GPKG SQLite MBTiles PMTiles CSV GeoJSON GeoJSONSeq TopoJSON FlatGeobuf Parquet Arrow KML LIBKML GPX DXF XLSX ODS OpenFileGDB".split()
) | {"ESRI Shapefile", "MapInfo File"}
_MAX_SIDE: Final = (1 << 31) - 1
_MAX: Final = 1e308  # limit of a coordinate
_KINDS: Final = "number_texts mixed_texts comma_texts long_texts rounded_keys date_texts unit_texts geometry_texts number_fields layer_names".split()
_Name = Annotated[str, Field(strict=True, max_length=64)]
_Names = Annotated[list[_Name], Field(max_length=200)]
_COLUMNS: Final = shape(**dict.fromkeys(_KINDS, many(_Name, 20)))
# a missing column would also be missing in the checks, so a list with an invalid name is invalid
_SCHEMA: Final = shape(layer=_Names, fields=_Names, geometries=_Names, feature_id=_Name)
_PLACE: Final = shape(degrees=Flag, extent=BoxList)
_HALF: Final = 180.0  # degrees
_MAX_CRS: Final = 16  # number of CRSs for which the extent of one file is stored


@dataclass(frozen=True, slots=True)
class CrsExtent:
    """The extent of the data in a CRS that a call names, and whether that CRS is in degrees.

    `known` is False if PROJ does not know the CRS.
    """

    degrees: bool | None = None
    extent: Box | None = None  # the east is beyond 180 if the data crosses the antimeridian
    crosses: bool = False  # True if the data crosses the antimeridian
    known: bool = True


@dataclass(frozen=True, slots=True)
class LayerSchema:
    """The names in the only layer of a dataset, for comparison with a call. They are never shown."""

    layer: str
    fields: tuple[str, ...]  # all fields
    geometries: tuple[str, ...] = ()  # geometry columns; a name may be empty
    # True: at most one geometry column, and `geometries` are its possible names
    is_predicted: bool = False
    feature_id: str = ""  # name of the column of feature ids, which is not a field; "" if it has no name

    @property
    def columns(self) -> frozenset[str]:
        """The names of the fields and of the column of feature ids, in lower case."""
        return frozenset(name.lower() for name in (*self.fields, self.feature_id) if name)


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A raster or a vector dataset. None and "" mean unknown, not absent, unless stated otherwise."""

    driver: str  # GDAL's short name; "" if the catalogue does not have it
    kind: Literal["raster", "vector"]
    disk_bytes: int = 0
    width: int = 0  # pixels
    height: int = 0
    bands: int = 0
    data_type: str = ""  # GDAL's name of the data type of the first band
    nodata: float | None = None
    values: tuple[float, float] | None = None  # lowest and highest value, if requested
    rotated: bool = False  # True if pixel rows do not run from west to east
    control_points: bool = False  # True if it has GCPs
    value_unit: str = ""  # unit of the values of the first band, such as metre or foot; "" if unknown
    scaled: bool = False  # True if pixel values have a scale or an offset
    crs: str | None = None  # AUTHORITY:CODE
    has_crs: bool | None = None  # False: the dataset has no CRS
    unit_metres: float | None = None  # metres per unit of a CRS that is not in metres, such as feet
    degrees: bool | None = None  # True if coordinates are longitude and latitude in degrees
    extent: Box | None = None
    # pixel width and height if the raster is rotated, in CRS units
    tilted: tuple[float, float] | None = None
    compression: str = ""  # value of GDAL's creation option; NONE is uncompressed
    features: int | None = None  # number in all layers
    fields: int = 0  # number in the widest layer
    # columns of the first layer by kind, for comparison with a call and never shown. Kinds of text columns: numbers
    # (`number_texts`), mostly numbers (`mixed_texts`), decimal commas, values with more digits than a type can store,
    # local dates, numbers with a unit, WKT. `number_fields` are columns of numeric types; `layer_names` are all layers
    # if there are several
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    schema: LayerSchema | None = None  # the schema of the only layer; None if there are several layers
    # GDAL's name of the type; a predicted type does not distinguish single and multi geometries, and Z and M are certain
    # only if it names them
    geometry: str = ""
    # extents by CRS, which is spelled as in calls
    crs_extents: Mapping[str, CrsExtent] = field(default_factory=dict)
    # changes of CRS by `transformations.key`, in the form of `answers.transformations`; None if the call changes
    # nothing
    changes: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    looks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # results of pixel probes by name
    bands_estimated: bool = False  # True if the number of bands is not certain

    @property
    def pixels(self) -> int:
        return self.width * self.height

    @property
    def raw_bytes(self) -> int:
        """The size of the pixels of all bands in bytes, uncompressed."""
        return self.pixels * self.bands * TYPE_BYTES.get(self.data_type, 1)

    @property
    def pixel_size(self) -> tuple[float, float] | None:
        """The width and height of a pixel in units of the CRS; None without an extent."""
        if self.extent is None or not self.pixels:
            return None
        if self.tilted is not None:
            return self.tilted
        west, south, east, north = self.extent
        size = (east - west) / self.width, (north - south) / self.height
        return size if min(size) > 0 else None

    def named(self, crs: str) -> tuple[CrsExtent, ...]:
        """The descriptions of the CRS with this text, with and without the extent."""
        return tuple(self.crs_extents[text] for text in (crs, f"?{crs}") if text in self.crs_extents)

    def extent_in(self, crs: str | None) -> Box | None:
        """The extent in a CRS that the call names; None if unknown."""
        if crs is None or self.crs is None:
            return None
        if crs.strip().upper() == self.crs.upper():
            return self.extent
        return self.crs_extents[crs].extent if crs in self.crs_extents else None


def facts_of(description: Any, disk_bytes: int = 0) -> DatasetFacts | None:
    """The facts from a worker's description; None if it describes neither a raster nor a layer.

    A description has `facts` as for an output, and `elsewhere` by CRS.
    """
    row = description if isinstance(description, Mapping) else {}
    facts = known_facts(row.get("facts"))  # values of invalid types are None or left out
    common: dict[str, Any] = {
        "driver": facts.get("driver") or "",
        "disk_bytes": disk_bytes,
        "crs_extents": {name: _place(place) for name, place in _mapping(row.get("elsewhere")).items()},
        "changes": {
            name: transformations.known(change) for name, change in _mapping(row.get("changes")).items()
        },
        "looks": {name: valid_parts(LOOK, look) for name, look in _mapping(row.get("looks")).items()},
    }
    size, layers = facts.get("size"), [layer for layer in facts.get("layers") or () if layer]
    if size and all(1 <= side <= _MAX_SIDE for side in size):
        return _raster(facts, common)
    return _vector(facts, layers, _mapping(row.get("columns")), common) if layers else None


def _raster(facts: Mapping[str, Any], common: Mapping[str, Any]) -> DatasetFacts:
    first: Mapping[str, Any] = (facts.get("bands") or ({},))[0] or {}
    nodata, values = first.get("nodata"), value_range(facts)
    return DatasetFacts(
        kind="raster",
        width=facts["size"][0],
        height=facts["size"][1],
        bands=facts.get("band_count") or 1,
        bands_estimated=not facts.get("band_count"),
        data_type=first["type"] if first.get("type") in TYPE_BYTES else "",
        nodata=None if nodata is None else float(nodata),
        values=(values[0], values[1]) if values else None,
        rotated=facts.get("rotated") is True,
        control_points=bool(facts.get("gcps")),
        value_unit=first.get("unit") or "",
        scaled="scale" in first or "offset" in first,
        compression=(facts.get("compression") or "").upper(),
        extent=_box(facts.get("extent")),
        tilted=_tilted(facts),
        **_crs(facts),
        **common,
    )


def _vector(
    facts: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Any],
    common: Mapping[str, Any],
) -> DatasetFacts:
    counts = [count for layer in layers if (count := layer.get("features")) is not None]
    boxes = [_box(layer.get("extent")) for layer in layers]
    # otherwise no extent covers all layers
    is_same_crs = all(_crs(layer) == _crs(layers[0]) for layer in layers)
    return DatasetFacts(
        kind="vector",
        features=sum(counts) if len(counts) == len(layers) == facts.get("layer_count") else None,
        fields=max(layer.get("field_count") or 0 for layer in layers),
        geometry=layers[0].get("geometry") or "",
        schema=_schema(columns) if len(layers) == facts.get("layer_count") == 1 else None,
        columns=_columns(columns),
        extent=union_extent([box for box in boxes if box]) if is_same_crs and None not in boxes else None,
        **(_crs(layers[0]) if is_same_crs else {}),
        **common,
    )


def _schema(columns: Mapping[str, Any]) -> LayerSchema | None:
    """The schema of a layer; None unless every name is a short text."""
    known = valid_parts(_SCHEMA, columns)
    layer, fields, geometries = (known.get(key) for key in ("layer", "fields", "geometries"))
    if fields is None or geometries is None or not layer or len(layer) > 1:
        return None
    return LayerSchema(layer[0], tuple(fields), tuple(geometries), feature_id=known.get("feature_id") or "")


def _columns(columns: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    known = valid_parts(_COLUMNS, columns)
    return {key: tuple(filter(None, names)) for key, names in known.items() if names is not None}


def _place(value: Any) -> CrsExtent:
    """The extent of the data in one CRS. The worker's value is None for a CRS that PROJ does not know."""
    place = valid_parts(_PLACE, value)
    degrees, numbers = place.get("degrees"), place.get("extent")
    box = _box(numbers)
    if box is None and degrees and numbers:
        # PROJ returns a west greater than the east for data across the antimeridian
        box = _box([numbers[0], numbers[1], numbers[2] + 360, numbers[3]])
        return CrsExtent(degrees, box, box is not None and box[2] - box[0] < _HALF)
    return CrsExtent(degrees, box, known=value is not None)


def _tilted(facts: Mapping[str, Any]) -> tuple[float, float] | None:
    sides = facts.get("pixel_size")
    return (sides[0], sides[1]) if facts.get("rotated") and sides and min(sides) > 0 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return dict(list(value.items())[:_MAX_CRS]) if isinstance(value, Mapping) else {}


def _crs(facts: Mapping[str, Any]) -> dict[str, Any]:
    crs = facts.get("crs")
    if crs is None:
        return {"has_crs": False} if "crs" in facts else {}
    unit = {"unit_metres": crs["unit_metres"]} if crs.get("unit_metres") else {}
    return {"crs": crs.get("code"), "has_crs": True, "degrees": crs.get("degrees"), **unit}


def union_extent(boxes: Sequence[Box]) -> Box | None:
    """The smallest box that contains all boxes; None without boxes."""
    if not boxes:
        return None
    west, south, east, north = zip(*boxes, strict=True)
    return min(west), min(south), max(east), max(north)


def _box(numbers: Sequence[float] | None) -> Box | None:
    """A box (west, south, east, north); None if there is none, or if it is impossible."""
    west, south, east, north = numbers or (0, 0, -1, 0)
    possible = -_MAX < west <= east < _MAX and -_MAX < south <= north < _MAX
    return (west, south, east, north) if possible else None


@dataclass(slots=True)
class FactsCache:
    """The facts of the most recently used files. Thread-safe.

    A file that was changed or replaced has another identity, so it has no facts here.
    """

    size: int = 4096  # files; as many as a call can name, in less than 2 MB of memory
    _facts: OrderedDict[Hashable, DatasetFacts | None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @staticmethod
    def _key(located: WorkspacePath) -> Hashable:
        """The key of a file; None if it cannot be distinguished from another file at the same path."""
        if isinstance(located, Remote):
            # the address includes its secrets, so callers without them get no facts
            return (located.address, located.period)
        return located.identity and (str(located), located.identity)

    def get(self, located: WorkspacePath) -> DatasetFacts | None:
        """The facts of a file; None if it was not described or could not be."""
        with self._lock:
            if (key := self._key(located)) in self._facts:
                self._facts.move_to_end(key)
            return self._facts.get(key)

    def knows(self, located: WorkspacePath, *name_groups: Sequence[str]) -> bool:
        """True if a file was described, and with all of these CRSs, changes of CRS and pixel probes."""
        facts = self.get(located)
        if facts is None or not name_groups:
            return self._key(located) in self._facts
        known = (facts.crs_extents, facts.changes, facts.looks)
        return all(
            described.keys() >= set(names) for described, names in zip(known, name_groups, strict=True)
        )

    def forget(self, located: WorkspacePath) -> None:
        """Makes the facts of a file unknown."""
        with self._lock:
            self._facts.pop(self._key(located), None)

    def put(self, located: WorkspacePath, facts: DatasetFacts | None) -> None:
        """Stores the facts of a file, or None if it could not be described.

        `located` must have the identity of the file that was described.
        """
        if (key := self._key(located)) is None:
            return
        with self._lock:
            before = self._facts.pop(key, None)
            if before is not None and facts is not None:
                merged: dict[str, Any] = {}
                for name in ("crs_extents", "changes", "looks"):
                    both = {**getattr(before, name), **getattr(facts, name)}
                    merged[name] = dict(list(both.items())[-_MAX_CRS:])  # the newest
                facts = replace(facts, **merged)
            self._facts[key] = facts
            while len(self._facts) > self.size:
                self._facts.popitem(last=False)
