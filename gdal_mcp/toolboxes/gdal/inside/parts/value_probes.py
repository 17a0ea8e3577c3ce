"""Runs the host's probes of a SELECT (`preflight/sql/probes.py`) whose columns have the wanted type."""

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.joins import columns_of
from gdal_mcp.toolboxes.gdal.inside.parts.tables import NUMBERS

KINDS = {"text": (ogr.OFTString,), "number": NUMBERS, "time": (ogr.OFTString, ogr.OFTDateTime)}
LABEL = "{label}"


def value_checks(counting):
    """Reports each code once, and the codes whose probes were left out or fail, as in a correlated subquery."""
    failed, reported, skipped = counting.failed, set(), set(counting.select["unprobed"])
    for probe in counting.select["probes"]:
        counting.failed = False
        if probe["code"] not in reported and (count := probed(counting, probe)) > 0:
            reported.add(probe["code"])
            yield {"code": probe["code"], "count": count}
        if counting.failed:
            skipped.add(probe["code"])
    counting.failed = failed
    if skipped := sorted(skipped - reported):
        yield {"code": "checks_skipped", "skipped": skipped}


def probed(counting, probe):
    """The number of values that a probe counts; 0 if its column has another type, or is not of one table."""
    owners = counting.owners_of([probe["column"]])
    kinds = columns_of(counting.layer_of(owners[0])) if len(owners) == 1 else {}
    kind = kinds.get(probe["column"][1])
    if kind is None or kind not in KINDS.get(probe["kind"], (kind,)):
        return 0
    rows = counting.rows(filtered=probe["filtered"], condition=probe["condition"])
    texts = (
        [name for name, kind in kinds.items() if kind == ogr.OFTString] if LABEL in probe["count"] else [""]
    )
    labels = (f'{owners[0]["alias"]}."{name}"' for name in texts)
    statements = (probe["count"].replace(LABEL, label) for label in labels)
    counts = [counting.count(f"SELECT {text} FROM {rows}") for text in statements]  # noqa: S608 - parts of a statement that the host has checked
    return max(counts, default=0)
