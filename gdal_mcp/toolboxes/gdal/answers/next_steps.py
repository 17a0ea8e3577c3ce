"""Proposes the next call after a call that wrote an output. Pure.

Wrong advice is worse than none: a call is proposed only if the description of the output proves that it is needed,
and its arguments are only paths of this call. A proposed call never runs by itself: it is checked, resolved and
approved like any other.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_LARGE: Final = 4096  # pixels of the longer side; a larger raster without overviews is slow to display
_CHANGES_FEATURES: Final = frozenset(
    {"vector clip", "vector filter", "vector sql", "vector pipeline", "pipeline"}
)


@dataclass(frozen=True, slots=True)
class NextStep:
    """A proposed call of an algorithm, with the reason."""

    algorithm: str
    reason: str
    arguments: Mapping[str, Any]


def next_steps(
    made_by: str,
    outputs: Sequence[Mapping[str, Any]],
    inputs: Sequence[str],
    served: Container[str] | None = None,
) -> tuple[NextStep, ...]:
    """The proposed calls, at most one of each algorithm.

    `made_by` is the algorithm that ran, or the one that is most similar to the tool; `outputs` are the rows of the
    result's `outputs` (path, description, checks); `inputs` are the paths that the call passed as its input; `served`
    has the algorithms of this server, None for all.
    """
    steps: dict[str, NextStep] = {}
    for row in outputs:
        for step in _steps(made_by, row, inputs):
            if served is None or step.algorithm in served:
                steps.setdefault(step.algorithm, step)
    return tuple(steps.values())


def _steps(made_by: str, row: Mapping[str, Any], inputs: Sequence[str]) -> Iterator[NextStep]:
    codes = {check.get("code") for check in row.get("checks", ())}
    # The input explains why an output has no features or valid pixels; with several inputs it is unclear which one
    # does.
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
