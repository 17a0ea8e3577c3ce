"""The information about the inputs of a draft that a container is requested to report before the draft runs."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gdal_mcp.plan import AlgorithmStep, Draft
from gdal_mcp.toolboxes.gdal.catalogue.formats import FormatAbsent, lacking_by_file
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.preflight.checks import (
    transformations,
    values,
)
from gdal_mcp.toolboxes.gdal.preflight.sql.reading import codes_named

# arguments that name a CRS, each with the arguments that require the inputs' extent in that CRS; PROJ needs
# milliseconds to compute it
_CRS_ARGUMENTS: Final = {"output-crs": ("resolution", "size"), "bbox-crs": ("bbox",)}
# arguments with a CRS that PROJ must know
_NAMING: Final = ("output-crs", "input-crs", "bbox-crs", "crs", "geometry-crs")
# algorithms whose output is wrong across the antimeridian
_ABOUT_180: Final = frozenset({"raster reproject", "raster footprint"})
# a worker's row for a dataset that opens, but that it failed to describe
FAILED: Final[Mapping[str, Any]] = {"failed": True}
_MAX_CRS: Final = 4  # CRSs for which extents are requested
_MAX_CRS_TEXT: Final = 4096  # characters


def description_request(draft: Draft, catalogue: Catalogue) -> dict[str, Any]:
    """The request for information about the inputs in addition to their facts."""
    return {
        "crs": crs_to_describe(draft),
        "changes": transformations.crs_changes(draft, catalogue),
        "looks": values.pixel_probes(draft, catalogue),
    }


def absent_format(catalogue: Catalogue, name: str, row: Any) -> FormatAbsent | None:
    """The error for a file whose format the image lacks; None for other files.

    The format is recognized by the file's first bytes, in hexadecimal (`head`).
    """
    head = row.get("head") if isinstance(row, Mapping) else None
    if not isinstance(head, str) or not re.fullmatch(r"([0-9a-f]{2}){1,16}", head):
        return None
    lacks = lacking_by_file(catalogue, name, bytes.fromhex(head))
    return FormatAbsent(catalogue, lacks, reads=True) if lacks is not None else None


def every_crs(draft: Draft) -> tuple[str, ...]:
    """Each CRS in the arguments, as spelled there; a CRS in SQL as EPSG:CODE."""
    steps = (AlgorithmStep(draft.work.algorithm, draft.work.arguments), *draft.work.chain)
    texts = [text for _, arguments in steps for name in _NAMING for text in arguments.get(name, ())]
    texts += [
        code for _, arguments in steps for text in arguments.get("sql", ()) for code in codes_named(text)
    ]
    return tuple(text for text in dict.fromkeys(texts) if text.lower() not in ("none", "null"))


def crs_to_describe(draft: Draft) -> tuple[str, ...]:
    """The CRSs in which the inputs' extent is needed, then the other CRSs of the call with the prefix `?`.

    They are spelled as in the call.
    """
    texts: list[str] = []
    steps = (AlgorithmStep(draft.work.algorithm, draft.work.arguments), *draft.work.chain)
    for _, arguments in steps:
        for name, needed_for in _CRS_ARGUMENTS.items():
            if any(arguments.get(argument) for argument in needed_for):
                texts += arguments.get(name, ())
    texts += [
        text for path, arguments in steps if path in _ABOUT_180 for text in arguments.get("output-crs", ())
    ]
    reprojections = [arguments for path, arguments in draft.work.chain if path == "vector reproject"]
    texts += [text for arguments in reprojections for text in arguments.get("output-crs", ())]
    texts += ["EPSG:3857" for path, _ in steps if path == "raster tile"]
    texts += [f"?{text}" for text in every_crs(draft) if text not in texts]
    return tuple(dict.fromkeys(text for text in texts if len(text) <= _MAX_CRS_TEXT))[:_MAX_CRS]
