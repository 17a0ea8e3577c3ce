"""A call, or a step of a pipeline, with the facts of its inputs, and the findings of checks. Pure."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.answers.checks import CHECKS
from gdal_mcp.toolboxes.gdal.preflight.facts import Box, DatasetFacts
from gdal_mcp.toolboxes.gdal.preflight.layers import output_geometry, output_schema
from sandbox.template import Limits

# findings with the same code and step that are listed separately; further ones only add their inputs to the last
MAX_SIMILAR: Final = 5
MOST_NUMBERS: Final = 20  # inputs listed in one finding
_SAME: Final = {
    "OGC:CRS84": "EPSG:4326",
    "OGC:CRS83": "EPSG:4269",
    "OGC:CRS27": "EPSG:4267",
}  # CRSs that are the same except for the axis order
_SHORTCUTS: Final = frozenset({"convert", "info"})  # algorithms whose kind is that of the input


def options_of(texts: Iterable[str]) -> dict[str, str]:
    """Options of the form NAME=VALUE, both in upper case.

    GDAL uses the first of several options with the same name (CSLFetchNameValue).
    """
    options: dict[str, str] = {}
    for name, _, value in (text.upper().partition("=") for text in texts):
        options.setdefault(name.strip(), value.strip())
    return options


def is_on(value: str) -> bool:
    """True if the value of an option switches it on. As in CPLTestBool, every value does except the negative ones."""
    return value != "" and value.upper() not in ("NO", "FALSE", "OFF", "0")


@dataclass(frozen=True, slots=True)
class AlgorithmCall:
    """A call of an algorithm. `inputs` are its datasets in order, None for a dataset without facts."""

    # a command path such as `raster resize`, or a classic program without a corresponding algorithm
    algorithm: str
    arguments: Mapping[str, tuple[str, ...]]  # by canonical name, as bound by the catalogue
    inputs: tuple[DatasetFacts | None, ...] = ()
    # further inputs by argument: like, zones ...
    others: Mapping[str, DatasetFacts] = field(default_factory=dict)
    driver: str = ""  # GDAL's name of the output format; "" if nothing is written
    output: str = ""  # name of the output, used for its extension
    written: str = ""  # output format of the whole call, of which this may be an earlier step
    updates: bool = False  # true if a copy of an existing output is modified
    # share of the inputs' pixels that is certain; less than 1 after a step that may leave some out
    certain: float = 1.0
    limits: Limits = field(default_factory=Limits)
    flowing: DatasetFacts | None = None  # known facts of the features from the previous step
    # tables of a statement by lower-case name, if known. In a query each geometry column is named `geom`
    tables: Mapping[str, DatasetFacts] = field(default_factory=dict)
    is_query: bool = False
    # what may tell the meaning of the pixels: the name of the first input, or for a later step the previous algorithm
    source: str = ""

    @property
    def path(self) -> str:
        """The path of the algorithm; for a shortcut such as `convert`, with the kind of the input."""
        if self.algorithm in _SHORTCUTS:
            return f"{self.input.kind if self.input else 'raster'} {self.algorithm}"
        return self.algorithm

    @property
    def input(self) -> DatasetFacts | None:
        return self.inputs[0] if self.inputs else None

    @property
    def vector(self) -> DatasetFacts | None:
        """The facts of the features that the call processes; None if it processes none or they are unknown."""
        known = self.input or self.flowing
        return known if known is not None and known.kind == "vector" else None

    def text(self, name: str) -> str:
        """The first value of an argument; "" if it is omitted."""
        values = self.arguments.get(name, ())
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"

    def texts(self, name: str) -> list[str]:
        """All values of an argument, including those of a comma-separated list."""
        return [part for value in self.arguments.get(name, ()) for part in value.split(",")]

    def numbers(self, name: str, count: int = 0) -> tuple[float, ...]:
        """All values of an argument as numbers.

        Empty if one is not a number, or if there are not exactly `count` values; a `count` of 0 allows any number.
        """
        parsed = [number_of(text) for text in self.texts(name)]
        complete = None not in parsed and count in (0, len(parsed))
        return tuple(number for number in parsed if number is not None) if complete else ()

    def box(self, name: str) -> Box | None:
        """The value of an argument as a box (west, south, east, north); None if it is not one."""
        numbers = self.numbers(name, 4)
        if len(numbers) != 4 or not (numbers[0] < numbers[2] and numbers[1] < numbers[3]):
            return None
        return numbers[0], numbers[1], numbers[2], numbers[3]

    def option(self, key: str, argument: str = "creation-option") -> str:
        """The value of a creation option in upper case; "" if it is omitted."""
        return options_of(self.arguments.get(argument, ())).get(key, "")

    def switched_on(self, key: str, argument: str = "creation-option") -> bool:
        """True if a creation option is set to a value that switches it on."""
        return is_on(self.option(key, argument))

    @property
    def source_crs(self) -> str | None:
        """The CRS of the data: that of input-crs, else that of the dataset."""
        facts = self.input or self.flowing
        return self.text("input-crs") or (facts.crs if facts else None)

    @property
    def target_crs(self) -> str | None:
        return self.text("output-crs") or self.source_crs

    @property
    def keeps_crs(self) -> bool:
        return not self.text("output-crs") or same_crs(self.source_crs, self.text("output-crs"))

    @property
    def target_degrees(self) -> bool | None:
        """True if the CRS of the output is in degrees; None if unknown."""
        crs, facts = self.text("output-crs"), self.input
        if facts is None or not crs or same_crs(facts.crs, crs):
            return facts.degrees if facts else None
        return facts.crs_extents[crs].degrees if crs in facts.crs_extents else None


class Verdict(Enum):
    """The result of a check. UNKNOWN is not FINE: it is reported, and refuses the call where WRONG would."""

    FINE = "fine"
    WRONG = "wrong"
    UNKNOWN = "unknown"  # something that the check needs could not be examined


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a check: a code that is stable between versions, the mistake and its reason, and a correction.

    It is identified by its code, its step and its inputs: findings that differ in one of these are never merged.
    """

    code: str
    message: str
    suggestion: str
    refuses: bool = False  # the result would be wrong, or cannot be judged, so the call is refused
    verdict: Verdict = Verdict.WRONG
    # numbers of the inputs that it concerns, from 0; empty if it concerns the whole call
    inputs: tuple[int, ...] = ()
    step: int | None = None  # number of the step in a pipeline, from 0
    # arguments that correct the call; None for an argument to omit
    change: Mapping[str, tuple[str, ...] | None] | None = None
    instead: str = ""  # algorithm of the corrected call, if it is another one
    # steps of the corrected pipeline between reading the input and writing
    steps: Sequence[tuple[str, Mapping[str, Any]]] = ()
    suggested_call: Mapping[str, Any] | None = None  # the corrected call as `{"tool": ..., "arguments": ...}`
    # figures in addition to the text, for programs
    numbers: Mapping[str, float | None] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The finding as a row of `checks`, without empty values."""
        own = ("change", "instead", "steps", "numbers", "verdict", "inputs", "step")
        values = {key: value for key, value in asdict(self).items() if value not in (None, False, "")}
        row = {**{key: value for key, value in values.items() if key not in own}, **self.numbers}
        if self.step is not None:
            row["step"] = self.step
        if self.inputs:
            row["inputs"] = list(self.inputs[:MOST_NUMBERS])
        if self.verdict is Verdict.UNKNOWN:
            row["verdict"] = self.verdict.value
        return row


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merges equal findings of several inputs into one that has the numbers of all of them.

    After MAX_SIMILAR findings of one code and step, further ones only add their inputs to the last.
    """
    merged: dict[Hashable, Finding] = {}
    count: Counter[Hashable] = Counter()
    last: dict[Hashable, Hashable] = {}
    for finding in findings:
        group = finding.code, finding.step, finding.refuses, finding.verdict
        key: Hashable = (*group, finding.message)
        if key not in merged and count[group] >= MAX_SIMILAR:
            key = last[group]
        if key not in merged:
            count[group] += 1
            merged[key], last[group] = finding, key
            continue
        inputs = tuple(dict.fromkeys((*merged[key].inputs, *finding.inputs)))
        merged[key] = replace(merged[key], inputs=inputs)
    return tuple(merged.values())


