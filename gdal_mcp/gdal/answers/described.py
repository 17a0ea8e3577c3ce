"""What the container says of datasets, as what a caller may be told. Pure.

The container may say anything: whatever took it over writes its last words. Invariants:
* `facts` hold numbers, switches and GDAL's own words only, under known keys; anything else is left out;
* `names` hold text from inside files, cleaned and capped, in the order of the facts;
* a check is one of our codes with our words (`checks`).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError, WrapValidator
from typing_extensions import TypedDict

from gdal_mcp.gdal.answers.checks import checks
from gdal_mcp.gdal.answers.words import (
    Box,
    Color,
    Compression,
    Count,
    CrsCode,
    DataType,
    DimensionKind,
    Driver,
    FieldType,
    Geometry,
    Item,
    Kept,
    Number,
    Pair,
    Real,
    Shape,
    Switch,
    adapter,
    at_most,
    field_type,
)
from gdal_mcp.toolbox import Described
from gdal_mcp.untrusted import clean_text

NAME_CHARACTERS: Final = 200
# keys that say what a dataset has besides; left out where it has none
_WHERE_THERE_ARE: Final = frozenset(
    "overviews compression crs extent wgs84 rotated gcps subdatasets band_count layer_count".split()
)


def described(final: Mapping[str, Any], expected: int) -> tuple[Described, ...]:
    """One for each of the `expected` outputs of a job, in order; empty ones where the container said nothing sensible."""
    said = final.get("outputs")
    given = said[:expected] if isinstance(said, list) else []
    parts = [one if isinstance(one, dict) else {} for one in given]
    parts += [{}] * (expected - len(parts))
    return tuple(_described(one) for one in parts)


def _described(row: Mapping[str, Any]) -> Described:
    found, before = facts(row.get("facts")), facts(row.get("before"))
    return Described(
        found, names(row.get("names")), checks(row.get("checks")), amounts(found), amounts(before)
    )


def amounts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """How much a dataset holds: features of all layers, fields of the widest, pixels and bands."""
    layers = [one for one in facts.get("layers", ()) if one]
    counts = [one.get("features") for one in layers]
    told = {
        "layers": facts.get("layer_count"),
        "features": sum(counts) if counts and None not in counts else None,
        "fields": max((one.get("field_count") or 0 for one in layers), default=None),
        "size": facts.get("size"),
        "bands": facts.get("band_count"),
    }
    return {key: value for key, value in told.items() if value is not None}


def facts(value: Any) -> Mapping[str, Any]:
    """The facts of a description: of an output, or of an input."""
    return _kept(_Facts, value)


def shortened(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what is absent (such as overviews or a rotation) or follows from another fact; fields become their types."""
    kept = {key: value for key, value in facts.items() if value or key not in _WHERE_THERE_ARE}
    crs = kept.get("crs")
    if crs:
        usual = {"degrees": crs.get("kind") == "geographic", "metres": crs.get("kind") == "projected"}
        kept["crs"] = {key: value for key, value in crs.items() if value is not usual.get(key, ...)}
    if box := kept.get("wgs84"):
        kept["wgs84"] = [round(number, 7) for number in box]  # a centimetre
        if kept["wgs84"] == [round(number, 7) for number in kept.get("extent") or ()]:
            del kept["wgs84"]
    for many, count in (("bands", "band_count"), ("layers", "layer_count"), ("fields", "field_count")):
        if kept.get(many) and kept.get(count) == len(kept[many]):
            del kept[count]
    for key, short in (("bands", _short_band), ("layers", shortened)):
        if key in kept:
            kept[key] = [one and short(one) for one in kept[key]]
    if "fields" in kept:
        kept["fields"] = [one and field_type(one.get("type"), one.get("subtype")) for one in kept["fields"]]
    return kept


def _short_band(band: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        key: value
        for key, value in band.items()
        if value is not {"nodata": None, "exact": True}.get(key, ...)
    }


def names(value: Any) -> Mapping[str, Any]:
    """The names of a description, cleaned; parts without any text are left out."""
    return {key: one for key, one in _kept(_Names, value).items() if _says_something(one)}


def shown(value: Any) -> Mapping[str, Any]:
    """What a preview says it shows."""
    return _kept(_Shown, value)


def _kept(model: Any, value: Any) -> Mapping[str, Any]:
    """What a model leaves of an object; nothing of what is none."""
    try:
        found: Mapping[str, Any] = adapter(model).validate_python(value)
    except ValidationError:
        return {}
    return found


def _says_something(value: Any) -> bool:
    if isinstance(value, list):
        return any(_says_something(one) for one in value)
    if isinstance(value, dict):
        return any(_says_something(one) for one in value.values())
    return bool(value)


