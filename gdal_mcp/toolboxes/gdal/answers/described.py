"""Converts a container's descriptions of datasets to results for callers. Pure.

A container is not trusted: an attacker who controls it can report anything. Invariants:
* `facts` contain only numbers, switches and GDAL's own words under known keys; everything else is left out;
* `names` contain text from inside files, cleaned and limited in length, in the order of the facts;
* a check is one of our codes with our message (`checks`).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from gdal_mcp.toolboxes.gdal.answers.checks import checks
from gdal_mcp.toolboxes.gdal.answers.words import (
    Box,
    Color,
    Compression,
    Count,
    CrsCode,
    DataType,
    DimensionKind,
    Driver,
    FieldType,
    Flag,
    Geometry,
    Number,
    Pair,
    Real,
    Shape,
    field_type,
    many,
    otherwise,
    shape,
    valid_parts,
)
from gdal_mcp.toolboxes.toolbox import Described
from gdal_mcp.toolboxes.untrusted import clean_text

NAME_CHARACTERS: Final = 200
# keys of optional parts of a dataset; left out if they are empty
_WHERE_THERE_ARE: Final = frozenset(
    "overviews compression crs extent wgs84 rotated gcps subdatasets band_count layer_count".split()
)


def described(final: Mapping[str, Any], expected: int) -> tuple[Described, ...]:
    """One description for each of the `expected` outputs, in order; empty if the container reported no valid one."""
    reported = final.get("outputs")
    entries = reported[:expected] if isinstance(reported, list) else []
    parts = [entry if isinstance(entry, dict) else {} for entry in entries]
    parts += [{}] * (expected - len(parts))
    descriptions = []
    for row in parts:
        known_facts, texts, odd = facts(row.get("facts")), names(row.get("names")), checks(row.get("checks"))
        descriptions.append(
            Described(known_facts, texts, odd, amounts(known_facts), amounts(facts(row.get("before"))))
        )
    return tuple(descriptions)


def amounts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The amounts in a dataset: layers, features of all layers, fields of the widest layer, size, bands and values."""
    layers = [layer for layer in facts.get("layers", ()) if layer]
    counts = [layer.get("features") for layer in layers]
    values = {
        "layers": facts.get("layer_count"),
        "features": sum(counts) if counts and None not in counts else None,
        "fields": max((layer.get("field_count") or 0 for layer in layers), default=None),
        "size": facts.get("size"),
        "bands": facts.get("band_count"),
        "values": value_range(facts),
    }
    return {key: value for key, value in values.items() if value is not None}


def value_range(facts: Mapping[str, Any]) -> list[float] | None:
    """The lowest and highest value of all bands with known values; None if there are none."""
    bands = [band for band in facts.get("bands") or () if band and "min" in band and "max" in band]
    return [min(band["min"] for band in bands), max(band["max"] for band in bands)] if bands else None


def facts(value: Any) -> Mapping[str, Any]:
    """The valid facts in the description of an output or an input."""
    return valid_parts(_FACTS, value)