def make_finding(name: str, words: Mapping[str, Any] | None = None, **more: Any) -> Finding:
    """Makes a finding from the texts of `answers/data/checks.toml` under `name`, formatted with `words`."""
    texts = {key: text.format(**words) if words else text for key, text in CHECKS[name].items()}
    verdict = Verdict(texts.pop("verdict", Verdict.WRONG.value))
    return Finding(**{**texts, "verdict": verdict, **more})


def forwarded_facts(call: AlgorithmCall) -> DatasetFacts | None:
    """The facts of the features that a step passes to the next one; None if they are unknown.

    They include the CRS, the fields and the geometry type.
    """
    facts = call.vector
    if facts is None or not call.algorithm.startswith("vector "):
        return None
    facts = replace(
        facts, geometry=output_geometry(call, facts.geometry), schema=output_schema(call, facts.schema)
    )
    if facts.geometry == "None":
        facts = replace(facts, crs=None, has_crs=False, degrees=None)
    if not (wanted := call.text("output-crs") or call.text("crs")):
        return replace(facts, features=None, extent=None)
    degrees = facts.crs_extents[wanted].degrees if wanted in facts.crs_extents else None
    return replace(facts, features=None, extent=None, crs=wanted, has_crs=True, degrees=degrees)


def same_crs(first: str | None, second: str | None) -> bool:
    """True if both codes are known and denote the same CRS apart from the axis order (GDAL uses x before y)."""
    codes = [str(code or "").strip().upper() for code in (first, second)]
    return all(codes) and len({_SAME.get(code, code) for code in codes}) == 1


def number_of(text: str, *, finite: bool = True) -> float | None:
    """The number in a text; None if it is not a number.

    Infinity and NaN are accepted only if not `finite`.
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) or not finite else None


def overlap(first: Box | None, second: Box | None) -> Box | None:
    """The intersection of two boxes, which may be a line or a point; None if it is empty or a box is unknown."""
    if first is None or second is None:
        return None
    west, south = max(first[0], second[0]), max(first[1], second[1])
    east, north = min(first[2], second[2]), min(first[3], second[3])
    return (west, south, east, north) if west <= east and south <= north else None
