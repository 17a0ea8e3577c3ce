"""PROJ strings: one projection and its numbers. Pure.

Both sides are lists of what is known to be harmless: projections that are pure formulas, and parameters that are numbers,
flags or short words which PROJ looks up in its own tables. Everything that names a file (`nadgrids`, `geoidgrids`,
`grids`, `init`, `catalog`, `file` ...) or that chains operations (`pipeline`, `step`) is simply not on them.
"""

import re
from typing import Final

from gdal_mcp.gdal.catalogue.crs_text import SUGGESTION
from gdal_mcp.gdal.catalogue.errors import CrsRefused

MAX_PARAMETERS: Final = 64

PROJECTIONS: Final = frozenset(
    """
    adams_hemi adams_ws1 adams_ws2 aea aeqd airocean airy aitoff alsk apian august bacon bertin1953 bipc boggs bonne calcofi
    cass cc ccon cea chamb collg col_urban comill crast denoy dsea eck1 eck2 eck3 eck4 eck5 eck6 eqearth eqc eqdc euler
    etmerc fahey fouc fouc_s gall geocent geos gins8 gn_sinu gnom goode gs48 gs50 gstmerc guyou hammer hatano healpix igh
    igh_o imoll imoll_o imw_p isea ivea kav5 kav7 krovak labrd laea lagrng larr lask latlon latlong lcc lcca leac lee_os
    longlat lonlat loxim mbt_fps mbt_s mbtfpp mbtfpq mbtfps merc mil_os mill mod_krovak moll murd1 murd2 murd3 natearth
    natearth2 nell nell_h nicol nsper nzmg ob_tran ocea oea omerc ortel ortho patterson pconic peirce_q poly putp1 putp2
    putp3 putp3p putp4p putp5 putp5p putp6 putp6p qsc qua_aut rhealpix robin rouss rpoly s2 sinu somerc spilhaus stere
    sterea tcc tcea times tissot tmerc tobmerc tpeqd tpers tsea ups urm5 urmfps utm vandg vandg2 vandg3 vandg4 vitk1
    wag1 wag2 wag3 wag4 wag5 wag6 wag7 webmerc weren wink1 wink2 wintri
    """.split()
)
NUMBERS: Final = frozenset(
    """
    lat_0 lat_1 lat_2 lat_3 lat_ts lat_b lon_0 lon_1 lon_2 lon_3 lonc lon_wrap alpha gamma azi tilt k k_0 x_0 y_0 h zone
    a b rf f e es R R_lat_a R_lat_g to_meter vto_meter m n q M W
    o_lat_p o_lon_p o_alpha o_lon_c o_lat_c o_lon_1 o_lat_1 o_lon_2 o_lat_2
    north_square south_square rot_xy resolution aperture
    """.split()
)
FLAGS: Final = frozenset(
    "south over no_defs wktext geoc R_A R_V R_C R_a R_g R_h no_uoff no_off no_rot no_cut ns czech guam approx hyperbolic".split()
)
WORDS: Final = frozenset("datum ellps pm units vunits axis sweep shape orient UVtoST".split())

_WORD: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?"
    r"|[+-]?[0-9]{1,3}d(?:[0-9]{1,2}'?(?:[0-9]{1,2}(?:\.[0-9]{1,10})?\"?)?)?[NSEWnsew]?"
)


def check_proj_string(text: str) -> str:
    """The string with `+proj` in front and single spaces. Raises CrsRefused."""
    words = text.split()
    if len(words) > MAX_PARAMETERS:
        raise CrsRefused(f"the PROJ string has more than {MAX_PARAMETERS} parameters.", SUGGESTION)
    parameters = dict(_parameter(word) for word in words)
    if len(parameters) != len(words):
        raise CrsRefused("the PROJ string says a parameter twice.", SUGGESTION)
    if "proj" not in parameters:
        raise CrsRefused("the PROJ string has no +proj.", SUGGESTION)
    ordered = ("proj", *(name for name in parameters if name != "proj"))
    return " ".join(f"+{name}={parameters[name]}" if parameters[name] else f"+{name}" for name in ordered)


def _parameter(word: str) -> tuple[str, str]:
    name, _, value = word.removeprefix("+").partition("=")
    if not word.startswith("+") or not _allowed(name, value):
        raise CrsRefused(
            "the PROJ string has a parameter that is not allowed: grids, files, initialisation and chained "
            "operations never are, and values are numbers or short names.",
            SUGGESTION,
        )
    return name, value


def _allowed(name: str, value: str) -> bool:
    if name in ("proj", "o_proj"):
        return value in PROJECTIONS
    if name == "type":
        return value == "crs"
    if name == "towgs84":
        parts = value.split(",")
        return len(parts) in (3, 7) and all(_NUMBER.fullmatch(part) for part in parts)
    if name in FLAGS:
        return value == ""
    if name in NUMBERS:
        return _NUMBER.fullmatch(value) is not None
    return name in WORDS and (_WORD.fullmatch(value) or _NUMBER.fullmatch(value)) is not None
