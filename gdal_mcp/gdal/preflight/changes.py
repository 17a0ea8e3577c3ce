"""The changes of CRS that a draft makes, by its arguments. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gdal_mcp.gdal.catalogue.formats import driver_for
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.plan import Draft

# from and to, as the call spells them, "" the CRS of the data; the area of interest that it tells PROJ
Change = tuple[str, str, str]

_LABELS: Final = frozenset(
    {"raster edit", "vector edit"}
)  # which say what the CRS is, and change no coordinate
_MOVES: Final = frozenset(
    {
        *("raster reproject", "raster footprint", "raster index"),
        *("vector reproject", "vector concat", "vector index"),
    }
)
# the only CRS that a format has
_WRITES_IN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("KML", "LIBKML", "KMLSUPEROVERLAY", "GPX", "GeoJSONSeq"), "EPSG:4326"),
    **dict.fromkeys(("MVT", "PMTiles", "MBTiles"), "EPSG:3857"),
}
_WEB: Final = "WebMercatorQuad"
_MOST: Final = 4
_MAX_TEXT: Final = 4096  # characters of one CRS


def changes_named(draft: Draft, catalogue: Catalogue) -> tuple[Change, ...]:
    """In the order in which they are made; those of branches are not among them."""
    found = [one for one in dict.fromkeys(_named(draft, catalogue)) if max(map(len, one)) <= _MAX_TEXT]
    return tuple(found[:_MOST])


def key(change: Change) -> str:
    """As the container names what it says of a change."""
    return "\n".join(change)


def _named(draft: Draft, catalogue: Catalogue) -> Iterator[Change]:
    current = ""  # the CRS at each step
    steps = draft.chain or ((draft.algorithm, draft.arguments),)
    for path, arguments in steps:
        given = {name: values[0] for name, values in arguments.items() if values}
        if path in _LABELS and "crs" in given:
            current = given["crs"]
        elif path in _MOVES and "output-crs" in given:
            warp = _options(arguments.get("transform-option", ()))
            if "COORDINATE_OPERATION" not in warp:  # else the call itself says which
                yield given.get("input-crs") or current, given["output-crs"], warp.get("AREA_OF_INTEREST", "")
            current = given["output-crs"]
        if "bbox" in given and "bbox-crs" in given:  # the box is what is transformed
            yield given["bbox-crs"], current, ""
    if demanded := _demanded(draft, steps[-1], catalogue):
        yield current, demanded, ""


def _demanded(
    draft: Draft, last: tuple[str, Mapping[str, tuple[str, ...]]], catalogue: Catalogue
) -> str | None:
    """The CRS that the output's format is in, whatever the data is in."""
    path, arguments = last
    if path == "raster tile":
        return "EPSG:3857" if arguments.get("tiling-scheme", (_WEB,)) == (_WEB,) else None
    if draft.output is None:
        return None
    options = _options((*arguments.get("creation-option", ()), *arguments.get("layer-creation-option", ())))
    if options.get("TILING_SCHEME") == "GOOGLEMAPSCOMPATIBLE":
        return "EPSG:3857"
    if options.get("RFC7946") == "YES":
        return "EPSG:4326"
    algorithm = catalogue.algorithms.get(path)
    kind = (algorithm.makes or algorithm.kind) if algorithm else None
    named = arguments.get("output-format", ())
    driver = named[0] if named else driver_for(catalogue, draft.output.target.name, kind)
    return _WRITES_IN.get(driver or "")


def _options(texts: Iterable[str]) -> dict[str, str]:
    pairs = (text.upper().partition("=") for text in texts)
    return {key.strip(): value.strip() for key, _, value in pairs}
