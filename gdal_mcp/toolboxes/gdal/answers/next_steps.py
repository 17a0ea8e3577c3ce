"""The next call after one that wrote, where there is one that is certain to help. Pure.

Wrong advice is worse than none: a step is proposed only where the description of the output proves that it is needed, and its
arguments are paths of this call and nothing else. It is never run by itself: it is checked, resolved and approved like any other.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LARGE: Final = 4096  # pixels of the longer side, from which on a display without overviews is slow
_CHANGES_FEATURES: Final = frozenset(
    {"vector clip", "vector filter", "vector sql", "vector pipeline", "pipeline"}
)


@dataclass(frozen=True, slots=True)
class NextStep:
    """A call of an algorithm, with our reason."""

    algorithm: str
    reason: str
    arguments: Mapping[str, Any]


def next_steps(
    made_by: str,
    outputs: Sequence[Mapping[str, Any]],
    inputs: Sequence[str],
    served: Container[str] | None = None,
) -> tuple[NextStep, ...]:
    """At most one next call for each thing that is wrong with the outputs.

    `made_by` is the algorithm that ran, or the one that the tool is most like; `outputs` are the rows of the result's `outputs`
    (path, description, checks); `inputs` the paths that the call gave as its input; `served` the algorithms that this server
    has, None for all.
    """
    found: dict[str, NextStep] = {}
    for row in outputs:
        for step in _steps(made_by, row, inputs):
            if served is None or step.algorithm in served:
                found.setdefault(step.algorithm, step)
    return tuple(found.values())


def _steps(made_by: str, row: Mapping[str, Any], inputs: Sequence[str]) -> Iterator[NextStep]:
    codes = {check.get("code") for check in row.get("checks", ())}
    # an output without a feature or a valid pixel is explained by the input, of which there must be one
    if len(inputs) == 1 and "zero_features" in codes and made_by in _CHANGES_FEATURES:
        reason = "No feature matched the filter. Compare the condition with the extent, the CRS and the field names of the input."
        yield NextStep("vector info", reason, {"input": inputs[0]})
    if len(inputs) == 1 and "all_nodata" in codes and made_by == "raster clip":
        reason = "Every pixel is nodata. Compare the window with the extent of the input."
        yield NextStep("raster info", reason, {"input": inputs[0]})
    described = row.get("description", {})
    is_large = max(described.get("size") or [0]) > _LARGE and described.get("driver") == "GTiff"
    if is_large and described.get("overviews") == 0 and not made_by.startswith("raster overview"):
        reason = "The raster is large and has no overviews; with them it is displayed quickly at every scale."
        yield NextStep("raster overview add", reason, {"input": row["path"]})
