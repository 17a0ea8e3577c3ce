"""Re-opens every output and says what it is, in three parts: facts, names, checks."""

import os

from gdal_mcp.gdal.inside.parts import checks, trees
from gdal_mcp.gdal.inside.parts.datasets import facts_and_names, opened, write_only_driver
from gdal_mcp.gdal.inside.parts.pixels import look
from gdal_mcp.gdal.inside.parts.reporting import decoded, quiet


def describe_all(job, errors):
    """In the order of the job's outputs. An output that is not there or does not open is an error of the command."""
    sources = job.get("sources", job["inputs"])
    return [decoded(described(output, sources, errors)) for output in job["outputs"]]


def described(output, sources, errors):
    path, kind = output["path"], output["kind"]
    if not os.path.lexists(path):
        errors.fail(f"{os.path.basename(path)} was not created")
        return told({})
    if kind in trees.KINDS:
        return told(*trees.KINDS[kind](path))
    with quiet() as heard:
        dataset = opened(path, heard)
    if dataset is None and (driver := write_only_driver(path)):
        return told({"driver": driver, **trees.file(path)[0]})
    errors.take(heard)
    if dataset is None:
        return told({})
    with quiet():  # what only the description fails at is no fault of the command
        answer = of_dataset(path, dataset, sources)
        dataset.Close()
    return answer


def of_dataset(path, dataset, sources):
    facts, names = facts_and_names(path, dataset)
    found = []
    if dataset.RasterCount:
        rows = look(dataset)
        for band, row in zip(facts["bands"], rows, strict=False):
            if row and "min" in row:
                band.update(min=row["min"], max=row["max"], exact=row["exact"])
        found += checks.raster_checks(dataset, facts, rows)
    if "layers" in facts:
        found += checks.layer_checks(dataset, facts)
    found += checks.compared(path, dataset, facts, sources)
    return told(facts, names, found)


def told(facts, names=None, found=()):
    return {"facts": facts, "names": names or {}, "checks": list(found)}
