"""Values that a call would lose, by what a container saw in the input's pixels. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gdal_mcp.gdal.preflight.checks.finding import Finding
from gdal_mcp.gdal.preflight.looks import CLASSES, HOLES, OVERVIEWS, PICTURES, SHARES

_EIGHT_BITS: Final = PICTURES | {"UInt8", "Byte"}
_WIDER: Final = (
    "Keep the type, or choose a wider one: Float32 for fractions, Int32 or Float64 for large whole numbers."
)


def findings(looks: Mapping[str, Mapping[str, Any]], nodata: float | None = None) -> Iterator[Finding]:
    """`looks` are those that the call asks for, by their names; `nodata` is the input's."""
    for name, seen in looks.items():
        if name == HOLES and seen.get("holes"):
            yield Finding(
                "nodata_not_propagated",
                "the input has pixels without data, and the formula computes with their nodata value as if it were a number.",
                "Add propagate-nodata, which keeps them nodata.",
                change={"propagate-nodata": ("true",)},
            )
        elif name == CLASSES and seen.get("classes"):
            yield Finding(
                "classes_mixed",
                "the pixels look like codes of classes, and this resampling or compression makes values between them, which mean "
                "nothing.",
                "Use resampling nearest or mode, and a compression that loses nothing, such as DEFLATE or ZSTD.",
            )
        elif name == OVERVIEWS and seen.get("classes"):
            yield Finding(
                "classes_mixed",
                "the pixels look like codes of classes, and the overviews of a COG are made by cubic resampling unless said otherwise: "
                "from afar there are classes that mean nothing.",
                "Add the creation option OVERVIEW_RESAMPLING=MODE, or NEAREST.",
                change={"creation-option": ("OVERVIEW_RESAMPLING=MODE",)},
            )
        elif name == SHARES and seen.get("mask"):
            yield Finding(
                "values_rounded",
                "the pixels are zeros and ones, whose mean is a share, and their type rounds it to 0 or 1.",
                "Put the step `set-type` with output-data-type Float32 before it.",
            )
        elif seen.get("count"):
            yield from _lost(name, seen, nodata)


def _lost(kind: str, seen: Mapping[str, Any], nodata: float | None) -> Iterator[Finding]:
    of = {"of": seen["count"]}
    what = f"{kind} pictures" if kind in PICTURES else kind
    if outside := seen.get("outside"):
        low, high = seen.get("minimum"), seen.get("maximum")
        yield Finding(
            "values_clamped",
            f"values from {low:g} to {high:g} do not fit into {what}; those beyond are cut to its lowest and highest value.",
            "Scale them first with `raster scale` (input-min, input-max, output-min, output-max), or choose a wider type.",
            steps=_scaled(kind, seen, nodata),
            numbers={"count": outside, **of, "minimum": low, "maximum": high},
        )
    if nan := seen.get("nan"):
        yield Finding(
            "nan_lost",
            f"pixels that are NaN become 0 in {what}, as if that had been measured.",
            "Fill them first with `raster fill-nodata`, or choose Float32.",
            numbers={"count": nan, **of},
        )
    if not outside and (fractional := seen.get("fractional")):
        yield Finding(
            "values_rounded",
            f"values with a fraction are rounded to whole numbers in {what}.",
            _WIDER,
            numbers={"count": fractional, **of},
        )
    if digits := seen.get("digits"):
        yield Finding(
            "digits_lost",
            f"whole numbers are too large for {what}, which changes their last digits: different ids may become equal.",
            _WIDER,
            numbers={"count": digits, **of},
        )


def _scaled(kind: str, seen: Mapping[str, Any], nodata: float | None) -> list[dict[str, Any]]:
    """The whole range spread over eight bits; 0 is kept for what is nodata."""
    if kind not in _EIGHT_BITS or seen.get("nan") or not seen.get("exact"):
        return []
    keeps = nodata is not None
    scale: dict[str, Any] = {
        "input-min": seen["minimum"],
        "input-max": seen["maximum"],
        "output-min": 1 if keeps else 0,
        "output-max": 255,
        "output-data-type": "UInt8",
    }
    steps: list[dict[str, Any]] = [{"step": "scale", "arguments": scale}]
    if keeps:
        steps.append({"step": "edit", "arguments": {"nodata": "0"}})
    return steps
