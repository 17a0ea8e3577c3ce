"""Checks short texts by one pattern each, such as sizes, field names, formulas and media types. Pure.

Invariant: GDAL opens none of these texts as a file; those with a closed pattern cannot even look like a path. The
limits of the call bound what a formula computes and how long it takes.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.values import check_text

# Each number can match in only one way: with two ways, a long list that does not match would backtrack exponentially.
_NUMBER: Final = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,3})?"
_BAND: Final = r"[1-9][0-9]{0,4}"
_FIELD: Final = r"(?![@~/])[^\"`;\\<>{}]{1,128}"
_METADATA: Final = r"(?![@~])[^\"'`;\\<>{}=/]{1,128}"
_COLOR: Final = r"[0-9]{1,5}(?:,[0-9]{1,5}){0,3}|black|white"
_BAND_COLORS: Final = (
    "gray|red|green|blue|alpha|palette|undefined|hue|saturation|lightness|cyan|magenta|yellow|black"
)
# Formulas of bands: no quote, brace or semicolon, no two slashes or dots in a row, and no leading slash.
_FORMULA: Final = r"(?![/<>=*^%])(?!.*(?:\.\.|//))[A-Za-z0-9_ .,()\[\]+\-*/%^<>=!&|?:]+"
_ROW: Final = rf"\[{_NUMBER}(?:,{_NUMBER}){{0,98}}\]"  # GDAL accepts up to 99 x 99
_END: Final = rf"(?:{_NUMBER}|[+-]?inf)"
_RANGE: Final = rf"(?:[\[(]\s*{_END}\s*,\s*{_END}\s*[\])]|{_NUMBER}|NO_DATA|DEFAULT)"
_ITEM: Final = rf"\s*{_RANGE}\s*=\s*(?:{_NUMBER}|NO_DATA|PASS_THROUGH)\s*"
_LONG: Final = 48 << 10  # bytes; the kernel allows 128 KiB for one command-line argument


def _without_blanks(text: str) -> str:
    return "".join(text.split())


@dataclass(frozen=True, slots=True)
class Plain:
    """A pattern for a whole text after `tidied`, an example for the error message, and a limit in bytes."""

    pattern: str
    example: str
    limit: int = 1024
    tidied: Callable[[str], str] = str

    def check(self, text: str, what: str) -> str:
        """The tidied text. Raises ArgumentRefused if it does not match."""
        plain = check_text(self.tidied(text), what, limit=self.limit)
        if not re.fullmatch(self.pattern, plain) or "/../" in f"/{plain}/":
            raise ArgumentRefused(f"{what} is not of the expected form.", f"For example {self.example}.")
        return plain


PLAIN: Final[Mapping[str, Plain]] = {
    "array-option": Plain(r"[A-Z][A-Z0-9_]{0,31}=[A-Za-z0-9_.-]{1,64}", "SHOW_ALL=YES"),
    "band": Plain(rf"{_BAND}|mask(?::{_BAND})?|none|[a-z_]{{2,32}}", "1, mask:1 or red"),
    "by-band": Plain(rf"(?:{_BAND}=)?{_NUMBER}", "2.5, or 1=2.5 for the first band"),
    # a muparser expression, or a call of a built-in function such as mul(k=2)
    "calc": Plain(_FORMULA, "(A - B) / (A + B), sqrt(A), or A > 3 ? A : 0", limit=4096, tidied=str.strip),
    "color": Plain(_COLOR, "255,255,255 or black"),
    "color-interpretation": Plain(
        rf"(?:(?:{_BAND}|all)=)?(?:{_BAND_COLORS}|[a-z_0-9]{{2,32}})", "red, or 1=red"
    ),
    "fetch-metadata": Plain(
        r"[A-Za-z0-9_ :.-]{1,128},[^\W\d]\w{0,63},[A-Za-z0-9]{2,32}", "TIFFTAG_DATETIME,taken,DateTime"
    ),
    "field": Plain(_FIELD, "population"),
    "field-definition": Plain(
        r"[^\"'`;\\<>{}:@,]{1,128}:[A-Za-z][A-Za-z0-9]{1,31}(?:\([0-9]{1,4}(?:,[0-9]{1,3})?\))?",
        "population:Integer or name:String(40)",
    ),
    "file-pattern": Plain(
        r"(?!\.)(?:[A-Za-z0-9_. -]|\{LAYER_NAME\}|\{FIELD_VALUE\})*%0?[0-9]{0,2}d"
        r"(?:[A-Za-z0-9_. -]|\{LAYER_NAME\}|\{FIELD_VALUE\})*",
        "part_%05d",
        limit=128,
    ),
    "gcp": Plain(rf"{_NUMBER}(?:,{_NUMBER}){{3,4}}", "0,0,440720,3751320[,12.5]", tidied=_without_blanks),
    "kernel": Plain(
        rf"edge1|edge2|equal|gaussian|sharpen|u|unsharp-masking|v|\[{_ROW}(?:,{_ROW}){{0,98}}\]",
        "gaussian or [[0,1,0],[1,2,1],[0,1,0]]",
        limit=_LONG,
        tidied=_without_blanks,
    ),
    "label": Plain(r"[^\W_][\w .,()-]{0,63}", "DE"),
    "letters": Plain(r"[^\w\s]{1,32}|\w", "_"),
    "level": Plain(rf"{_NUMBER}|MIN|MAX", "100, MIN or MAX", tidied=str.upper),
    "mapping": Plain(
        rf"(?i:{_ITEM}(?:;{_ITEM})*)",
        "[1,3]=10; (3,7]=20; 9=30; NO_DATA=0; DEFAULT=NO_DATA",
        limit=_LONG,
        tidied=lambda text: text.strip().removesuffix(";"),
    ),
    "media-type": Plain(r"[a-z]+/[A-Za-z0-9.+-]{1,64}(?:; ?[a-z]+=[A-Za-z0-9.+-]{1,64})*", "image/tiff"),
    "metadata": Plain(rf"{_METADATA}=[^\0]*", "SOURCE=survey of 2024", limit=4096),
    "metadata-name": Plain(_METADATA, "AREA_OR_POINT"),
    "multidim": Plain(
        # `..` would lead to another group; `...` for the remaining dimensions is accepted
        r"(?!.*(?://|(?<![\[,.])\.\.|\.\.(?![.,\]])))[A-Za-z0-9_ .,:()\[\]/=+\-\"]{1,512}",
        "/group/array, name=temp,view=[0,...], time(0,10) or lat(2)",
    ),
    "name-filter": Plain(r"(?![@~])[^/\\\"'`;<>{}]{1,128}", "*.tif"),
    "page-text": Plain(r"[^<>&\"'`\\{}$]{0,200}", "Elevation 2024"),
    "page-url": Plain(
        r"https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/%+-]{0,512})?",
        "https://example.org/tiles/",
    ),
    "percentage": Plain(r"[0-9]{1,10}(?:\.[0-9]{1,6})? ?%?", "512, or 50%"),
    "pixel-function-argument": Plain(
        rf"[A-Za-z_][A-Za-z0-9_]{{0,31}}={_FORMULA}", "k=2, or expression=A+B", limit=4096
    ),
    "point-count": Plain(r"[0-9]{1,9}|unlimited", "100"),
    "resolution": Plain(rf"{_NUMBER},{_NUMBER}|same|average|common|highest|lowest", "10,10 or highest"),
    "size": Plain(r"[0-9]{1,12}(?:\.[0-9]{1,6})? ?(?:%|[KMG]B?|B)?", "10%, or 100MB"),
    "template": Plain(
        r"(?:[\w .:()-]|\{(?:AUTO_NAME|DS_NAME|DS_BASENAME|DS_INDEX|LAYER_NAME|LAYER_INDEX)\}){1,256}",
        "{DS_BASENAME}",
    ),
    "tuples": Plain(r"[0-9.,(){}eE+\- ]{1,512}", "(255,255,255),(0,0,0)"),
    "word": Plain(r"[A-Za-z][A-Za-z0-9_ -]{0,31}", "MultiPolygon"),
}
