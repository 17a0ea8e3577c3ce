"""Builds steps from a clause: the transform, and its arguments from numbers, degrees and directions. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gdal_mcp.toolboxes.augment.lexicon import Concept
from gdal_mcp.toolboxes.augment.reading import Clause, Quantity
from gdal_mcp.toolboxes.augment.steps import Ambiguity, PromptProblem
from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS, number_of

BuiltStep = tuple[str, dict[str, Any]]  # the transform's name and its arguments
Ends = tuple[float, float]
_MEASURES: Final = {"deg": "degrees", "px": "px", "size": "px", "bit": "bits", "k": "kelvin"}


def range_of(quantity: Quantity, schema: Mapping[str, Any], *, both: bool = False) -> Ends:
    """The range that a quantity means for an argument.

    With `both`, "up to" without a direction covers both directions.
    """
    low, high = quantity.low, quantity.high
    bounds = number_of(schema)
    if quantity.form == "most":
        least = bounds.get("minimum", 0)
        return (-high, high) if both and least < 0 else (max(least, 0), high)
    if quantity.form == "least":
        default = schema.get("default")
        upper = default[1] if isinstance(default, list) else default
        return low, upper if upper is not None and upper > low else bounds.get("maximum", low)
    return (-abs(high), abs(high)) if quantity.form == "around" else (low, high)


def _rounded(value: Any) -> Any:
    """Rounds floating-point noise away: 0.15, not 0.15000000000000002."""
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) > 1:
        return int(value)  # 10.0 pixels become 10; 1.0 stays a float, because it stands for the whole
    return round(value, 6) if isinstance(value, float) else value


def format_quantity(quantity: Quantity) -> str:
    low, high = f"{quantity.low:g}", f"{quantity.high:g}"
    return (low if low == high and quantity.form != "size" else f"{low} to {high}") + quantity.unit


class StepBuilder:
    """Builds the steps of one clause, and notes errors and ambiguities."""

    def __init__(self, clause: Clause, concept: Concept, text: str) -> None:
        self.clause, self.concept, self.text = clause, concept, text
        self.name = concept.transform
        self.arguments = TRANSFORMS[concept.transform].arguments
        self.amounts = concept.amount.split(",") if concept.amount else []
        self.numbers = clause.quantities
        self.random = clause.value("random") is not None
        self.level = 1 if clause.level is None else clause.level
        self.problems: list[PromptProblem] = []
        self.suggestions: list[str] = []
        self.ambiguities: list[Ambiguity] = []
        self.confidence = 0.7 if clause.values("typo") else 1.0
        times = self._times()
        steps: list[BuiltStep] = getattr(self, f"_{concept.build}")()
        self.built_steps = [(name, _rounded(parameters)) for name, parameters in steps * times]

    @property
    def chance(self) -> float:
        """The probability in the prompt. "randomly" means one half if the step draws no values."""
        stated = self.clause.probability
        if stated is not None:
            return round(max(0.0, min(1.0, stated)), 4)
        return (
            0.5
            if self.random and not any(TRANSFORMS[name].arguments for name, _ in self.built_steps)
            else 1.0
        )

    def _times(self) -> int:
        """The number of repetitions, as in "blur twice". Steps with a factor use the number as the factor, as in "twice as"."""
        numbered = [item.value for item in self.clause.items if item.kind in ("concept", "quantity")]
        times = [
            quantity for quantity in numbered[1:] if isinstance(quantity, Quantity) and quantity.unit == "x"
        ][-1:]
        plain = self.concept.sign is None and self.concept.build in ("plain", "gaussian", "rotate")
        plain = plain and all(schema.get("unit") != "factor" for schema in self.arguments.values())
        if not plain or numbered[0] is not self.concept or not times or times[0].high not in range(1, 6):
            return 1
        self.numbers = [quantity for quantity in self.numbers if quantity is not times[0]]
        return int(times[0].high)

    def _unclear(self, *interpretations: str) -> None:
        self.ambiguities.append(Ambiguity(self.text, interpretations))
        self.confidence *= 0.5

    def _wrong(self, message: str, suggestion: str = "") -> list[BuiltStep]:
        example = suggestion or f"for example: {TRANSFORMS[self.name].examples[0]}"
        self.problems.append(PromptProblem(f"{self.text!r}: {message}", "error", example))
        return []

    def _sign(self) -> int:
        """1 or -1; 0 if a direction is needed and missing."""
        stated = ["up"] if self.clause.values("vague") else []  # as in "improve the contrast"
        stated += self.clause.values("sign")
        stated += [side for side in self.clause.values("side") if side in ("up", "down")]
        turned = -1 if stated and stated[-1] in ("down", "low") else 1
        return (self.concept.sign or 1) * turned if stated or self.concept.sign else 0

    # arguments from the lexicon's table: those of the numbers, else those of the degree

    def _plain(self) -> list[BuiltStep]:
        if self.concept.sign is None and self.clause.value("sign") == "down" and not self.numbers:
            advice = f"leave it out, or ask for a slight {self.name}"
            return self._wrong("this can be added, not taken away", advice)
        parameters = dict(self.concept.set)
        for axis in self.clause.values("axis"):
            parameters |= self.concept.axis.get(axis, {})
        filled = [self._fill(parameters, quantity) for quantity in self.numbers]
        if not any(filled) and self.amounts:
            parameters |= self._degree()
        return [(self.name, parameters)]

    def _slot(self, quantity: Quantity) -> tuple[str, float] | None:
        """The arguments to which a number belongs, and its multiplier; None if it fits no argument."""
        for name in quantity.argument:
            if all(argument in self.arguments for argument in name.split(",")):
                return name, self._share(name, quantity)
        if quantity.argument not in ((), ("amount",)):
            return None
        unit = "size" if quantity.form == "size" else quantity.unit
        if unit in self.concept.numbers:
            name, _, factor = self.concept.numbers[unit].partition("*")
            return name, float(factor or 1) * self._share(name, quantity)
        if not self.amounts or unit in ("rad", "m") or (unit == "x" and self.concept.sign is None):
            return None
        measured = self._measure(self.concept.amount)
        fits = measured not in ("px", "degrees") if unit == "%" else measured == _MEASURES.get(unit, measured)
        scale = self.concept.scale if unit == "" and abs(quantity.high) < 10 else 1
        return (self.concept.amount, scale * self._share(self.concept.amount, quantity)) if fits else None

    def _measure(self, names: str) -> str:
        return str(self.arguments[names.split(",", maxsplit=1)[0].lstrip("-")].get("unit", ""))

    def _share(self, names: str, quantity: Quantity) -> float:
        return 0.01 if quantity.unit == "%" and self._measure(names) != "percent" else 1

    def _fill(self, parameters: dict[str, Any], quantity: Quantity) -> bool:
        """Puts a number into its arguments. True if the number is the amount of the concept."""
        slot = self._slot(quantity)
        if slot is None:
            self._wrong(f"{format_quantity(quantity)} means nothing for {self.name}")
            return False
        names, factor = slot
        is_amount = names == self.concept.amount
        signed = is_amount and self.concept.sign is not None
        both = self.concept.sign is None or (signed and self._sign() == 0 == self.concept.sign)
        for place, name in enumerate(names.split(",")):
            schema = self.arguments[name.lstrip("-")]
            if quantity.form == "size" and not schema.get("ordered"):
                parameters[name] = [round(quantity.high), round(quantity.low)]
                continue
            low, high = range_of(quantity, schema, both=both)
            # the prompt has width x height; of two arguments, the height is the first
            if quantity.form == "size":
                low = high = quantity.high if place == 0 else quantity.low
            low, high = low * factor, high * factor
            if signed:
                low, high = self._signed(quantity, low, high)
            turn, base = -1 if name.startswith("-") else 1, self.concept.base if is_amount else 0
            parameters[name.lstrip("-")] = self._value(schema, turn * low, turn * high, base)
        if is_amount and quantity.unit in ("%", "x"):
            parameters |= self.concept.relative
        return is_amount

    def _value(self, schema: Mapping[str, Any], low: float, high: float, base: float = 0) -> Any:
        """A range if the library draws the value, else one number."""
        low, high = sorted((low + base, high + base))
        number_schema = number_of(schema)
        if number_schema.get("type") == "integer":
            low, high = (self._rounded_to_integer(end, number_schema) for end in (low, high))
        if schema.get("ordered") or schema.get("minItems") == 2:
            return [low, high]
        return high if low == high else self._no_range(high)

    def _no_range(self, taken: float) -> float:
        """The given number, with a warning: the library draws it from no range."""
        message = f"{self.text!r}: one number is taken here, not a range"
        self.problems.append(PromptProblem(message, "warning", f"{taken:g} was taken"))
        return taken

    def _rounded_to_integer(self, value: float, schema: Mapping[str, Any]) -> int:
        rounded = round(value)
        odd = "not" in schema or ("anyOf" in schema and value != 0)
        if not odd or rounded % 2:
            return rounded
        self.suggestions.append(f"a kernel has an odd size: {rounded + 1} was taken for {rounded}")
        return rounded + 1

    def _signed(self, quantity: Quantity, low: float, high: float) -> Ends:
        """A change by an amount in the given direction; "twice as" and "to 80 %" name the target."""
        direction = self._sign()
        exact = quantity.form == "exact"
        if quantity.unit == "%" and direction == 0 and 0 < low <= 1 <= high:  # "between 80 and 120 %"
            return low - 1, high - 1
        if quantity.unit == "x" and low > 1 and direction < 0:  # "darker by a factor of 2"
            low, high = 1 / high, 1 / low
        leading = direction == 0 and self.clause.items[0].value is quantity  # "half the brightness"
        if quantity.unit == "x" or (quantity.unit == "%" and exact and (quantity.link == "to" or leading)):
            return low - 1, high - 1
        share = self._measure(self.concept.amount) in ("fraction", "factor")
        if share and not quantity.unit and max(abs(low), abs(high)) > 1:
            self._unclear(f"{format_quantity(quantity)} %", f"{format_quantity(quantity)} of 255 values")
            low, high = low / 100, high / 100
        if direction == 0 and exact and low > 0:
            if self.random:
                return -high, high
            self._unclear(
                f"increase by {format_quantity(quantity)}", f"decrease by {format_quantity(quantity)}"
            )
        return low * (direction or 1), high * (direction or 1)

    def _degree(self) -> dict[str, Any]:
        """The arguments without a number: the value of the degree ("slightly"), or the library's own defaults."""
        signed, direction, level = self.concept.sign is not None, self._sign(), self.level
        is_stated = self.clause.level is not None or (
            not signed and self.clause.value("sign") in ("low", "high")
        )
        if is_stated and self.clause.level is None:
            level = {"low": 0, "high": 2}[self.clause.value("sign")]
        self.confidence *= 0.9 if is_stated else 0.8
        if signed and direction == 0 and not self.random:
            ways = ("increase", "decrease", "randomly vary")
            self._unclear(*(f"{how} the {self.concept.key}" for how in ways))
        if not self.concept.levels or (self.random and not signed and not is_stated):
            return {}
        value = self.concept.levels[level]
        if isinstance(value, str):
            return {self.concept.amount: value}
        parameters = {}
        for name in self.amounts:
            high = value * (direction or 1 if signed else 1) * (-1 if name.startswith("-") else 1)
            low = -high if signed and (direction == 0 or self.random) else high
            plain = name.lstrip("-")
            parameters[plain] = self._value(self.arguments[plain], low, high, self.concept.base)
        return parameters

    # arguments of concepts that need more than the table

    def _contrast(self) -> list[BuiltStep]:
        """Changes contrast about the mean: the library multiplies values, which would also brighten the image."""
        steps = self._plain()
        for _name, parameters in steps:
            middle = sum(parameters["contrast_limit"]) / 2
            parameters["brightness_limit"] = [-middle or 0, -middle or 0]
        return steps

    def _gaussian(self) -> list[BuiltStep]:
        """Adds OpenCV's sigma to a kernel without a sigma: the library would draw an unrelated one.

        A range from 0 begins at the least sigma for which the library still has a kernel: a sigma of 0 makes the
        image black.
        """
        steps = self._plain()
        for _name, parameters in steps:
            low, high = parameters.get("sigma_limit", (1, 1))
            if low == 0 < high:
                parameters["sigma_limit"] = [number_of(self.arguments["sigma_limit"])["minimum"], high]
            kernel = parameters["blur_limit"]
            if kernel != [0, 0] and not any("sigma_limit" in quantity.argument for quantity in self.numbers):
                parameters["sigma_limit"] = [0.3 * ((max(end, 3) - 1) / 2 - 1) + 0.8 for end in kernel]
        return steps

    def _downscale(self) -> list[BuiltStep]:
        """Reads "by a factor of 4" as "to a quarter"."""
        self.numbers = [
            replace(quantity, low=1 / quantity.high, high=1 / quantity.low, unit="x")
            if quantity.unit in ("", "x") and quantity.low >= 1 and quantity.form != "size"
            else quantity
            for quantity in self.numbers
        ]
        return self._plain()
