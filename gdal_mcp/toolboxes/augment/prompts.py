"""Parses a prompt into a pipeline of transforms, deterministically, by rules and a lexicon. Pure.

Invariants: nothing is skipped silently (text that is not understood is an error or a warning); a number in the prompt is used
exactly, and is drawn from a range only where one is asked for; every step's arguments lie within the catalogue's schema; no
prompt raises, and the time grows with its length alone.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal

from gdal_mcp.toolboxes.augment.geometric import Geometric
from gdal_mcp.toolboxes.augment.lexicon import LEXICON, Concept
from gdal_mcp.toolboxes.augment.reading import Clause, clauses, items
from gdal_mcp.toolboxes.augment.steps import Ambiguity, Parsed, PromptProblem, TransformStep, conflicts
from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS


class _Pipeline:
    """The steps, errors and suggestions that were found in one prompt so far."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.steps: list[TransformStep] = []
        self.errors: list[PromptProblem] = []
        self.suggestions: list[str] = []
        self.ambiguities: list[Ambiguity] = []
        self.preset: str | None = None
        self.groups = 0

    def add(self, clause: Clause) -> None:
        for typo, word in clause.values("typo"):
            self.suggestions.append(f"{typo!r} was read as {word!r}")
        for word in clause.values("unknown"):
            self._tell(f"{word!r} was not understood", "say it in other words, or leave it out", "warning")
        concept = clause.concept
        phrase = clause.items
        text = self.prompt[min(item.start for item in phrase) : max(item.end for item in phrase)]
        if clause.negated:
            self._without(concept, text)
        elif clause.join == "or" and concept is not None and self.steps:
            words = {item.start: self.prompt[item.start : item.end] for item in phrase if item.kind != "link"}
            # such as "flip vertically" in "flip horizontally or vertically"
            if clause.value("axis") is not None:
                words[phrase[0].start] = re.sub(
                    r"\s*(horizontal|vertical)(ly)?\s*", "", words[phrase[0].start]
                )
            self.ambiguities.append(Ambiguity(text, (self.steps[-1].text, " ".join(words.values()))))
        elif concept is not None:
            built = Geometric(clause, concept, text)
            self.errors += built.problems
            self.suggestions += built.suggestions
            self.ambiguities += built.ambiguities
            together = len(built.built_steps) > 1 and concept.build == "rotate"
            self.groups += together
            for name, parameters in built.built_steps:
                group = self.groups if together else None
                self._take(
                    TransformStep(name, parameters, built.chance, round(built.confidence, 2), text, group)
                )
        else:
            self._other(clause)

    def _tell(self, message: str, suggestion: str, severity: Literal["warning", "error"] = "error") -> None:
        self.errors.append(PromptProblem(message, severity, suggestion))

    def _take(self, step: TransformStep) -> None:
        transform = TRANSFORMS[step.name]
        faults = transform.faults(step.parameters)
        for fault in faults[:3]:
            self._tell(f"{step.text!r}: {fault}", f"for example: {transform.examples[0]}")
        self.steps += [] if faults else [step]

    def _other(self, clause: Clause) -> None:
        """Reads a clause without an action: a call, a preset, something the library cannot do, or an ambiguous
        request.
        """
        for item in clause.items:
            text = self.prompt[item.start : item.end]
            if item.kind == "call":
                name, values = item.value
                self._call(name, values, text)
            elif item.kind == "preset":
                self.preset, chance = item.value, clause.probability
                for step in LEXICON.presets[item.value]:
                    probability = step["probability"] if chance is None else chance
                    self._take(TransformStep(step["name"], step["parameters"], probability, 1.0, text))
            elif item.kind == "absent":
                self._tell(f"{text!r} is not among the transforms", item.value)
            elif item.kind == "vague":
                self.ambiguities.append(Ambiguity(text, item.value))

    def _call(self, name: str, values: Mapping[str, Any] | None, text: str) -> None:
        if values is None:
            self._tell(f"{text!r}: not name=value with plain values", f"{name}(argument=value)")
            return
        arguments = {key: value for key, value in values.items() if key != "p"}
        chance = values.get("p", 1.0)
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 <= chance <= 1:
            self._tell(f"{text!r}: p is a number from 0 to 1", f"{name}(p=0.5)")
            return
        self._take(TransformStep(name, arguments, float(chance), 1.0, text))

    def _without(self, concept: Concept | None, text: str) -> None:
        if concept is None:
            self._tell(f"{text!r}: what is not to be done was not understood", 'say "no blur"', "warning")
            return
        unwanted = {concept.transform, *concept.negates}
        if concept.family:
            unwanted |= {
                name for name, transform in TRANSFORMS.items() if transform.category == concept.family
            }
        self.steps = [step for step in self.steps if step.name not in unwanted]

    def finished(self) -> Parsed:
        self.errors += conflicts(self.steps)
        if not self.steps and not any(problem.severity == "error" for problem in self.errors):
            unclear = "; ".join(
                dict.fromkeys(way for ambiguity in self.ambiguities for way in ambiguity.interpretations)
            )
            example = "for example: rotate 15 degrees and add some noise"
            hint = f"say one of: {unclear}" if unclear else example
            self._tell("no transform is asked for in words that are understood", hint)
        return Parsed(
            tuple(self.steps),
            tuple(dict.fromkeys(self.errors)),
            tuple(dict.fromkeys(self.suggestions)),
            tuple(dict.fromkeys(self.ambiguities)),
            self.preset,
        )


def parse(prompt: str) -> Parsed:
    all_clauses = clauses(items(prompt))
    # as in "increase saturation and contrast by 20 %": the direction is before both, the number after both
    for previous, following in pairwise(all_clauses):
        both_need_sign = all(
            each.concept is not None and each.concept.sign == 0 for each in (previous, following)
        )
        if not both_need_sign or previous.negated or following.join != "and":
            continue
        if previous.value("sign") is not None and following.value("sign") is None:
            numbers = [item for item in following.items if item.kind in ("quantity", "level")]
            following.items = [*(item for item in previous.items if item.kind == "sign"), *following.items]
            if not previous.quantities and previous.level is None:
                previous.items += numbers
    pipeline = _Pipeline(prompt)
    for clause in all_clauses:
        pipeline.add(clause)
    return pipeline.finished()
