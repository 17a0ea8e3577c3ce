"""GDAL's own words, and rules that let through only well-formed numbers, switches and such words. Pure.

A rule gives the value back, or DROP for anything else. What passes can carry no sentence: no text of a file, however it
is spelled, gets past a rule.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, Final

from gdal_mcp.gdal.catalogue.load import catalogue

DROP: Final = object()
Rule = Callable[[Any], Any]

_LARGEST: Final = 1 << 64  # GDAL's widest whole numbers have 64 bits
_NAMED: Final = frozenset({"nan", "inf", "-inf", "NaN", "Infinity", "-Infinity"})

DATA_TYPES: Final = frozenset(
    "Unknown Byte UInt8 Int8 UInt16 Int16 UInt32 Int32 UInt64 Int64 Float16 Float32 Float64 CInt16 CInt32 CFloat16 CFloat32 "
    "CFloat64 String Compound int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
)
COLORS: Final = frozenset(
    "Undefined Gray Palette Red Green Blue Alpha Hue Saturation Lightness Cyan Magenta Yellow Black YCbCr_Y YCbCr_Cb YCbCr_Cr "
    "Pan Coastal RedEdge NIR SWIR MWIR LWIR TIR OtherIR IR_Reserved_1 IR_Reserved_2 IR_Reserved_3 IR_Reserved_4 SAR_Ka SAR_K "
    "SAR_Ku SAR_X SAR_C SAR_S SAR_L SAR_P SAR_Reserved_1 SAR_Reserved_2".split()
)
_SHAPES: Final = (
    *(
        "Unknown (any)",
        "Unknown",
        "None",
        "Point",
        "Line String",
        "Polygon",
        "Multi Point",
        "Multi Line String",
    ),
    *(
        "Multi Polygon",
        "Geometry Collection",
        "Circular String",
        "Compound Curve",
        "Curve Polygon",
        "Multi Curve",
    ),
    *("Multi Surface", "Curve", "Surface", "PolyhedralSurface", "Polyhedral Surface", "TIN", "Triangle"),
)
# as OGR names them ("3D Multi Point") and as OGC does ("MultiPoint Z")
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
CRS_KINDS: Final = frozenset("compound geographic projected geocentric vertical local other".split())
DIMENSIONS: Final = frozenset("HORIZONTAL_X HORIZONTAL_Y VERTICAL TEMPORAL PARAMETRIC".split())
DIRECTIONS: Final = frozenset("EAST WEST SOUTH NORTH UP DOWN FUTURE PAST".split())
MASKS: Final = frozenset("ALL_VALID PER_DATASET ALPHA NODATA".split())
_COMPRESSIONS: Final = frozenset(
    "JPEG YCbCr JPEG2000 LZW PACKBITS DEFLATE CCITTRLE CCITTFAX3 CCITTFAX4 LZMA ZSTD LERC LERC_DEFLATE LERC_ZSTD WEBP JXL NONE "
    "GZIP ZLIB BLOSC LZ4 RLE SZIP BZIP2 PNG QB3 ZEN RUNLENGTH WAVELET".split()
) | {"YCbCr JPEG", "CCITT Group 3", "CCITT Group 4", "CCITT RLE"}
_AUTHORITIES: Final = re.compile(
    r"(?:EPSG:\d{1,9}|ESRI:\d{1,9}|IAU_2015:\d{1,9}|OGC:CRS(?:84|83|27|84h)|IGNF:[A-Z0-9_.]{1,24}|"
    r"(?:NKG|NRCAN|PROJ):[A-Z0-9_]{1,24})",
    re.ASCII,
)


@cache
def drivers() -> frozenset[str]:
    """Short names of the formats that GDAL has, and those that the container gives to what is no dataset."""
    return frozenset(driver.name for driver in catalogue().drivers) | {"text", "numpy", "MEM"}


@cache
def compressions() -> frozenset[str]:
    """The choices of every format's compression option."""
    declared = (
        choice
        for driver in catalogue().drivers
        for options in driver.options.values()
        for option in options
        if "COMPRESS" in option.name.upper()
        for choice in option.choices
    )
    return _COMPRESSIONS | frozenset(declared)


def number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return DROP
    if isinstance(value, int):  # first: one of a thousand digits is no float, not even an infinite one
        return value if abs(value) <= _LARGEST else DROP
    return value if math.isfinite(value) else DROP


def real(value: Any) -> Any:
    """A number, or the name of one that JSON has no way to write."""
    return value if isinstance(value, str) and value in _NAMED else number(value)


def count(value: Any) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= _LARGEST else DROP


def switch(value: Any) -> Any:
    return value if isinstance(value, bool) else DROP


def crs_code(value: Any) -> Any:
    """AUTH:CODE of an authority that PROJ knows, of the form that its codes have."""
    return value if isinstance(value, str) and _AUTHORITIES.fullmatch(value) else DROP


def word(words: Collection[str] | Callable[[], Collection[str]]) -> Rule:
    """One of these words; of a function, those that it gives when the first value is looked at."""

    def rule(value: Any) -> Any:
        known = words() if callable(words) else words
        return value if isinstance(value, str) and value in known else DROP

    return rule


def items(rule: Rule, most: int) -> Rule:
    """A list, cut after `most`. One that does not fit stays as null, so that names can be joined by position."""

    def checked(value: Any) -> Any:
        found = None if value is None else rule(value)
        return None if found is DROP else found

    return lambda value: [checked(one) for one in value[:most]] if isinstance(value, list) else DROP


def whole(rule: Rule, lengths: Collection[int]) -> Rule:
    """A list of one of these lengths in which everything fits."""

    def checked(value: Any) -> Any:
        if not isinstance(value, list) or len(value) not in lengths:
            return DROP
        kept = [rule(one) for one in value]
        return DROP if any(one is DROP for one in kept) else kept

    return checked


def shaped(rules: Mapping[str, Rule]) -> Rule:
    """An object's known keys; null stays, what does not fit is left out."""

    def checked(value: Any) -> Any:
        if not isinstance(value, dict):
            return DROP
        found = (
            (key, None if value[key] is None else rule(value[key]))
            for key, rule in rules.items()
            if key in value
        )
        return {key: one for key, one in found if one is not DROP}

    return checked


def rows(rule: Rule, most: int) -> Rule:
    """The values of an object as a list: its keys are names that stand in the data."""
    checked = items(rule, most)
    return lambda value: checked(list(value.values())) if isinstance(value, dict) else DROP


def kept(rule: Rule, value: Any) -> Mapping[str, Any]:
    """What a rule leaves of an object; nothing of what is none."""
    found = rule(value)
    return {} if found is DROP else found


DRIVER: Final = word(drivers)
TYPE: Final = word(DATA_TYPES)
