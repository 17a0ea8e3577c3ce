"""Converts a draft to calls of algorithms, in the form that estimates and checks use."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.gdal.catalogue.formats import driver_for
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, forwarded_facts
from gdal_mcp.toolboxes.gdal.preflight.estimate import estimate, table
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts, FactsCache
from gdal_mcp.toolboxes.gdal.preflight.layers import tables_of
from sandbox.template import Limits

MAIN_INPUTS: Final = frozenset({"input", "dataset"})  # arguments with the main inputs
_READS: Final = frozenset({"raster read", "vector read"})
# write steps of a pipeline, and the algorithms whose checks apply to them
_ENDS: Final = {"raster write": "raster convert", "vector write": "vector convert"}

_Inputs = tuple[DatasetFacts | None, ...]
_Steps = list[tuple[str, Mapping[str, tuple[str, ...]]]]


def calls_of(draft: Draft, known: FactsCache, catalogue: Catalogue, limits: Limits) -> list[AlgorithmCall]:
    """The draft as one call, or as the steps of a pipeline, each with the predicted raster of the previous step."""
    inputs, others = _facts_of_inputs(draft, known)
    chain, steps = draft.work.chain, _steps(draft, inputs)
    # an open option may change the size or select a part of the file
    certain = 0.0 if steps[0][1].get("open-option") else 1.0
    if len(chain) > 1:
        # a first step that combines inputs makes a raster that differs from the first input
        inputs, steps = inputs[:1] if steps[0][0] in _READS and inputs else (None,), steps[1:]
    calls: list[AlgorithmCall] = []
    for path, arguments in steps:
        flowing = None
        if calls:
            estimated, flowing = estimate(calls[-1]), forwarded_facts(calls[-1])
            inputs, certain = ((estimated.output,), estimated.certain) if estimated else ((None,), 0.0)
        own = {name: dataset for name, dataset in others.items() if name in arguments} if chain else others
        call = AlgorithmCall(path, arguments, inputs, own, certain=certain, flowing=flowing, limits=limits)
        calls.append(replace(call, source=calls[-1].path) if calls else call)
    calls[0] = replace(calls[0], source=draft.inputs[0].name if draft.inputs else "")
    calls = _with_output(calls, draft, catalogue)
    if calls[-1].path == "vector sql":
        tables = tables_of(draft, [known.get(located) for located in draft.inputs])
        calls[-1] = replace(calls[-1], tables=tables, is_query=draft.command.program == "query")
    return calls


def _facts_of_inputs(draft: Draft, known: FactsCache) -> tuple[_Inputs, dict[str, DatasetFacts]]:
    """The facts of the main inputs, and those of the other arguments with an input, by the name of the argument."""
    changed = [("input", output.target) for output in draft.outputs if output.update]
    facts = [(name, known.get(located)) for name, located in (*draft.named_inputs, *changed)]
    # an argument that several steps have does not tell to which step the input belongs
    count = Counter(name for name, _ in facts)
    others = {
        name: dataset for name, dataset in facts if dataset and name not in MAIN_INPUTS and count[name] == 1
    }
    return tuple(dataset for name, dataset in facts if name in MAIN_INPUTS), others


def _steps(draft: Draft, inputs: _Inputs) -> _Steps:
    steps: _Steps = [(_ENDS.get(path, path), arguments) for path, arguments in draft.work.chain]
    if len(steps) >= 2:
        return steps
    path = draft.work.algorithm
    # a classic program that has its own row in the table of costs
    if draft.command.program in table().algorithm:
        path = draft.command.program
    elif path == "raster convert" and inputs and inputs[0] and inputs[0].kind == "vector":
        path = "vector convert"  # the tool `convert` accepts rasters and vectors
    return [(path, draft.work.arguments)]


def _with_output(calls: list[AlgorithmCall], draft: Draft, catalogue: Catalogue) -> list[AlgorithmCall]:
    """The calls with the output format of the last call."""
    if draft.output is None:
        return calls
    last, name, algorithms = calls[-1], draft.output.target.name, catalogue.algorithms
    # a classic program is not among the algorithms; the draft names the corresponding one
    algorithm = algorithms.get(last.algorithm) or algorithms.get(draft.work.algorithm)
    kind = (algorithm.makes or algorithm.kind) if algorithm else "raster"
    driver = last.text("output-format") or driver_for(catalogue, name, kind) or ""
    updates = any(output.update for output in draft.outputs)
    calls = [*calls[:-1], replace(last, driver=driver, output=name, updates=updates)]
    return [replace(call, written=driver) for call in calls]
