"""GDAL's own words, and types that accept only well-formed numbers, switches and such words. Pure.

A valid value cannot contain a sentence: no text from a file is accepted, however it is spelled. Invalid values are
left out: a key of an object is dropped, and an item of a list becomes null, so that lists can be joined by position.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, ValidationError, WrapValidator
from pydantic_core import PydanticOmit
from typing_extensions import TypedDict

from gdal_mcp.toolboxes.gdal.catalogue.load import adapter, packaged

_LARGEST: Final = 1 << 64  # GDAL's widest integers have 64 bits

DATA_TYPES: Final = frozenset(
    "Unknown Byte UInt8 Int8 UInt16 Int16 UInt32 Int32 UInt64 Int64 Float16 Float32 Float64 CInt16 CInt32 CFloat16 CFloat32 "
    "CFloat64 String Compound int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
)
COLORS: Final = frozenset(
    "Undefined Gray Palette Red Green Blue Alpha Hue Saturation Lightness Cyan Magenta Yellow Black YCbCr_Y YCbCr_Cb YCbCr_Cr "
    "Pan Coastal RedEdge NIR SWIR MWIR LWIR TIR OtherIR IR_Reserved_1 IR_Reserved_2 IR_Reserved_3 IR_Reserved_4 SAR_Ka SAR_K "
    "SAR_Ku SAR_X SAR_C SAR_S SAR_L SAR_P SAR_Reserved_1 SAR_Reserved_2".split()
)
_SHAPES: Final = [
    *"Unknown None Point Polygon Curve Surface PolyhedralSurface TIN Triangle".split(),
    *("Unknown (any)", "Line String", "Multi Point", "Multi Line String", "Multi Polygon", "Multi Curve"),
    *("Geometry Collection", "Circular String", "Compound Curve", "Curve Polygon", "Multi Surface"),
    "Polyhedral Surface",
]
# in the spelling of OGR ("3D Multi Point") and of OGC ("MultiPoint Z")
GEOMETRIES: Final = frozenset(
    f"{before}{shape}" for shape in _SHAPES for before in ("", "3D ", "Measured ", "3D Measured ")
) | frozenset(
    f"{shape.replace(' ', '')}{after}"
    for shape in _SHAPES
    for after in ("", "Z", "M", "ZM", " Z", " M", " ZM")
)
FIELD_TYPES: Final = frozenset(
    "Integer IntegerList Integer64 Integer64List Real RealList String StringList Binary Date Time DateTime "
    "WideString WideStringList Boolean Int16 Float32 JSON UUID".split()
)
# PyArrow's names, without text from the file such as the name of a time zone
ARROW_TYPES: Final = frozenset(
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 string large_string string_view binary "
    "large_binary binary_view date32 date64 time32[s] time32[ms] time64[us] time64[ns] decimal list large_list struct map other".split()
) | {f"timestamp[{unit}{zone}]" for unit in ("s", "ms", "us", "ns") for zone in ("", ", with time zone")}
MULTIDIMENSIONAL: Final = frozenset(
    "HORIZONTAL_X HORIZONTAL_Y VERTICAL TEMPORAL PARAMETRIC EAST WEST SOUTH NORTH UP DOWN FUTURE PAST".split()
)
MASKS: Final = frozenset("ALL_VALID PER_DATASET ALPHA NODATA".split())
_COMPRESSIONS: Final = frozenset(
    "JPEG YCbCr JPEG2000 LZW PACKBITS DEFLATE CCITTRLE CCITTFAX3 CCITTFAX4 LZMA ZSTD LERC LERC_DEFLATE LERC_ZSTD WEBP JXL NONE "
    "GZIP ZLIB BLOSC LZ4 RLE SZIP BZIP2 PNG QB3 ZEN RUNLENGTH WAVELET".split()
) | {"YCbCr JPEG", "CCITT Group 3", "CCITT Group 4", "CCITT RLE"}


# drivers in GDAL's source that are not in `some_builds`: each needs a library that no free image may contain
_UNFREE: Final = frozenset("FileGDB JP2ECW JP2KAK JP2MrSID JPIPKAK MSG".split())
_NO_DATASET: Final = frozenset({"text", "numpy"})  # the container's words for outputs that no driver opens


@cache
def drivers() -> frozenset[str]:
    """Short names of all drivers that a build of GDAL may have, independent of the image in use."""
    known = packaged()
    names = frozenset(driver.name for driver in known.drivers) | {driver.name for driver in known.some_builds}
    return names | _UNFREE | _NO_DATASET


@cache
def compressions() -> frozenset[str]:
    """The compressions that GDAL reports, and the choices of every driver's compression option."""
    return _COMPRESSIONS | {
        choice
        for driver in packaged().drivers
        for options in driver.options.values()
        for option in options
        if "COMPRESS" in option.name.upper()
        for choice in option.choices
    }


