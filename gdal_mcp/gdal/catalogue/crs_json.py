"""PROJJSON: parsed strictly, walked against lists of known members and types, written again. Pure."""

import json
import math
from typing import Any, Final

from gdal_mcp.gdal.catalogue.crs_text import MAX_DEPTH, SUGGESTION, inner_text
from gdal_mcp.gdal.catalogue.errors import CrsRefused

ROOTS: Final = frozenset(
    """
    GeographicCRS GeodeticCRS ProjectedCRS VerticalCRS CompoundCRS BoundCRS EngineeringCRS DerivedGeographicCRS
    DerivedGeodeticCRS DerivedProjectedCRS DerivedVerticalCRS DerivedEngineeringCRS
    """.split()
)
TYPES: Final = ROOTS | frozenset(
    """
    GeodeticReferenceFrame DynamicGeodeticReferenceFrame VerticalReferenceFrame DynamicVerticalReferenceFrame DatumEnsemble
    EngineeringDatum Ellipsoid PrimeMeridian CoordinateSystem Axis Conversion AbridgedTransformation OperationMethod
    ParameterValue LinearUnit AngularUnit ScaleUnit Unit Meridian
    """.split()
)
MEMBERS: Final = frozenset(
    """
    type name id ids authority code version authority_citation datum datum_ensemble members ellipsoid accuracy
    semi_major_axis semi_minor_axis inverse_flattening radius prime_meridian longitude unit value coordinate_system subtype
    axis abbreviation direction meridian conversion_factor minimum_value maximum_value range_meaning base_crs conversion
    method parameters components source_crs target_crs transformation bbox south_latitude west_longitude
    north_latitude east_longitude vertical_extent minimum maximum usages anchor anchor_epoch frame_reference_epoch
    geoid_model geoid_models
    """.split()
)
_DROPPED: Final = (
    "$schema",
    "remarks",
    "scope",
    "area",
)  # a URL that PROJ never reads; prose, with URLs and line breaks


def check_projjson(text: str) -> str:
    """The same PROJJSON, compact and without schema URL and prose. Raises CrsRefused."""
    document = _parsed(text)
    if document.get("type") not in ROOTS:
        raise CrsRefused("the JSON is not a CRS in PROJJSON.", SUGGESTION)
    _check(document, 1)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _parsed(text: str) -> dict[str, Any]:
    try:
        document = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise CrsRefused("the text is not well-formed JSON.", SUGGESTION) from error
    if not isinstance(document, dict):
        raise CrsRefused("the JSON is not an object.", SUGGESTION)
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise CrsRefused("the JSON says a member twice.", SUGGESTION)
    return {name: member for name, member in members.items() if name not in _DROPPED}


def _no_constant(_name: str) -> float:
    raise CrsRefused("NaN and infinity are not JSON.", SUGGESTION)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_constant(text)  # 1e999 is read as infinity


def _check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CrsRefused(f"the PROJJSON is nested deeper than {MAX_DEPTH} levels.", SUGGESTION)
    if isinstance(value, dict):
        for name, member in value.items():
            _check_member(name, member)
            _check(member, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, str):
        inner_text(value)


def _check_member(name: str, member: Any) -> None:
    if name not in MEMBERS:
        raise CrsRefused(
            f"{name[:40]!r} is not allowed in PROJJSON: files, URLs and operations are not part of a CRS.",
            SUGGESTION,
        )
    if name == "type" and member not in TYPES:
        raise CrsRefused("the PROJJSON holds an object of a type that is no part of a CRS.", SUGGESTION)
    if name == "value" and not isinstance(member, int | float):
        raise CrsRefused("a parameter of the PROJJSON is not a number.", SUGGESTION)