def shortened(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts without absent parts and without facts that follow from others; fields become their types.

    Absent parts are, for example, overviews or a rotation.
    """
    short = {key: value for key, value in facts.items() if value or key not in _WHERE_THERE_ARE}
    crs = short.get("crs")
    if crs:
        usual = {"degrees": crs.get("kind") == "geographic", "metres": crs.get("kind") == "projected"}
        short["crs"] = {key: value for key, value in crs.items() if value is not usual.get(key, ...)}
    if box := short.get("wgs84"):
        short["wgs84"] = [round(number, 7) for number in box]  # 7 digits of a degree are about a centimetre
        if short["wgs84"] == [round(number, 7) for number in short.get("extent") or ()]:
            del short["wgs84"]
    for rows, count in (("bands", "band_count"), ("layers", "layer_count"), ("fields", "field_count")):
        if short.get(rows) and short.get(count) == len(short[rows]):
            del short[count]
    if short.get("bands"):
        plain = {"nodata": None, "exact": True}
        short["bands"] = [
            band and {key: value for key, value in band.items() if value is not plain.get(key, ...)}
            for band in short["bands"]
        ]
    if short.get("layers"):
        short["layers"] = [layer and shortened(layer) for layer in short["layers"]]
    if short.get("fields"):
        short["fields"] = [
            field and field_type(field.get("type"), field.get("subtype")) for field in short["fields"]
        ]
    return short


def names(value: Any) -> Mapping[str, Any]:
    """The cleaned names in a description, without parts that have no text."""
    return {key: text for key, text in valid_parts(_NAMES, value).items() if _has_text(text)}


def _has_text(value: Any) -> bool:
    if isinstance(value, list):
        return any(_has_text(part) for part in value)
    if isinstance(value, dict):
        return any(_has_text(part) for part in value.values())
    return bool(value)


_TEXT: Final = Annotated[str, AfterValidator(lambda text: clean_text(text, NAME_CHARACTERS))]
_TEXTS: Final = many(_TEXT, 1000)
_CRS: Final = shape(
    code=CrsCode,
    kind=Literal["compound", "geographic", "projected", "geocentric", "vertical", "local", "other"],
    degrees=Flag,
    metres=Flag,
    unit_metres=Number,
    epoch=Number,
    unit_degrees=Number,
)
_BAND: Final = shape(
    type=DataType,
    bits=Count,
    nodata=Real,
    color=Color,
    scale=Real,
    offset=Real,
    # unit of the pixel values; absent if the file does not have it
    unit=Literal[
        "metre",
        "foot",
        "US survey foot",
        "centimetre",
        "millimetre",
        "kilometre",
        "degree",
        "kelvin",
        "other",
    ],
    min=Real,
    max=Real,
    exact=Flag,
)
_PLACE: Final = {"crs": _CRS, "extent": Box, "wgs84": Box}
_LAYER: Final = shape(
    geometry=Geometry,
    features=Count,
    field_count=Count,
    fields=many(shape(type=FieldType, subtype=FieldType), 1000),
    **_PLACE,
)
_ARRAY: Final = shape(type=DataType, shape=Shape, nodata=Real, block_size=Shape, crs=_CRS)
_FACTS: Final = shape(
    driver=Driver,
    bytes=Count,
    size=Pair,
    band_count=Count,
    bands=many(_BAND, 1000),
    block_size=Pair,
    overviews=Count,
    # text from the file, so an unknown value becomes "other"
    compression=Annotated[Compression | None, otherwise("other")],
    valid_cog=Flag,  # None if it could not be examined
    **_PLACE,
    pixel_size=Annotated[list[Number], Field(min_length=2, max_length=2)],
    rotated=Flag,
    gcps=Count,
    subdatasets=Count,
    layer_count=Count,
    layers=many(_LAYER, 200),
    group_count=Count,
    array_count=Count,
    dimensions=many(shape(size=Count, kind=DimensionKind), 1000),
    arrays=many(_ARRAY, 1000),
    rows=Count,
    files=Count,
    shape=Shape,
    type=DataType | Literal["bool", "complex64", "complex128"],
    zoom=Pair,
    kinds=many(shape(files=Count), 20),
)
_NAMES: Final = shape(
    crs=_TEXT,
    bands=_TEXTS,
    layers=many(shape(name=_TEXT, crs=_TEXT, fields=_TEXTS), 200),
    dimensions=_TEXTS,
    arrays=many(shape(name=_TEXT, unit=_TEXT, dimensions=_TEXTS, crs=_TEXT), 1000),
    kinds=_TEXTS,
)
SHOWN: Final = shape(
    kind=Literal["raster", "vector"],
    color=Literal["gray", "rgb", "hillshade", "palette"],
    bands=many(Count, 4),
    size=Pair,
    source_size=Pair,
    stretch=many(Annotated[list[Real], Field(min_length=2, max_length=2)], 4),
    coarse=Flag,
    empty=Flag,
    complete=Flag,
    bytes=Count,
    layers=many(Count, 200),
    **_PLACE,
)
CRS_MATCH: Final = shape(
    code=CrsCode,
    kind=Literal[
        "projected", "geographic 2D", "geographic 3D", "geocentric", "vertical", "compound", "other"
    ],
    property=Literal["equal-area", "conformal", "equidistant", "web"],
    bbox=Box,
    accuracy_m=Number,
    deprecated=Flag,
    replaced_by=many(CrsCode, 10),
)
LOOK: Final = shape(
    longer=Count,
    **dict.fromkeys("holes fills assumed classes mask exact curves wide masked directions".split(), Flag),
    **dict.fromkeys(("outside", "nan", "fractional", "digits", "count", "of", "bands"), Count),
    **dict.fromkeys(("minimum", "maximum"), Number),
)
