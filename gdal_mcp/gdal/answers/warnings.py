"""What GDAL 3.13 says of losses and failures, as patterns of whole texts, with our words for each. Data only."""

import re
from typing import Final, NamedTuple

NUMBER: Final = r"-?[0-9]{1,19}(?:\.[0-9]{1,19})?(?:e[+-]?[0-9]{1,3})?"


class Rule(NamedTuple):
    """Texts that mean one thing. A group's name is the key of its number; `repeats` is false where GDAL warns only once."""

    code: str
    patterns: tuple[str, ...]
    message: str
    suggestion: str
    repeats: bool = True


RULES: Final = (
    Rule(
        "field_name_cut",
        (
            r"Normalized/laundered field name: '.*' to '.*'",
            r"Field '.*' already exists\. Renaming it as '.*'",
            r"Renaming field '.*' to '.*' to avoid conflict .*",
        ),
        "Field names were cut or changed, since the format does not take them as they are.",
        "GDAL's messages have the old and the new names. GeoPackage, FlatGeobuf and GeoJSON keep long names.",
    ),
    Rule(
        "layer_name_changed",
        (
            r"Invalid layer name for a .*: .*\. Laundered to .*",
            r"Normalized/laundered layer name: '.*' to '.*'",
            r"Layer name '.*' laundered as '.*' for filename compatibility",
        ),
        "A layer's name was changed, since the format does not take it as it is.",
        "Use the new name, which the description has, or choose one with output-layer.",
    ),
    Rule(
        "text_cut",
        (
            r"Value '.*' of field .* has been truncated to (?P<characters>[0-9]{1,9}) characters\..*",
            r"Value .* for field .* is too large\. Truncating it",
            r"Content of field .* exceeded the (?P<characters>[0-9]{1,9}) character limit and will be truncated",
            r"Truncated .* field value.*",
            r"String .* truncated to [0-9]+ (?:bytes|UTF16 characters)",
        ),
        "Texts were cut, since the format holds only so many characters.",
        "Write GeoPackage, FlatGeobuf or GeoJSON, which keep texts of any length.",
        repeats=False,
    ),
    Rule(
        "list_cut",
        (
            r"Field .* of feature [0-9]+ had (?P<elements>[0-9]{1,9}) elements, but had to be truncated to [0-9]+",
        ),
        "Lists were cut, since the format holds only so many elements.",
        "Write GeoPackage or GeoJSON, which keep lists whole.",
    ),
    Rule(
        "value_lost",
        (
            rf"Value (?P<value>{NUMBER}) of field .* of feature [0-9]+ not successfully written\..*",
            rf"Field .*: [Ii]nteger overflow occurred when trying to set (?P<value>{NUMBER}) as 32 bit .*",
            rf"Field .*: Lossy conversion occurred when trying to set .* field from .* value (?P<value>{NUMBER})\.",
            r"Field .*: 32 bit integer overflow when converting .*",
            r"Value '.*' of field .* parsed incompletely to (?:integer|integer64|real) .*",
            r"Value .* is beyond range of float16\. Converted to .*",
            r"Integer values probably ranging out of 64bit integer range have been found\..*",
            r"Invalid value type found in record [0-9]+ for field .*",
            r"NaN of Infinity value found\. Skipped\..*",
        ),
        "Values were changed or left out, since the field's type cannot hold them.",
        "Choose a wider type for the field (`vector set-field-type`) or another format, and compare the values.",
    ),
    Rule(
        "field_type_changed",
        (
            r"Field .* created as \w+ field, though \w+ requested\.",
            r"Field .* of type \w+ will be written as an? \w+\..*",
            r"The output driver does not seem to natively support \w+ type for field .*\. Converting it to .*",
            r"Field of type \w+ unhandled natively\. Converting to string",
            r"toColumnType: .* Falling back to String\.",
        ),
        "Fields have another type in the output, since the format does not have theirs.",
        "The description has the new types. GeoPackage keeps numbers, dates, times of day and lists.",
    ),
    Rule(
        "geometry_type_mixed",
        (r"A geometry of type \w+ is inserted into layer .* of geometry type \w+, which is not normally.*",),
        "Some geometries are not of the layer's type, which other programs may refuse.",
        "Set the layer's type with `vector set-geom-type`, to the multi type if both single and multi geometries occur.",
        repeats=False,
    ),
    Rule(
        "curves_made_lines",
        (r"Attempt to write curve geometries to layer .* They will be linearized",),
        "Curves were replaced by lines of many points, since the format has no curves.",
        "Write GeoPackage or FlatGeobuf to keep them.",
        repeats=False,
    ),
    Rule(
        "z_lost",
        (r"Attempt to write Z geometries to layer .* Z component will be discarded",),
        "Heights (Z) were left out, since the format or the layer has none.",
        "Write GeoPackage, FlatGeobuf or GeoJSON to keep them.",
        repeats=False,
    ),
    Rule(
        "m_lost",
        (
            r"Attempt to write M geometries to layer .* M component will be discarded",
            r"A partially supported measured feature type was detected\..*",
        ),
        "Measures (M) were left out, since the format or the layer has none.",
        "Write GeoPackage, FlatGeobuf or a Shapefile to keep them.",
        repeats=False,
    ),
    Rule(
        "geometry_lost",
        (
            r"Invalid geometry has been converted from .* to .*\.",
            r"Discarding polygon ring made of .*",
            r"A ring .* for feature .* was not closed\. Dropping it",
            r"Infinite or NaN coordinate encountered.*",
        ),
        "Geometries, or rings of them, were left out or replaced, since they are damaged or not finite.",
        "Look at the input with `vector check-geometry`.",
    ),
    Rule(
        "features_left_out",
        (
            r"Discarding feature [0-9]+ of layer .*, as its intersection with .* is a .* whereas the input is a .*",
            r"At least one tile exceeded the default maximum .* and was truncated to satisfy it\..*",
        ),
        "Features were left out.",
        "GDAL's messages say which; compare the number of features.",
    ),
    Rule(
        "characters_lost",
        (
            r"One or several characters couldn't be converted correctly from .* to .*",
            r".* is not a valid UTF-8 string\..*",
            r"Non UTF-8 content found when writing .*",
            r"Recode from .* to UTF-8 not supported, treated as ISO-8859-1.*",
        ),
        "Letters were lost or replaced, since an encoding does not have them or the text is in another encoding.",
        "Write UTF-8 (for a Shapefile the layer creation option ENCODING=UTF-8), and open the input with its true ENCODING.",
        repeats=False,
    ),
    Rule(
        "time_zone_assumed",
        (r"Attempt at writing a datetime with a unknown time zone or local time .*",),
        "Times without a time zone were written as if they were UTC.",
        "Convert them to UTC first if they are not.",
        repeats=False,
    ),
    Rule(
        "crs_assumed",
        (r"No SRS set on layer\. Assuming it is long/lat on WGS84 ellipsoid",),
        "The data has no CRS; its coordinates were taken for longitude and latitude in WGS 84.",
        "Say its CRS with input-crs, or set it with `vector edit --crs`.",
        repeats=False,
    ),
    Rule(
        "unsupported_option",
        (
            r"(?:driver|dataset) .* does not support (?:layer creation|creation|open) option .*",
            r"'.*' is an unexpected value for .* option of type .*",
            r".* value not recognised, ignoring\.",
        ),
        "An option, or its value, is not one that the format has, so it had no effect.",
        "`formats` lists the options of a format with their values.",
    ),
    Rule(
        "data_type_changed",
        (r"\w+ driver doesn't support data type \w+\. Only .* supported\..*",),
        "The format does not have the input's data type, so the pixels were written in a smaller one, cut at its ends.",
        "Scale the values first (`raster scale`), or write GeoTIFF, which keeps them.",
        repeats=False,
    ),
    Rule(
        "nodata_replaced",
        (
            rf"for band (?P<band>[0-9]{{1,6}}), destination nodata value has been (?:clamped|rounded) to (?P<becomes>{NUMBER}), .*",
            rf"Setting nodata to (?P<becomes>{NUMBER}) on band [0-9]+, but band [0-9]+ has nodata at .*",
        ),
        "The output has another nodata value than was asked for or than the input has.",
        "Name one that the output's data type can hold and that no pixel has.",
    ),
    Rule(
        "nodata_dropped",
        (
            r"Source nodata value was not copied to output band, as it cannot be represented on its data type\.",
            r"Nodata value was not set to output band, as it cannot be represented on its data type\.",
            r"Cannot write NoData value for band [0-9]+ to output file",
        ),
        "The output has no nodata value, since its data type cannot hold the input's: what was nodata counts as data.",
        "Name a nodata value that the type can hold, or keep the data type.",
    ),
    Rule(
        "values_moved_off_nodata",
        (
            rf"Value (?P<value>{NUMBER}) in the source dataset has been changed to (?P<becomes>{NUMBER}) in the .*",
            (
                rf"Valid data found with value equal to nodata \((?P<value>{NUMBER})\)\. Got substituted with "
                rf"(?P<becomes>{NUMBER})"
            ),
        ),
        "Valid pixels had the output's nodata value and were changed by a little, so that they still count as data.",
        "Choose a nodata value that no pixel has.",
        repeats=False,
    ),
    Rule(
        "nodata_in_terrain",
        (r"Nodata value found in input DEM\. Output will be likely incorrect",),
        "The terrain has pixels without data, which this algorithm takes for heights.",
        "Fill them first with `raster fill-nodata`.",
        repeats=False,
    ),
    Rule(
        "zones_not_covered",
        (r"(?:Source|Weighting) raster does not fully cover zones raster\..*",),
        "The values do not cover all of the zones; what lies outside of them counts as nodata.",
        "Compare the extents; the statistics of zones at the edge are of a part of them.",
        repeats=False,
    ),
    Rule(
        "palette_resampled",
        (r"Input (?:dataset|file .*) has a color table, which will likely lead to bad results .*",),
        "Indices of a colour table were averaged, which gives indices of other colours.",
        "Use nearest or mode, or make colours of the indices first (`raster color-map`).",
        repeats=False,
    ),
    Rule(
        "georeferencing_lost",
        (
            r"\w+ format do not support geotransform with rotation, discarding info\.",
            r"\w+ format only support .* projections, discarding projection\.",
        ),
        "The format cannot hold this georeferencing, which was left out.",
        "Write GeoTIFF, which keeps it.",
        repeats=False,
    ),
    Rule(
        "invalid_input_geometries",
        (
            r"(?:Ring )?Self-intersection(?: at or near point .*)?",
            (
                r"(?:Too few points in geometry component|Hole lies outside shell|Holes are nested|Nested shells|"
                r"Interior is disconnected|Duplicate Rings?|Invalid Coordinate)(?: at or near point .*)?"
            ),
        ),
        "Geometries of the input are not valid, so that what is computed of them may be wrong.",
        "Mend them first with `vector make-valid`.",
    ),
)
# errors, by whole texts, that have a way out which is not in the text itself
ERRORS: Final = tuple(
    (re.compile(pattern, re.DOTALL), suggestion)
    for pattern, suggestion in (
        (
            r"Attempt to write non-.* geometry to .* shapefile\.|ICreateFeature: Mismatched geometry type\..*",
            (
                "A layer of this format holds one kind of geometry: filter by kind (`vector sql` with ST_GeometryType), make all of "
                "them one kind (`vector set-geom-type`), or write GeoPackage, which takes them all."
            ),
        ),
        (
            r"ICreateFeature: NULL geometry not supported with spatial index",
            "Some features have no geometry: leave them out, or give the layer creation option SPATIAL_INDEX=NO.",
        ),
        (
            (
                r"Can't create fields of type Time on shapefile layers\.|ICreateFeature: Missing implementation for OGRFieldType .*|"
                r"IMapInfoFile::CreateField\(\) called with unsupported field type .*"
            ),
            "The format lacks a field's type: make it text with `vector set-field-type`, leave it out, or write GeoPackage.",
        ),
        (
            r"DXF layer does not support arbitrary field creation.*|Field of name .* is not supported in GPX schema\..*",
            (
                "The format has fixed fields: keep only those (`vector select`), or write GeoPackage. For GPX the creation option "
                "GPX_USE_EXTENSIONS=YES takes others, too."
            ),
        ),
        (
            r"Type mismatch or improper type of arguments to .* operator\.|Use of field function \w+\(\) on string field .* illegal\.",
            (
                "A column is text, though the statement takes it for a number: add the open option AUTODETECT_TYPE=YES (CSV), or "
                "write CAST(column AS REAL)."
            ),
        ),
        (
            r"TopologyException: .*",
            "Geometries of the input are not valid: mend them first with `vector make-valid`.",
        ),
        (
            r"Failed to reproject feature .*",
            "Some coordinates have no place in the output's CRS: clip the data to its area of use first, or choose another CRS.",
        ),
        (
            r"failed to execute insert : UNIQUE constraint failed: .*",
            (
                "Two features have one id: leave out the field that the format takes for it, or name another with the layer "
                "creation option FID."
            ),
        ),
        (
            r"Geometry extent outside of \[-180\.0,180\.0\]x\[-90\.0,90\.0\] bounds",
            "The coordinates are no degrees: the input's CRS is missing or wrong. Say the true one with input-crs.",
        ),
    )
)