class _Crs(TypedDict, total=False):
    code: Kept[CrsCode]
    kind: Kept[Literal["compound", "geographic", "projected", "geocentric", "vertical", "local", "other"]]
    degrees: Kept[Switch]
    metres: Kept[Switch]


class _Band(TypedDict, total=False):
    type: Kept[DataType]
    nodata: Kept[Real]
    color: Kept[Color]
    scale: Kept[Number]
    offset: Kept[Number]
    min: Kept[Real]
    max: Kept[Real]
    exact: Kept[Switch]


class _Field(TypedDict, total=False):
    type: Kept[FieldType]
    subtype: Kept[FieldType]


class _Layer(TypedDict, total=False):
    geometry: Kept[Geometry]
    features: Kept[Count]
    field_count: Kept[Count]
    fields: Kept[Annotated[list[Item[_Field]], at_most(1000)]]
    crs: Kept[_Crs]
    extent: Kept[Box]
    wgs84: Kept[Box]


class _Dimension(TypedDict, total=False):
    size: Kept[Count]
    kind: Kept[DimensionKind]


class _Array(TypedDict, total=False):
    type: Kept[DataType]
    shape: Kept[Shape]
    nodata: Kept[Real]
    block_size: Kept[Shape]
    crs: Kept[_Crs]


class _Kind(TypedDict, total=False):
    files: Kept[Count]


def _or_other(value: Any, validate: Any) -> Any:
    """A text option of the file, so that only known words pass."""
    try:
        return None if value is None else validate(value)
    except ValidationError:
        return "other"


class _Facts(TypedDict, total=False):
    driver: Kept[Driver]
    bytes: Kept[Count]
    size: Kept[Pair]
    band_count: Kept[Count]
    bands: Kept[Annotated[list[Item[_Band]], at_most(1000)]]
    block_size: Kept[Pair]
    overviews: Kept[Count]
    compression: Annotated[Compression | None, WrapValidator(_or_other)]
    crs: Kept[_Crs]
    extent: Kept[Box]
    wgs84: Kept[Box]
    pixel_size: Kept[Annotated[list[Number], Field(min_length=2, max_length=2)]]
    rotated: Kept[Switch]
    gcps: Kept[Count]
    subdatasets: Kept[Count]
    layer_count: Kept[Count]
    layers: Kept[Annotated[list[Item[_Layer]], at_most(200)]]
    group_count: Kept[Count]
    array_count: Kept[Count]
    dimensions: Kept[Annotated[list[Item[_Dimension]], at_most(1000)]]
    arrays: Kept[Annotated[list[Item[_Array]], at_most(1000)]]
    rows: Kept[Count]
    files: Kept[Count]
    shape: Kept[Shape]
    type: Kept[DataType | Literal["bool", "complex64", "complex128"]]
    zoom: Kept[Pair]
    kinds: Kept[Annotated[list[Item[_Kind]], at_most(20)]]


_Text = Annotated[str, AfterValidator(lambda text: clean_text(text, NAME_CHARACTERS))]
_Texts = Annotated[list[Item[_Text]], at_most(1000)]


class _LayerNames(TypedDict, total=False):
    name: Kept[_Text]
    crs: Kept[_Text]
    fields: Kept[_Texts]


class _ArrayNames(TypedDict, total=False):
    name: Kept[_Text]
    unit: Kept[_Text]
    dimensions: Kept[_Texts]
    crs: Kept[_Text]


class _Names(TypedDict, total=False):
    crs: Kept[_Text]
    bands: Kept[_Texts]
    layers: Kept[Annotated[list[Item[_LayerNames]], at_most(200)]]
    dimensions: Kept[_Texts]
    arrays: Kept[Annotated[list[Item[_ArrayNames]], at_most(1000)]]
    kinds: Kept[_Texts]


class _Shown(TypedDict, total=False):
    kind: Kept[Literal["raster", "vector"]]
    color: Kept[Literal["gray", "rgb", "hillshade", "palette"]]
    bands: Kept[Annotated[list[Item[Count]], at_most(4)]]
    size: Kept[Pair]
    source_size: Kept[Pair]
    stretch: Kept[Annotated[list[Item[Annotated[list[Real], Field(min_length=2, max_length=2)]]], at_most(4)]]
    coarse: Kept[Switch]
    empty: Kept[Switch]
    complete: Kept[Switch]
    bytes: Kept[Count]
    layers: Kept[Annotated[list[Item[Count]], at_most(200)]]
    extent: Kept[Box]
    crs: Kept[_Crs]
