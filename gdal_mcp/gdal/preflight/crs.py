"""The few facts about coordinate reference systems that are needed without PROJ. Pure.

Only what is exact enough to be relied on: UTM on WGS 84 and its like, web Mercator, and degrees. Everything else is None,
never a guess.
"""

import math
import re
from collections.abc import Iterator
from typing import Final

from gdal_mcp.gdal.preflight.facts import Box

RADIUS: Final = 6378137.0  # metres, of the sphere of web Mercator and the equator of WGS 84
DEGREE: Final = math.pi / 180 * RADIUS  # metres of one degree along the equator
HALF_WORLD: Final = math.pi * RADIUS  # metres from the middle of web Mercator to each of its four sides

_CODE: Final = re.compile(r"EPSG:([0-9]{4,6})")
# Geographic CRSs of EPSG in degrees: the ranges without any other, and the usual single ones. From EPSG 12 as in PROJ's
# database; what is left out is "not known".
_GEOGRAPHIC: Final = (
    *(range(4120, 4217), range(4218, 4328), range(4600, 4647), range(4657, 4766)),
    *((4490,), (4937,), (4979,), (5340,), (6318, 6319), (6668,), (7844,), (9755,)),
)
_DEGREES_BY_NAME: Final = frozenset(
    {"OGC:CRS84", "OGC:CRS83", "OGC:CRS27", "WGS84", "WGS72", "NAD83", "NAD27"}
)
# codes whose last two digits are the zone, and whether it is a southern one: on WGS 84, ETRS89, NAD83 and NAD27. The last
# differs from the others by up to 200 m, which no use of this module notices.
_UTM: Final = (
    (range(32601, 32661), False),
    (range(32701, 32761), True),
    (range(25828, 25839), False),
    (range(26901, 26924), False),
    (range(26701, 26723), False),
)
_WEB_MERCATOR: Final = "EPSG:3857"
_MAX_LATITUDE: Final = 85.05112878
_SCALE, _FALSE_EASTING, _FALSE_NORTHING = 0.9996, 500_000.0, 10_000_000.0
_FLATTENING: Final = 1 / 298.257223563
# of the series of Krueger, taken to the third order: millimetres within the zone
_N: Final = _FLATTENING / (2 - _FLATTENING)
_MEAN: Final = RADIUS / (1 + _N) * (1 + _N**2 / 4 + _N**4 / 64)
_FAR: Final = 0.4  # radians from the middle, some 20 degrees: beyond, the series says nothing
_STEPS: Final = 8  # points along each side of a box; its sides are curves in another CRS


def degrees_of(code: str | None) -> bool | None:
    """Whether coordinates of a CRS are in degrees; None where that is not known here."""
    if code is None:
        return None
    name = code.strip().upper()
    if name in _DEGREES_BY_NAME:
        return True
    found = _CODE.fullmatch(name)
    number = int(found[1]) if found else 0
    if any(number in codes for codes in _GEOGRAPHIC):
        return True
    return False if name == _WEB_MERCATOR or _utm(name) else None


def same(first: str | None, second: str | None) -> bool:
    """Whether two codes are known and equal."""
    return first is not None and second is not None and first.strip().upper() == second.strip().upper()


def projected(extent: Box | None, source: str | None, target: str | None) -> Box | None:
    """The box around a box in another CRS; None where this module cannot tell."""
    if extent is None or source is None or target is None:
        return None
    if same(source, target):
        return extent
    points = [_to_degrees(x, y, source) for x, y in _outline(extent)]
    made = [None if point is None else _from_degrees(*point, target) for point in points]
    known = [point for point in made if point is not None]
    if len(known) != len(points):
        return None
    xs, ys = [x for x, _ in known], [y for _, y in known]
    return min(xs), min(ys), max(xs), max(ys)


def _outline(extent: Box) -> Iterator[tuple[float, float]]:
    west, south, east, north = extent
    for step in range(_STEPS + 1):
        x, y = west + (east - west) * step / _STEPS, south + (north - south) * step / _STEPS
        yield from ((x, south), (x, north), (west, y), (east, y))


