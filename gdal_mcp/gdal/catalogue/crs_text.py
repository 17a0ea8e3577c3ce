"""What every text inside a CRS obeys, whatever its form. Pure."""

import re
import unicodedata
from typing import Final

from gdal_mcp.gdal.catalogue.errors import CrsRefused

SUGGESTION: Final = (
    "Give an authority code such as EPSG:4326 or ESRI:102001, a PROJ string of one projection, WKT or PROJJSON. "
    "For web Mercator write EPSG:3857."
)
MAX_DEPTH: Final = 24  # a bound and compound CRS of EPSG nests 9 deep

_INVISIBLE: Final = frozenset(
    ("Cc", "Cf", "Cs", "Zl", "Zp")
)  # not Zs: some names of EPSG hold a no-break space

# What makes PROJ open something although it stands in a name: `GEOIDMODEL["PROJ file"]`, `METHOD["PROJ grids=file"]`,
# and strings that an importer might hand to a file or network call.
_RESOURCE: Final = re.compile(
    r"""
      (^|[\s,;:=("'\[])[/~@](?=\S)     # an absolute path, a home folder, an optional grid
    | \\ | \.\./ | \./ | /\. | //    # parts of paths and URLs; ` / ` in names such as WGS 84 / UTM is none
    | /vsi
    | ^\s*PROJ[\s_-]                 # PROJ's own escape from names to PROJ strings and files
    | (proj|init|grids|file|step|catalog)\s*=
    | \+\s*(proj|init|step|nadgrids|geoidgrids|grids)\b
    | \.(gsb|gtx|gvb|gsa|tif|tiff|ct2|lla|las|los|dat|asc|bin|byn|mnt|json|xml|prj|wkt|txt|db|sqlite|gpkg|ini|so
      |pol|lst|nlb|vrt|grd|hdf|h5)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def one_line(text: str, limit: int) -> str:
    """The text itself if it is printable, on one line and short enough (bytes). Raises CrsRefused."""
    if not text.isprintable():
        raise CrsRefused("the CRS holds a control character or a line break.", SUGGESTION)
    if len(text.encode()) > limit:
        raise CrsRefused("the CRS is too long for its form.", SUGGESTION)
    return text


def inner_text(text: str) -> str:
    """The text itself if it is a plain name or remark. Raises CrsRefused if it might name a file, grid or URL."""
    if any(unicodedata.category(letter) in _INVISIBLE for letter in text):
        raise CrsRefused("a name in the CRS holds a control character.", SUGGESTION)
    if _RESOURCE.search(text):
        raise CrsRefused(
            "a name in the CRS looks like a file, a grid, a URL or a PROJ operation.", SUGGESTION
        )
    return text
