"""What the container says of datasets, as what a caller may be told. Pure.

The container may say anything: whatever took it over writes its last words. Invariants:
* `facts` hold numbers, switches and GDAL's own words only, under known keys; anything else is left out;
* `names` hold text from inside files, cleaned and capped, in the order of the facts;
* a check is one of our codes with our text.
"""

from collections.abc import Mapping
from typing import Any, Final

from gdal_mcp.gdal.answers import described_words as words
from gdal_mcp.gdal.answers.described_words import (
    DRIVER,
    DROP,
    TYPE,
    count,
    crs_code,
    items,
    kept,
    number,
    real,
    shaped,
    switch,
    whole,
    word,
)
from gdal_mcp.toolbox import Described
from gdal_mcp.untrusted import clean_text

MOST_BANDS, MOST_LAYERS, MOST_FIELDS, MOST_ARRAYS = 1000, 200, 1000, 1000
MOST_CHECKS = 50
NAME_CHARACTERS = 200


def described(final: Mapping[str, Any], expected: int) -> tuple[Described, ...]:
    """One for each of the `expected` outputs of a job, in order; empty ones where the container said nothing sensible."""
    said = final.get("outputs")
    given = said[:expected] if isinstance(said, list) else []
    parts = [one if isinstance(one, dict) else {} for one in given]
    parts += [{}] * (expected - len(parts))
    return tuple(
        Described(facts(one.get("facts")), names(one.get("names")), checks(one.get("checks")))
        for one in parts
    )


def facts(value: Any) -> Mapping[str, Any]:
    """The facts of a description: of an output, or of one of the `headers` program's rows."""
    return kept(_FACTS, value)


def names(value: Any) -> Mapping[str, Any]:
    """The names of a description, cleaned; parts without any text are left out."""
    return {key: one for key, one in kept(_NAMES, value).items() if _says_something(one)}


def checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Known codes with our text, and the numbers that say which input or layer, from 0."""
    given = value[:MOST_CHECKS] if isinstance(value, list) else []
    found = (_check(one) for one in given if isinstance(one, dict))
    return tuple(one for one in found if one)


def shown(value: Any) -> Mapping[str, Any]:
    """What a preview says it shows."""
    return kept(_SHOWN, value)


def _check(row: Mapping[str, Any]) -> Mapping[str, Any]:
    code = row.get("code")
    if not isinstance(code, str) or code not in CHECKS:
        return {}
    message = CHECKS[code]
    if row.get("sampled") is True:
        message += " Only a sample of the pixels was read."
    return {"code": code, "message": message, **kept(_WHERE, row)}


CHECKS: Final[Mapping[str, str]] = {
    "all_nodata": "The raster holds no valid pixel: everything is nodata or masked. Check the extent, the nodata value and the "
    "bands that were used.",
    "constant": "Every valid pixel has the same value. Check the input and the parameters if that is not meant.",
    "zero_features": "No layer holds a feature. Check the filter, the extent and the CRS that were used.",
    "empty_layer": "The layer holds no feature.",
    "identical_to_input": "The output is the same as the input, so the call changed nothing that can be told.",
    "crs_missing": "There is no CRS, so that the place on earth is unknown. Set it with `raster edit --crs` or `vector edit --crs`.",
    "has_no_georeferencing": "The raster has neither a geotransform nor control points, so that it has no place on earth.",
    "extent_outside_crs": "The CRS counts in degrees, and the coordinates are beyond any: most likely the CRS is wrong.",
    "no_overlap": "On earth the output lies apart from every input. Check the CRS and the extent that were used.",
    "pixels_unreadable": "The file opens, but its pixels cannot be read.",
}


def _text(value: Any) -> Any:
    return clean_text(value, NAME_CHARACTERS) if isinstance(value, str) else DROP


def _says_something(value: Any) -> bool:
    if isinstance(value, list):
        return any(_says_something(one) for one in value)
    if isinstance(value, dict):
        return any(_says_something(one) for one in value.values())
    return bool(value)


_BOX: Final = whole(number, {4})
_NPY_TYPE: Final = word(words.DATA_TYPES | {"bool", "complex64", "complex128"})
_CRS: Final = shaped({"code": crs_code, "kind": word(words.CRS_KINDS), "degrees": switch, "metres": switch})
_BAND: Final = shaped(
    {
        "type": TYPE,
        "nodata": real,
        "color": word(words.COLORS),
        "min": real,
        "max": real,
        "exact": switch,
    }
)
_FIELD: Final = shaped({"type": word(words.FIELD_TYPES), "subtype": word(words.FIELD_TYPES)})
_LAYER: Final = shaped(
    {
        "geometry": word(words.GEOMETRIES),
        "features": count,
        "field_count": count,
        "fields": items(_FIELD, MOST_FIELDS),
        "crs": _CRS,
        "extent": _BOX,
        "wgs84": _BOX,
    }
)
_ARRAY: Final = shaped(
    {"type": TYPE, "shape": items(count, 32), "nodata": real, "block_size": items(count, 32), "crs": _CRS}
)


def _compression(value: Any) -> Any:
    """A text option of the file, so that only known words pass."""
    return value if isinstance(value, str) and value in words.compressions() else "other"


_FACTS: Final = shaped(
    {
        "driver": DRIVER,
        "bytes": count,
        "size": whole(count, {2}),
        "band_count": count,
        "bands": items(_BAND, MOST_BANDS),
        "block_size": whole(count, {2}),
        "overviews": count,
        "compression": _compression,
        "crs": _CRS,
        "extent": _BOX,
        "wgs84": _BOX,
        "pixel_size": whole(number, {2}),
        "rotated": switch,
        "gcps": count,
        "subdatasets": count,
        "layer_count": count,
        "layers": items(_LAYER, MOST_LAYERS),
        "group_count": count,
        "array_count": count,
        "dimensions": items(shaped({"size": count, "kind": word(words.DIMENSIONS)}), MOST_ARRAYS),
        "arrays": items(_ARRAY, MOST_ARRAYS),
        "rows": count,
        "files": count,
        "shape": items(count, 32),
        "type": _NPY_TYPE,
        "zoom": whole(count, {2}),
        "kinds": items(shaped({"files": count}), 20),
    }
)
_TEXTS: Final = items(_text, MOST_FIELDS)
_NAMES: Final = shaped(
    {
        "crs": _text,
        "bands": items(_text, MOST_BANDS),
        "layers": items(shaped({"name": _text, "crs": _text, "fields": _TEXTS}), MOST_LAYERS),
        "dimensions": _TEXTS,
        "arrays": items(
            shaped({"name": _text, "unit": _text, "dimensions": items(_text, 32), "crs": _text}), MOST_ARRAYS
        ),
        "kinds": items(_text, 20),
    }
)
_WHERE: Final = shaped({"input": count, "layer": count})
_SHOWN: Final = shaped(
    {
        "kind": word({"raster", "vector"}),
        "color": word({"gray", "rgb", "hillshade", "palette"}),
        "bands": items(count, 4),
        "size": whole(count, {2}),
        "source_size": whole(count, {2}),
        "stretch": items(whole(real, {2}), 4),
        "coarse": switch,
        "empty": switch,
        "complete": switch,
        "bytes": count,
        "layers": items(count, MOST_LAYERS),
        "extent": _BOX,
        "crs": _CRS,
    }
)
