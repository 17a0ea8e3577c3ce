"""Finds rasters in arguments for vector data, and vector data in arguments for rasters. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gdal_mcp.plan import Draft
from gdal_mcp.remote.places import label
from gdal_mcp.toolboxes.gdal.catalogue.formats import driver_for
from gdal_mcp.toolboxes.gdal.catalogue.model import DATASET_KINDS, Algorithm, Catalogue, Kind
from gdal_mcp.toolboxes.gdal.preflight.call import Finding, make_finding
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts
from sandbox.workspace import WorkspacePath

# GDAL may open such a file with a driver of the other kind: a table as a grid (XYZ), a KML as an overlay
_EITHER: Final = frozenset({"CSV", "KML", "LIBKML"})
_MAIN: Final = frozenset({"input", "dataset"})
# a raster in such a file is a subdataset with its own name
_VECTOR_FIRST: Final = frozenset({"GPKG"})


def findings(
    draft: Draft, described: Iterable[tuple[WorkspacePath, DatasetFacts | None]], catalogue: Catalogue
) -> Iterator[Finding]:
    """Finds the first input of a kind that its argument does not accept.

    Pipelines, and commands without a kind such as `gdal convert`, are not checked: GDAL chooses the kind there.
    """
    algorithm, facts = catalogue.algorithms.get(draft.work.algorithm), dict(described)
    if algorithm is None or draft.work.chain or draft.work.arguments.get("input-format"):
        return
    if draft.command.options[:1] != (algorithm.path.partition(" ")[0],):
        return
    arguments = {argument.name: argument for argument in algorithm.arguments}
    for name, located in draft.work.named or ():
        dataset, argument = facts.get(located), arguments.get(name)
        takes = (
            DATASET_KINDS.get(argument.dataset_kinds[0])
            if argument and len(argument.dataset_kinds) == 1
            else None
        )
        if dataset is not None and takes is not None and _is_other(dataset, takes, catalogue):
            words = {"name": label(located), "kind": dataset.kind, "takes": takes, "path": algorithm.path}
            instead = _counterpart(algorithm, name, dataset.kind, catalogue)
            output = draft.output
            fits = output is None or driver_for(catalogue, output.target.name, dataset.kind) is not None
            yield _wrong_kind(words, instead, fits=fits)
            return


def _is_other(facts: DatasetFacts, takes: Kind, catalogue: Catalogue) -> bool:
    """True if a dataset is certainly not of the accepted kind."""
    driver = catalogue.driver_names.get(facts.driver.lower())
    if takes in ("multidim", facts.kind) or driver is None or driver.name in _EITHER:
        return False
    return not driver.reads(takes) or (facts.kind == "vector" and driver.name in _VECTOR_FIRST)


def _counterpart(algorithm: Algorithm, name: str, kind: Kind, catalogue: Catalogue) -> str:
    """The command of the same name for the other kind; "" if there is none or the dataset is not its main input."""
    path = f"{kind} {algorithm.path.partition(' ')[2]}"
    return path if name in _MAIN and path in catalogue.algorithms and path != algorithm.path else ""


def _wrong_kind(words: Mapping[str, str], instead: str, *, fits: bool) -> Finding:
    if not instead:
        return make_finding(f"{words['kind']}_instead", words, refuses=True)
    change: Mapping[str, tuple[str, ...]] | None = {} if fits else None
    output = "" if fits else f", and name an output in a {words['kind']} format"
    words = {**words, "instead": instead, "output": output}
    return make_finding("wrong_kind", words, refuses=True, change=change, instead=instead)