def _to_degrees(x: float, y: float, source: str) -> tuple[float, float] | None:
    name = source.strip().upper()
    if name == _WEB_MERCATOR:
        return math.degrees(x / RADIUS), math.degrees(math.atan(math.sinh(y / RADIUS))) if abs(
            y
        ) < 1e8 else 90.0
    if zone := _utm(name):
        return _from_utm(x, y, *zone)
    inside = degrees_of(name) and abs(x) <= 360 and abs(y) <= 90
    return (x, y) if inside else None


def _from_degrees(longitude: float, latitude: float, target: str) -> tuple[float, float] | None:
    name = target.strip().upper()
    if degrees_of(name):
        return longitude, latitude
    if zone := _utm(name):
        return _to_utm(longitude, latitude, *zone)
    if name != _WEB_MERCATOR:
        return None
    clamped = math.radians(max(-_MAX_LATITUDE, min(_MAX_LATITUDE, latitude)))
    return math.radians(longitude) * RADIUS, math.asinh(math.tan(clamped)) * RADIUS


def _utm(name: str) -> tuple[int, bool] | None:
    """Zone and whether it is a southern one."""
    found = _CODE.fullmatch(name)
    number = int(found[1]) if found else 0
    return next(((number % 100, south) for codes, south in _UTM if number in codes), None)


def _from_utm(x: float, y: float, zone: int, south: bool) -> tuple[float, float] | None:  # noqa: FBT001 - of _utm
    """Longitude and latitude."""
    xi = (y - (_FALSE_NORTHING if south else 0.0)) / (_SCALE * _MEAN)
    eta = (x - _FALSE_EASTING) / (_SCALE * _MEAN)
    if abs(eta) > _FAR or abs(xi) > math.pi / 2:
        return None
    n = _N
    beta = (n / 2 - 2 * n**2 / 3 + 37 * n**3 / 96, n**2 / 48 + n**3 / 15, 17 * n**3 / 480)
    xi_ = xi - sum(b * math.sin(2 * j * xi) * math.cosh(2 * j * eta) for j, b in enumerate(beta, 1))
    eta_ = eta - sum(b * math.cos(2 * j * xi) * math.sinh(2 * j * eta) for j, b in enumerate(beta, 1))
    chi = math.asin(math.sin(xi_) / math.cosh(eta_))
    delta = (2 * n - 2 * n**2 / 3 - 2 * n**3, 7 * n**2 / 3 - 8 * n**3 / 5, 56 * n**3 / 15)
    latitude = chi + sum(d * math.sin(2 * j * chi) for j, d in enumerate(delta, 1))
    longitude = math.atan2(math.sinh(eta_), math.cos(xi_))
    return zone * 6 - 183 + math.degrees(longitude), math.degrees(latitude)


def _to_utm(longitude: float, latitude: float, zone: int, south: bool) -> tuple[float, float] | None:  # noqa: FBT001 - of _utm
    """Easting and northing."""
    aside = math.radians(longitude - (zone * 6 - 183))
    if abs(aside) > _FAR or abs(latitude) > 89:
        return None
    n, sine = _N, math.sin(math.radians(latitude))
    share = 2 * math.sqrt(n) / (1 + n)
    t = math.sinh(math.atanh(sine) - share * math.atanh(share * sine))
    xi = math.atan2(t, math.cos(aside))
    eta = math.atanh(math.sin(aside) / math.hypot(1, t))
    alpha = (n / 2 - 2 * n**2 / 3 + 5 * n**3 / 16, 13 * n**2 / 48 - 3 * n**3 / 5, 61 * n**3 / 240)
    x = eta + sum(a * math.cos(2 * j * xi) * math.sinh(2 * j * eta) for j, a in enumerate(alpha, 1))
    y = xi + sum(a * math.sin(2 * j * xi) * math.cosh(2 * j * eta) for j, a in enumerate(alpha, 1))
    return _FALSE_EASTING + _SCALE * _MEAN * x, (_FALSE_NORTHING if south else 0.0) + _SCALE * _MEAN * y
