"""Restores full statistics in GDAL's report of a raster: GDAL prints three decimals, 0 for small values."""

import json

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import plain, quiet

STATISTICS = {"minimum": "MINIMUM", "maximum": "MAXIMUM", "mean": "MEAN", "stdDev": "STDDEV"}
COMPUTED = ("computedMin", "computedMax")


def with_full_numbers(text, job):
    """The report with full statistics; unchanged if it has no statistics, or is not JSON."""
    if not any(f'"{name}"' in text for name in (*STATISTICS, *COMPUTED)):
        return text
    try:
        report = json.loads(text)
    except ValueError:
        return text
    bands = report.get("bands") if isinstance(report, dict) else None
    with quiet():
        dataset = gdal.OpenEx(name_of(job), gdal.OF_RASTER, open_options=option_values(job, "--open-option="))
        if not bands or dataset is None or dataset.RasterCount < len(bands):
            return text
        for row in bands:
            replace_numbers(row, dataset.GetRasterBand(row["band"]))
    return json.dumps(report)


def name_of(job):
    """The name of the dataset that the command reads: the argument that contains the path of its file."""
    sources = job.get("sources") or job.get("inputs") or ["\0"]
    path = sources[0]
    word = next((word for word in job.get("options", ()) if path in word), path)
    return word.partition("=")[2] if word.startswith("--") else word


def option_values(job, option):
    return [word.removeprefix(option) for word in job.get("options", ()) if word.startswith(option)]


def replace_numbers(row, band):
    texts = row.get("metadata", {}).get("", {})
    for name, stored in STATISTICS.items():
        if name in row and (value := texts.get(f"STATISTICS_{stored}")) is not None:
            row[name] = plain(float(value))
    if not set(COMPUTED) & row.keys() or gdal.DataTypeIsComplex(band.DataType):
        return
    limits = band.ComputeRasterMinMax(False, can_return_none=True)
    if limits is not None:
        row.update(zip(COMPUTED, map(plain, limits), strict=True))
