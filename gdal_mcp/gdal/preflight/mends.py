"""The call that corrects another one, where a check knows which arguments make it right. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gdal_mcp.gdal.catalogue.model import Algorithm, Argument, Catalogue
from gdal_mcp.gdal.preflight.checks.finding import Finding
from gdal_mcp.plan import Draft


def with_mend(finding: Finding, draft: Draft, path: str, catalogue: Catalogue) -> Finding:
    """With the whole call of the algorithm `path`, whose arguments are those of the draft but for the finding's change."""
    algorithm = catalogue.algorithms.get(finding.instead or path)
    if finding.change is None or algorithm is None:
        return finding
    return replace(finding, mend=_mend(draft, algorithm, finding.change))


def _mend(
    draft: Draft, algorithm: Algorithm, change: Mapping[str, Sequence[str]]
) -> Mapping[str, Any] | None:
    known = {one.name: one for one in algorithm.arguments}
    inputs = [str(located) for name, located in draft.named or () if name == "input"]
    if draft.chain or not set(change) <= set(known) or len(inputs) != 1 or len(draft.outputs) > 1:
        return None
    given = {name: values for name, values in draft.arguments.items() if name in known}
    for name, values in change.items():
        given[name] = (*given.get(name, ()), *values)
    arguments = {name: _value(known[name], values) for name, values in given.items()}
    arguments["input"] = inputs[0]
    if draft.output is not None:
        arguments["output"] = str(draft.output.target)
        if "overwrite" in known and not draft.output.update:
            arguments["overwrite"] = True  # what the wrong call wrote
    tool = "gdal_write" if draft.writes else "gdal_read"
    return {"tool": tool, "arguments": {"algorithm": algorithm.path, "arguments": arguments}}


def _value(argument: Argument, texts: Sequence[str]) -> Any:
    """As JSON: a list where the argument may be repeated."""
    kind = argument.element_type
    values = [
        text == "true" if kind == "boolean" else float(text) if kind in ("integer", "real") else text
        for text in texts
    ]
    plain = [int(one) if isinstance(one, float) and one.is_integer() else one for one in values]
    return plain if argument.is_list else plain[0]