def _among(words: Callable[[], frozenset[str]]) -> AfterValidator:
    def known(word: str) -> str:
        if word not in words():
            raise ValueError
        return word

    return AfterValidator(known)


def field_type(kind: Any, subtype: Any) -> str | None:
    """The type of a field, such as `String` or `Integer(Boolean)`; None if it is unknown."""
    known, more = (
        name if isinstance(name, str) and name in FIELD_TYPES else None for name in (kind, subtype)
    )
    return f"{known}({more})" if known and more else known


def _or_omit(value: Any, validate: Callable[[Any], Any]) -> Any:
    try:
        return None if value is None else validate(value)
    except ValidationError:
        raise PydanticOmit from None


def otherwise(fallback: Any) -> WrapValidator:
    """A validator that replaces an invalid value by `fallback`."""

    def validated(value: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(value)
        except ValidationError:
            return fallback

    return WrapValidator(validated)


def valid_parts(model: Any, value: Any) -> Mapping[str, Any]:
    """The valid parts of an object; empty if the value is not an object."""
    try:
        parts: Mapping[str, Any] = adapter(model).validate_python(value)
    except ValidationError:
        return {}
    return parts


def at_most(count: int) -> BeforeValidator:
    """A validator that truncates a list before its items are validated."""
    return BeforeValidator(lambda value: value[:count] if isinstance(value, list) else value)


def shape(**keys: Any) -> Any:
    """The type of an object with these keys. Other keys and invalid values are left out; null is valid."""
    fields = {key: Annotated[kind | None, WrapValidator(_or_omit)] for key, kind in keys.items()}
    return TypedDict("Shape", fields, total=False)  # type: ignore[operator]


def many(item: Any, most: int) -> Any:
    """The type of a list, truncated to `most` items. Invalid items become null."""
    return Annotated[list[Annotated[item | None, otherwise(None)]], at_most(most)]


Flag = StrictBool
Count = Annotated[int, Field(strict=True, ge=0, le=_LARGEST)]
Number = (
    Annotated[int, Field(strict=True, ge=-_LARGEST, le=_LARGEST)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
)
# a number, or the name of a non-finite number, which JSON cannot represent
Real = Number | Literal["nan", "inf", "-inf", "NaN", "Infinity", "-Infinity"]
Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]
Box = Annotated[list[Number], Field(min_length=4, max_length=4)]
Shape = many(Count, 32)
# AUTH:CODE of an authority that PROJ knows, in the form of its codes
CrsCode = Annotated[
    str,
    Field(
        pattern=r"^(?:(?:EPSG|ESRI|IAU_2015):[0-9]{1,9}|OGC:CRS(?:84|83|27|84h)|IGNF:[A-Z0-9_.]{1,24}|"
        r"(?:NKG|NRCAN|PROJ):[A-Z0-9_]{1,24})$"
    ),
]
Driver = Annotated[str, _among(drivers)]
Compression = Annotated[str, _among(compressions)]
DataType = Annotated[str, _among(lambda: DATA_TYPES)]
Color = Annotated[str, _among(lambda: COLORS)]
Geometry = Annotated[str, _among(lambda: GEOMETRIES)]
FieldType = Annotated[str, _among(lambda: FIELD_TYPES)]
# units of lengths, areas and angles in the result of a statement
Measure = Literal[
    "metre", "foot", "US survey foot", "kilometre", "degree", "radian",
    "unknown", "square metre", "square foot", "square US survey foot", "square kilometre", "square degree",
]  # fmt: skip
# kinds of metadata that explain the values of a dataset
Label = Literal[
    "attribute_table", "band_descriptions", "category_names", "color_table", "control_points", "field_domains", "foreign_members",
    "geolocation_arrays", "metadata_domains", "metadata_items", "sensor_model", "styles", "units",
]  # fmt: skip
DimensionKind = Literal["HORIZONTAL_X", "HORIZONTAL_Y", "VERTICAL", "TEMPORAL", "PARAMETRIC"]
