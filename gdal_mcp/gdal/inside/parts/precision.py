"""GDAL's report of a raster with its statistics in full: GDAL prints three decimals of them, which is 0 for small values."""

import json

from osgeo import gdal

from gdal_mcp.gdal.inside.parts.reporting import plain, quiet

STATISTICS = {"minimum": "MINIMUM", "maximum": "MAXIMUM", "mean": "MEAN", "stdDev": "STDDEV"}
COMPUTED = ("computedMin", "computedMax")


def with_full_numbers(text, algorithm):
    """The same text where it holds no statistics, or is no JSON."""
    if not any(f'"{name}"' in text for name in (*STATISTICS, *COMPUTED)):
        return text
    try:
        report = json.loads(text)
        names = algorithm.GetArgNames()
        argument = algorithm.GetArg("dataset" if "dataset" in names else "input")
        dataset = argument.Get().GetDataset()
    except (ValueError, AttributeError, RuntimeError):
        return text
    bands = report.get("bands") if isinstance(report, dict) else None
    if not bands or dataset is None or dataset.RasterCount < len(bands):
        return text
    with quiet():
        for row in bands:
            replace_numbers(row, dataset.GetRasterBand(row["band"]))
    return json.dumps(report)


def replace_numbers(row, band):
    for name, stored in STATISTICS.items():
        value = band.GetMetadataItem(f"STATISTICS_{stored}")
        if name in row and value is not None:
            row[name] = plain(float(value))
    if not set(COMPUTED) & row.keys() or gdal.DataTypeIsComplex(band.DataType):
        return
    found = band.ComputeRasterMinMax(False, can_return_none=True)
    if found is not None:
        row.update(zip(COMPUTED, map(plain, found), strict=True))
