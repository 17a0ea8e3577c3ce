"""Compares the prediction of an output with the facts that a container reported about it. Pure.

Only facts that affect later steps are compared, and only if both values are known. The size of a raster is not
compared, because the prediction may differ by a pixel.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.layers import dimensions, family

Pair = tuple[str, str]  # the predicted and the actual value

# formats that store every data type and nodata value without a change
_EXACT: Final = frozenset({"GTiff", "COG", "VRT"})
# formats that store the dimensions of a layer's coordinates
_KEEPS_DIMENSIONS: Final = frozenset({"GPKG", "FlatGeobuf", "Parquet"})
_NO_GEOMETRY: Final = "None"


def contradictions(predicted: DatasetFacts, reported: DatasetFacts) -> Mapping[str, Pair]:
    """The names of the facts that differ, each with the predicted and the actual value as text."""
    if predicted.kind != reported.kind:
        return {"kind": (predicted.kind, reported.kind)}
    of_kind = _of_rasters if reported.kind == "raster" else _of_layers
    return dict((*_of_crs(predicted, reported), *of_kind(predicted, reported)))


def _of_crs(predicted: DatasetFacts, reported: DatasetFacts) -> Iterator[tuple[str, Pair]]:
    """Yields a difference in the CRS. A CRS that was not predicted is not a difference, because some formats imply
    one.
    """
    if predicted.crs and reported.crs and predicted.crs != reported.crs:
        yield "CRS", (predicted.crs, reported.crs)
    elif predicted.has_crs and reported.has_crs is False:
        yield "CRS", (predicted.crs or "a CRS without a code", "none")


def _of_rasters(predicted: DatasetFacts, reported: DatasetFacts) -> Iterator[tuple[str, Pair]]:
    estimated = predicted.bands_estimated or reported.bands_estimated
    if not estimated and predicted.bands != reported.bands:
        yield "number of bands", (str(predicted.bands), str(reported.bands))
    if predicted.driver not in _EXACT:
        return
    if predicted.data_type and reported.data_type and _type(predicted) != _type(reported):
        yield "data type", (_type(predicted), _type(reported))
    if predicted.nodata is not None and not _is_same(predicted.nodata, reported.nodata):
        actual = "none" if reported.nodata is None else f"{reported.nodata:.9g}"
        yield "nodata value", (f"{predicted.nodata:.9g}", actual)


def _type(facts: DatasetFacts) -> str:
    return "UInt8" if facts.data_type == "Byte" else facts.data_type


def _is_same(predicted: float, reported: float | None) -> bool:
    """True if the values are equal as single-precision numbers."""
    if reported is None or math.isnan(predicted) or math.isnan(reported):
        return reported is not None and math.isnan(predicted) == math.isnan(reported)
    return math.isclose(predicted, reported, rel_tol=1e-6)


def _of_layers(predicted: DatasetFacts, reported: DatasetFacts) -> Iterator[tuple[str, Pair]]:
    types = _geometry(predicted), _geometry(reported)
    if "" not in types and types[0] != types[1]:
        yield "geometry type", types
    elif "" not in types and predicted.driver in _KEEPS_DIMENSIONS:
        before, after = dimensions(predicted.geometry), dimensions(reported.geometry)
        if before and before != after:  # a type without heights and measures predicts nothing about them
            yield "coordinates", (f"XY{before}", f"XY{after}")
    if predicted.schema is not None and len(predicted.schema.fields) != reported.fields:
        yield "number of fields", (str(len(predicted.schema.fields)), str(reported.fields))
    if predicted.features and reported.features == 0:
        yield "number of features", (str(predicted.features), "0")


def _geometry(facts: DatasetFacts) -> str:
    """The geometry type without the distinction between single and multi; "" if it is unknown or mixed."""
    return facts.geometry if facts.geometry == _NO_GEOMETRY else family(facts.geometry)
