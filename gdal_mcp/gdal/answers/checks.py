"""What the container found odd about an output, in our words. Pure.

A row of the container's is a code and numbers; each known code has its message and suggestion here, and every other key is left
out. So a check can carry no text of a file.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import ValidationError
from typing_extensions import TypedDict

from gdal_mcp.gdal.answers.words import Count, Kept, Number, Real, Switch, adapter, at_most

MOST_CHECKS: Final = 50


class Advice(NamedTuple):
    """What is wrong and why, and what to do."""

    message: str
    suggestion: str


_COMMON: Final = {
    "identical_to_input": Advice(
        "The output is the same as the input, so the call changed nothing that can be told.",
        "Check the arguments if a change was meant.",
    ),
    "no_overlap": Advice(
        "On earth the output lies apart from every input.", "Check the CRS and the extent that were used."
    ),
    "crs_missing": Advice(
        "There is no CRS, so that the place on earth is unknown.",
        "Set it with `raster edit --crs` or `vector edit --crs`.",
    ),
    "outside_area_of_use": Advice(
        "The data lies far outside the area that its CRS is made for, where its coordinates are distorted or mean another place.",
        "Check whether the CRS is the true one; `find_crs` finds one for the area.",
    ),
    "extent_outside_crs": Advice(
        "The CRS counts in degrees, and the coordinates are beyond any.",
        "Most likely the CRS is wrong: set the true one with `raster edit --crs` or `vector edit --crs`.",
    ),
}
_RASTER: Final = {
    "all_nodata": Advice(
        "The raster holds no valid pixel: everything is nodata or masked.",
        "Check the extent, the nodata value and the bands that were used.",
    ),
    "constant": Advice(
        "Every valid pixel has the same value.", "Check the input and the parameters if that is not meant."
    ),
    "has_no_georeferencing": Advice(
        "The raster has neither a geotransform nor control points, so that it has no place on earth.",
        "Set the corners with `raster edit --bbox` if they are known.",
    ),
    "collar_without_nodata": Advice(
        "Part of the raster lies beyond the inputs and is filled with zeros, which count as data since there is no nodata value.",
        "Set output-nodata (for a reprojection also `--output-nodata` among extra_args) to a value that no pixel has, or use add-alpha.",
    ),
    "statistics_stale": Advice(
        "The statistics kept with the raster are those of other pixels; programs that read them show and report wrong values.",
        "Have them computed anew with `raster edit --stats`, or remove them with `raster edit --unset-metadata`.",
    ),
    "all_nan": Advice(
        "Every number that was found in the raster is NaN or null.",
        "Check that the raster and the zones or points overlap and have the same CRS; include-field tells which zone a row is of.",
    ),
    "pixels_unreadable": Advice(
        "The file opens, but its pixels cannot be read.", "Do not use it; make it anew, in another format."
    ),
}
_VECTOR: Final = {
    "zero_features": Advice(
        "No layer holds a feature.", "Check the filter, the extent and the CRS that were used."
    ),
    "empty_layer": Advice("The layer holds no feature.", "Check the filter if features were expected in it."),
    "features_lost": Advice(
        "The output has fewer features than the input, though this command leaves none out.",
        "The format may take no features without a geometry; write GeoPackage or GeoJSON.",
    ),
    "features_added": Advice(
        "The output has more features than the input: the format splits collections, or the layer held features before.",
        "Write GeoPackage or GeoJSON, which keep collections.",
    ),
    "fields_lost": Advice(
        "Fields of the input are not in the output, with all of their values.",
        "Write a new file, or a layer that has these fields; appending adds none.",
    ),
    "field_type_changed": Advice(
        "Fields have another type than in the input, since the format does not have theirs.",
        "The description has the new types. GeoPackage keeps numbers, dates and times of day.",
    ),
    "nulls_replaced": Advice(
        "Missing values of the input are values in the output, such as 0: the format has no null.",
        "Write GeoPackage, FlatGeobuf or GeoJSON, which keep them.",
    ),
    "value_lost": Advice(
        "Numbers are not those of the input: the format or the field's type holds fewer digits.",
        "Write GeoPackage, FlatGeobuf or GeoJSON, or choose a wider type.",
    ),
    "time_changed": Advice(
        "Dates or times are not those of the input: the format cuts the time of day, its fractions or the time zone.",
        "Write GeoPackage or GeoJSON, which keep them.",
    ),
    "text_cut": Advice(
        "Texts are shorter than in the input, since the format holds only so many characters.",
        "Write GeoPackage, FlatGeobuf or GeoJSON, which keep texts of any length.",
    ),
    "text_changed": Advice(
        "Texts are not those of the input: the encoding does not have all of their letters.",
        "Write UTF-8 (for a Shapefile the layer creation option ENCODING=UTF-8).",
    ),
    "coordinates_changed": Advice(
        "Coordinates are not those of the input: the format rounds them.",
        "Write GeoPackage, FlatGeobuf or GeoJSON, which keep them.",
    ),
    "invalid_geometries": Advice(
        "Polygons are not valid (they cross or touch themselves), so that areas and overlays of them may be wrong.",
        "Mend them with `vector make-valid`.",
    ),
    "empty_geometries": Advice(
        "Features have no geometry, or an empty one.",
        "Check the distance, the box or the function that made them. `vector concat` loses those of inputs whose formats name the "
        "geometry differently: convert them to one format first.",
    ),
    "geometry_type_undeclared": Advice(
        "The layer declares no kind of geometry (`Unknown`), though all of its geometries are of one, and some programs refuse that.",
        "Declare it with `vector edit --geometry-type`.",
    ),
}
CHECKS: Final[Mapping[str, Advice]] = {**_COMMON, **_RASTER, **_VECTOR}


class _Numbers(TypedDict, total=False):
    """Which input, layer or band, from 0; and how much."""

    input: Kept[Count]
    layer: Kept[Count]
    band: Kept[Count]
    count: Kept[Count]
    of: Kept[Count]
    percent: Kept[Number]
    metres: Kept[Number]
    units: Kept[Number]
    fields: Kept[Annotated[list[Count], at_most(100)]]
    minimum: Kept[Real]
    maximum: Kept[Real]
    sampled: Kept[Switch]


def checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Known codes with our words, and the numbers that came with them."""
    told = []
    for row in value[:MOST_CHECKS] if isinstance(value, list) else []:
        code = row.get("code") if isinstance(row, dict) else None
        if isinstance(code, str) and code in CHECKS:
            told.append({"code": code, **CHECKS[code]._asdict(), **_numbers(row)})
    return tuple(told)


def _numbers(row: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = adapter(_Numbers).validate_python(row)
    except ValidationError:
        return {}
    return found
