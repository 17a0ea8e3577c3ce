"""A pipeline of transforms: its steps, unclear parts of the prompt, conflicts between steps, and cost. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS

# applying one of these twice changes nothing
INVERSES: Final = ("HorizontalFlip", "VerticalFlip", "Transpose", "InvertImg")


@dataclass(frozen=True)
class TransformStep:
    """One transform, with the constructor's arguments as JSON (lists for tuples)."""

    name: str
    parameters: Mapping[str, Any]
    probability: float = 1.0
    confidence: float = 1.0
    text: str = ""  # the words of the prompt for this step
    # steps with the same number are one action (a quarter turn): they are drawn together, with one probability
    group: int | None = None


@dataclass(frozen=True)
class PromptProblem:
    message: str
    # an error means that a request is not among the steps, or cannot run
    severity: Literal["warning", "error"]
    suggestion: str


@dataclass(frozen=True)
class Ambiguity:
    text: str
    interpretations: tuple[str, ...]


@dataclass(frozen=True)
class Parsed:
    """Steps in the order in which they run, with errors and unclear parts of the prompt."""

    steps: tuple[TransformStep, ...] = ()
    errors: tuple[PromptProblem, ...] = ()
    suggestions: tuple[str, ...] = ()
    ambiguities: tuple[Ambiguity, ...] = ()
    preset: str | None = None


def estimated_seconds(steps: Sequence[TransformStep]) -> float:
    """Expected seconds of work on a million pixels of three bands, by the measured time of each transform; without a container's start."""
    return round(sum(TRANSFORMS[step.name].cost * step.probability for step in steps), 4)


def complexity(steps: Sequence[TransformStep]) -> int:
    """The complexity, from 1 (one plain step) to 10.

    Each step counts; a step that moves pixels or is applied by chance counts more.
    """
    weights = (
        {"kept": 1.0, "exact": 1.0, "lost": 2.0}[TRANSFORMS[step.name].georeference]
        + (step.probability < 1) / 2
        for step in steps
    )
    return max(1, min(10, round(sum(weights))))


def conflicts(steps: Sequence[TransformStep]) -> Iterator[PromptProblem]:
    """Steps that undo one another, or that cannot follow one another."""
    yield from _find_undone(steps)
    size: tuple[int, int] | None = None
    for step in steps:
        height, width = step.parameters.get("height"), step.parameters.get("width")
        if height is None or width is None:
            continue
        if step.name in ("CenterCrop", "RandomCrop") and size and (height > size[0] or width > size[1]):
            left = f"the {size[1]}x{size[0]} that are left before it"
            message = f"a crop of {width}x{height} does not fit into {left}"
            yield PromptProblem(message, "error", "crop first, or crop less")
        size = (height, width)


def _find_undone(steps: Sequence[TransformStep]) -> Iterator[PromptProblem]:
    certain = [step for step in steps if step.probability == 1]
    for previous, following in pairwise([step for step in certain if step.group is None]):
        if previous.name == following.name and previous.name in INVERSES:
            message = f"{previous.name} twice gives the image back as it was"
            yield PromptProblem(message, "warning", "leave out both or one of them")
    for argument, middle, more, less in (
        ("brightness_limit", 0, "brighter", "darker"),
        ("contrast_limit", 0, "more contrast", "less contrast"),
        ("saturation", 1, "more saturated", "less saturated"),
    ):
        relevant = [step for step in certain if isinstance(step.parameters.get(argument), list)]
        if argument == "brightness_limit":  # where contrast is set, brightness only keeps the mean
            relevant = [step for step in relevant if step.parameters.get("contrast_limit") == [0, 0]]
        ends = [step.parameters[argument] for step in relevant]
        if any(end[0] > middle for end in ends) and any(end[1] < middle for end in ends):
            yield PromptProblem(f"{more} and {less} at once", "warning", "leave out one of them")
