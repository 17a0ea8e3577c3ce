"""From a clause to steps: which transform it is, and what numbers, degrees and directions mean for its arguments. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from gdal_mcp.augment.lexicon import Concept
from gdal_mcp.augment.reading import Clause, Quantity
from gdal_mcp.augment.steps import Ambiguity, Problem
from gdal_mcp.augment.transforms import TRANSFORMS, number_of

Made = tuple[str, dict[str, Any]]  # a transform's name and its arguments
Ends = tuple[float, float]
_MEASURES: Final = {"deg": "degrees", "px": "px", "size": "px", "bit": "bits", "k": "kelvin"}
_ANGLE: Final = {"type": "number", "minimum": -180, "maximum": 180}
# axes and the way along them in which a side lies: right and down are positive, 0 has no way
_WAYS: Final = {
    "left": ("x", -1),
    "right": ("x", 1),
    "up": ("y", -1),
    "top": ("y", -1),
    "down": ("y", 1),
    "bottom": ("y", 1),
    "horizontal": ("x", 0),
    "vertical": ("y", 0),
    "both": ("xy", 0),
}
_FLIPS: Final = {"x": "HorizontalFlip", "y": "VerticalFlip"}
# quarter turns counterclockwise, exactly
_TURNS: Final = {
    0: (),
    1: ("Transpose", "VerticalFlip"),
    2: ("HorizontalFlip", "VerticalFlip"),
    3: ("Transpose", "HorizontalFlip"),
}


def ends_of(quantity: Quantity, schema: Mapping[str, Any], *, both: bool = False) -> Ends:
    """The two ends that a quantity means for an argument; `both`: no direction was said, so that "up to" goes both ways."""
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
    """Without the dust of floating point: 0.15, not 0.15000000000000002."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) > 1:
        return int(value)  # a hole of 10 pixels; 1.0 is the whole
    return round(value, 6) if isinstance(value, float) else value


def _said(quantity: Quantity) -> str:
    low, high = f"{quantity.low:g}", f"{quantity.high:g}"
    return (low if low == high and quantity.form != "size" else f"{low} to {high}") + quantity.unit


class Building:
    """The steps of one clause, and what is to be said besides."""

    def __init__(self, clause: Clause, concept: Concept, text: str) -> None:
        self.clause, self.concept, self.text = clause, concept, text
        self.name = concept.transform
        self.arguments = TRANSFORMS[concept.transform].arguments
        self.amounts = concept.amount.split(",") if concept.amount else []
        self.numbers = clause.quantities
        self.random = clause.value("random") is not None
        self.level = 1 if clause.level is None else clause.level
        self.problems: list[Problem] = []
        self.suggestions: list[str] = []
        self.ambiguities: list[Ambiguity] = []
        self.confidence = 0.7 if clause.values("typo") else 1.0
        made: list[Made] = getattr(self, f"_{concept.build}")()
        self.made = [(name, _rounded(parameters)) for name, parameters in made]

    @property
    def chance(self) -> float:
        """The probability that was said; "randomly" for what has nothing to draw is one time in two."""
        said = self.clause.probability
        if said is not None:
            return round(max(0.0, min(1.0, said)), 4)
        return 0.5 if self.random and not any(TRANSFORMS[name].arguments for name, _ in self.made) else 1.0

    def _unclear(self, *interpretations: str) -> None:
        self.ambiguities.append(Ambiguity(self.text, interpretations))
        self.confidence *= 0.5

    def _wrong(self, message: str, suggestion: str = "") -> list[Made]:
        example = suggestion or f"for example: {TRANSFORMS[self.name].examples[0]}"
        self.problems.append(Problem(f"{self.text!r}: {message}", "error", example))
        return []

    def _sign(self) -> int:
        """1 or -1; 0 where a direction is needed and none was said."""
        said = ["up"] if self.clause.values("vague") else []  # "improve the contrast"
        said += self.clause.values("sign")
        said += [side for side in self.clause.values("side") if side in ("up", "down")]
        turned = -1 if said and said[-1] in ("down", "low") else 1
        return (self.concept.sign or 1) * turned if said or self.concept.sign else 0

    # what the table of the lexicon says: numbers to their arguments, else the degree's value

    def _plain(self) -> list[Made]:
        if self.concept.sign is None and self.clause.value("sign") == "down" and not self.numbers:
            return self._wrong(
                "this can be added, not taken away", f"leave it out, or ask for a slight {self.name}"
            )
        parameters = dict(self.concept.set)
        for axis in self.clause.values("axis"):
            parameters |= self.concept.axis.get(axis, {})
        filled = [self._fill(parameters, one) for one in self.numbers]
        if not any(filled) and self.amounts:
            parameters |= self._degree()
        return [(self.name, parameters)]

    def _slot(self, quantity: Quantity) -> tuple[str, float] | None:
        """Which argument(s) a number is for, and what it is multiplied by."""
        for name in quantity.argument:
            if all(one in self.arguments for one in name.split(",")):
                return name, self._share(name, quantity)
        if quantity.argument not in ((), ("amount",)):
            return None
        unit = "size" if quantity.form == "size" else quantity.unit
        if unit in self.concept.numbers:
            name, _, factor = self.concept.numbers[unit].partition("*")
            return name, float(factor or 1) * self._share(name, quantity)
        if not self.amounts or (unit == "x" and self.concept.sign is None):
            return None
        measured = self._measure(self.concept.amount)
        fits = measured == _MEASURES.get(unit, measured) and not (
            unit == "%" and measured in ("px", "degrees")
        )
        scale = self.concept.scale if unit == "" and abs(quantity.high) < 10 else 1
        return (self.concept.amount, scale * self._share(self.concept.amount, quantity)) if fits else None

    def _measure(self, names: str) -> str:
        return str(self.arguments[names.split(",", maxsplit=1)[0].lstrip("-")].get("unit", ""))

    def _share(self, names: str, quantity: Quantity) -> float:
        return 0.01 if quantity.unit == "%" and self._measure(names) != "percent" else 1

    def _fill(self, parameters: dict[str, Any], quantity: Quantity) -> bool:
        """Put a number into its arguments; whether it was the amount itself."""
        slot = self._slot(quantity)
        if slot is None:
            self._wrong(f"{_said(quantity)} means nothing for {self.name}")
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
            low, high = ends_of(quantity, schema, both=both)
            if quantity.form == "size":  # width x height, for two arguments the height first
                low = high = quantity.high if place == 0 else quantity.low
            low, high = low * factor, high * factor
            if signed:
                low, high = self._signed(quantity, low, high)
            turn = -1 if name.startswith("-") else 1
            parameters[name.lstrip("-")] = self._value(
                schema, turn * low, turn * high, self.concept.base if is_amount else 0
            )
        if is_amount and quantity.unit in ("%", "x"):
            parameters |= self.concept.relative
        return is_amount

    def _value(self, schema: Mapping[str, Any], low: float, high: float, base: float = 0) -> Any:
        """Two ends where one is drawn between, else one number."""
        low, high = sorted((low + base, high + base))
        one = number_of(schema)
        if one.get("type") == "integer":
            low, high = (
                self._whole(end, odd="not" in one or ("anyOf" in one and end != 0)) for end in (low, high)
            )
        if schema.get("ordered") or schema.get("minItems") == 2:
            return [low, high]
        return high if low == high else self._no_range(high)

    def _whole(self, value: float, *, odd: bool) -> int:
        whole = round(value)
        if not odd or whole % 2:
            return whole
        self.suggestions.append(f"a kernel has an odd size: {whole + 1} was taken for {whole}")
        return whole + 1

    def _signed(self, quantity: Quantity, low: float, high: float) -> Ends:
        """A change by so much, in the direction that was said; "twice as" and "to 80 %" name what is to be reached."""
        direction = self._sign()
        exact = quantity.form == "exact"
        reached = quantity.link == "to" or (
            direction == 0 and self.clause.items[0].value is quantity
        )  # "half the brightness"
        if quantity.unit == "x" or (quantity.unit == "%" and exact and reached):
            return low - 1, high - 1
        if (
            not quantity.unit
            and max(abs(low), abs(high)) > 1
            and self._measure(self.concept.amount) in ("fraction", "factor")
        ):
            self._unclear(f"{_said(quantity)} %", f"{_said(quantity)} of 255 values")
            low, high = low / 100, high / 100
        if direction == 0 and exact and low > 0:
            if self.random:
                return -high, high
            self._unclear(f"increase by {_said(quantity)}", f"decrease by {_said(quantity)}")
        return low * (direction or 1), high * (direction or 1)

    def _degree(self) -> dict[str, Any]:
        """No number was said: the value of the degree ("slightly"), or the library's own defaults."""
        signed, direction, level = self.concept.sign is not None, self._sign(), self.level
        told = self.clause.level is not None or (not signed and self.clause.value("sign") in ("low", "high"))
        if told and self.clause.level is None:
            level = {"low": 0, "high": 2}[self.clause.value("sign")]
        self.confidence *= 0.9 if told else 0.8
        if signed and direction == 0 and not self.random:
            self._unclear(
                *(f"{how} the {self.concept.key}" for how in ("increase", "decrease", "randomly vary"))
            )
        if not self.concept.levels or (self.random and not signed and not told):
            return {}
        value = self.concept.levels[level]
        if isinstance(value, str):
            return {self.concept.amount: value}
        found = {}
        for name in self.amounts:
            turn = (direction or 1 if signed else 1) * (-1 if name.startswith("-") else 1)
            ends = (
                (-value, value)
                if signed and (direction == 0 or self.random)
                else (turn * value, turn * value)
            )
            found[name.lstrip("-")] = self._value(self.arguments[name.lstrip("-")], *ends, self.concept.base)
        return found

    # what needs more than the table

    def _contrast(self) -> list[Made]:
        """Contrast about the mean: the library multiplies values, which alone would brighten as well."""
        made = self._plain()
        for _name, parameters in made:
            middle = sum(parameters["contrast_limit"]) / 2
            parameters["brightness_limit"] = [-middle or 0, -middle or 0]
        return made

    def _gaussian(self) -> list[Made]:
        """A kernel without a sigma gets OpenCV's sigma for it; the library would draw one that has nothing to do with it.

        A range from 0 begins where the library's kernel still is one: by a sigma of 0 it makes the image black.
        """
        made = self._plain()
        for _name, parameters in made:
            low, high = parameters.get("sigma_limit", (1, 1))
            if low == 0 < high:
                parameters["sigma_limit"] = [number_of(self.arguments["sigma_limit"])["minimum"], high]
            kernel = parameters["blur_limit"]
            if kernel != [0, 0] and not any("sigma_limit" in one.argument for one in self.numbers):
                parameters["sigma_limit"] = [0.3 * ((max(end, 3) - 1) / 2 - 1) + 0.8 for end in kernel]
        return made

    def _downscale(self) -> list[Made]:
        """As "by a factor of 4" is to a quarter."""
        self.numbers = [
            replace(one, low=1 / one.high, high=1 / one.low, unit="x")
            if one.unit in ("", "x") and one.low >= 1 and one.form != "size"
            else one
            for one in self.numbers
        ]
        return self._plain()

    def _rotate(self) -> list[Made]:
        """Positive is counterclockwise, as in the library; whole quarter turns are exact."""
        sides = {"left": "counterclockwise", "right": "clockwise"}
        spin = self.clause.value("spin") or sides.get(str(self.clause.value("side")))
        way = -1 if spin == "clockwise" else 1
        turn = self.concept.set.get("turn")
        angles = [one for one in self.numbers if one.unit in ("", "deg") and one.form not in ("size", "box")]
        angles = [Quantity(turn, turn)] if turn else angles[-1:]
        if not turn:
            self._stray(angles)
        if not angles:
            return self._no_angle()
        angle = angles[-1]
        low, high = ends_of(angle, _ANGLE, both=spin is None)
        if angle.form == "exact" and self.random and not turn:
            low, high = -abs(high), abs(high)
            self._unclear(
                f"rotate between {low:g} and {high:g} degrees",
                f"rotate {high:g} degrees with a probability of 0.5",
            )
        elif angle.form == "exact" and high % 90 == 0 and self.name == "Rotate":
            if high % 360 == 0:
                return self._wrong("a whole turn changes nothing", "leave it out")
            if spin is None and high % 180 and high > 0:
                self.suggestions.append(f"{self.text!r}: counterclockwise, as no direction is said")
            return [(name, {}) for name in _TURNS[round(way * high / 90) % 4]]
        return [(self.name, {"limit": sorted((way * low, way * high))})]

    def _no_angle(self) -> list[Made]:
        if self.clause.level is not None:
            angle = (5, 15, 45)[self.level]
            self._unclear(f"rotate between -{angle} and {angle} degrees", f"rotate {angle} degrees")
            return [(self.name, {"limit": [-angle, angle]})]
        if not self.random:
            self._unclear(
                "rotate 15 degrees", "rotate 90 degrees clockwise", "rotate between -90 and 90 degrees"
            )
        return [(self.name, {})]

    def _flip(self) -> list[Made]:
        self._stray([])
        own = self.concept.set.get("axis", "")
        said = self.clause.values("axis") or [side for side in self.clause.values("side") if side in _WAYS]
        axes = [axis for one in said for axis in _WAYS[one][0]]
        if self.concept.key == self.name or not axes:  # "flip horizontally and vertically"; "mirror"
            axes.insert(0, own or "x")
        if not own and not said:
            self._unclear("flip horizontally", "flip vertically")
        return [(_FLIPS[axis], {}) for axis in dict.fromkeys(axes)]

    # sizes

    def _dimensions(self) -> tuple[int, int] | None:
        """Height and width in pixels; one number alone is both."""
        found: dict[str, float] = {}
        for one in self.numbers:
            if one.form == "size":
                found |= {"width": one.low, "height": one.high}
            elif one.unit in ("", "px") and one.argument in (("width",), ("height",)):
                found[one.argument[0]] = self._one(one)
            elif one.unit in ("", "px") and one.form != "box":
                found |= dict.fromkeys(("width", "height"), self._one(one))
            else:
                self._wrong(f"{_said(one)} is no size in pixels")
        return (round(found["height"]), round(found["width"])) if len(found) == 2 else None

    def _one(self, quantity: Quantity) -> float:
        return quantity.high if quantity.form == "exact" else self._no_range(quantity.high)

    def _no_range(self, taken: float) -> float:
        """The number that is taken where the library draws from no range."""
        message = f"{self.text!r}: one number is taken here, not a range"
        self.problems.append(Problem(message, "warning", f"{taken:g} was taken"))
        return taken

    def _stray(self, taken: list[Quantity]) -> None:
        for one in self.numbers:
            if one not in taken:
                self._wrong(f"{_said(one)} means nothing here")

    def _crop(self) -> list[Made]:
        sides = self.clause.values("side")
        random = self.random or self.name == "RandomCrop"
        centre = self.concept.key == "CenterCrop" or "center" in sides
        if "edges" in sides:
            return self._borders()
        for one in self.numbers[:1]:
            if one.form == "box":
                self._stray([one])
                corners = map(round, (one.low, one.high, *one.rest))
                return [("Crop", dict(zip(("x_min", "y_min", "x_max", "y_max"), corners, strict=True)))]
            if one.unit == "%" and one.form == "exact" and not random and one.high < 100:
                self._stray([one])
                if not centre:
                    self._unclear(f"crop the center {one.high:g} %", "random crop of 256x256")
                return self._sides((one.high - 100) / 2, "%")
        size = self._dimensions()
        said = f"{size[1]}x{size[0]}" if size else "256x256"
        ways = [f"crop the center {said}"] * (not random) + [f"random crop of {said}"] * (not centre)
        if size is None:
            self._unclear(*ways)
            return self._wrong("a crop needs a size", ways[0] if ways else "")
        if {"left", "top"} <= set(sides):
            return [("Crop", {"x_min": 0, "y_min": 0, "x_max": size[1], "y_max": size[0]})]
        if set(sides) & _WAYS.keys():
            return self._wrong("a crop from this side needs the image's size", "crop from 10, 20 to 200, 220")
        if not random and not centre:
            self._unclear(*ways)
        return [("RandomCrop" if random else "CenterCrop", {"height": size[0], "width": size[1]})]

    def _borders(self) -> list[Made]:
        """So much off (or onto) every side: exactly by CropAndPad, up to so much by RandomCropFromBorders."""
        outward = self.concept.build == "pad"
        for one in self.numbers[:1]:
            self._stray([one])
            drawn = one.form == "most" or (self.random and one.form == "exact")
            if one.unit == "%" and drawn and not outward:
                sides = ("crop_left", "crop_right", "crop_top", "crop_bottom")
                return [("RandomCropFromBorders", dict.fromkeys(sides, one.high / 100))]
            if one.unit in ("", "px", "%"):
                return self._sides(self._one(one) * (1 if outward else -1), one.unit)
        if self.name == "RandomCropFromBorders" and not self.numbers:
            return [(self.name, {})]
        self._unclear("crop 10 pixels from each side", "crop up to 10 % from the borders")
        return self._wrong("how much comes off each side is not said", "crop 10 pixels from each side")

    def _sides(self, value: float, unit: str) -> list[Made]:
        """The same on each side; the size of the image changes by it."""
        share = {"percent": [value / 100] * 4} if unit == "%" else {"px": [round(value)] * 4}
        return [("CropAndPad", {**share, "keep_size": False})]

    def _pad(self) -> list[Made]:
        if any(one.unit == "%" for one in self.numbers):
            return self._borders()
        size = self._dimensions()
        to = any(one.form == "size" or one.link == "to" or one.argument for one in self.numbers)
        if size and (to or self.name == "PadIfNeeded"):
            return [("PadIfNeeded", {"min_height": size[0], "min_width": size[1]})]
        if size:
            return [("Pad", {"padding": size[0]})]
        self._unclear("pad by 16 pixels", "pad to 512x512")
        return self._wrong("padding needs a size", "pad by 16 pixels")

    def _resize(self) -> list[Made]:
        """To a size in pixels, or by a factor, whichever is said."""
        shares = [one for one in self.numbers if one.unit in ("%", "x") and one.form != "size"]
        plain = [one for one in self.numbers if one.unit == "" and one.form != "size" and not one.argument]
        small = [one for one in plain if one.high <= 20]  # a factor, not a size
        if self.concept.build == "scale" and not self.numbers:
            return [(self.name, {} if self.random and not self._sign() else self._degree())]
        if shares or (small and self.concept.build == "scale"):
            self._stray([(shares or small)[-1]])
            return self._factors((shares or small)[-1])
        size = self._dimensions()
        if size is None:
            self._unclear("resize to 512x512", "scale the longest side to 512 pixels", "scale by 50 %")
            return self._wrong("a size is missing", "resize to 512x512")
        if not any(one.form == "size" or one.argument for one in self.numbers):
            self._unclear(f"resize to {size[1]}x{size[0]}", f"scale the longest side to {size[1]} pixels")
        return [("Resize", {"height": size[0], "width": size[1]})]

    _scale = _resize

    def _factors(self, quantity: Quantity) -> list[Made]:
        """As "by 50 %", "to half", "2x", "enlarge by 20 %"."""
        direction = self._sign()
        low, high = sorted(_factor(end, quantity, direction) for end in (quantity.low, quantity.high))
        if quantity.form in ("most", "around") or (self.random and quantity.form == "exact"):
            change = abs(high - 1) if direction or quantity.unit != "%" else quantity.high / 100
            low, high = 1 - change * (direction <= 0), 1 + change * (direction >= 0)
        if self.name == "Affine":
            return [("Affine", {"scale": [low, high]})]
        return [("RandomScale", {"scale_limit": [low - 1, high - 1]})]

    # moves

    def _shift(self) -> list[Made]:
        units = {one.unit or "px" for one in self.numbers} or {"%"}
        if units not in ({"px"}, {"%"}):
            return self._wrong(
                "a shift is in pixels, or in percent", "shift the image 20 pixels to the right"
            )
        moves = self._moves() if self.numbers else self._unsaid_shift()
        if units == {"%"}:
            return [
                (
                    self.name,
                    {"translate_percent": {axis: [end / 100 for end in moves[axis]] for axis in "xy"}},
                )
            ]
        return [(self.name, {"translate_px": {axis: [round(end) for end in moves[axis]] for axis in "xy"}})]

    def _moves(self) -> dict[str, list[float]]:
        """Pairs of a number and a side, as they are said."""
        moves: dict[str, list[float]] = {"x": [0, 0], "y": [0, 0]}
        last, side, paired = None, None, False
        for item in self.clause.items:
            last = item.value if item.kind == "quantity" and item.value in self.numbers else last
            side = item.value if item.kind in ("side", "axis") and item.value in _WAYS else side
            if last is not None and side is not None:
                axes, way = _WAYS[side]
                low, high = ends_of(last, {"type": "number", "minimum": -1}, both=not way)
                moves |= {axis: sorted(((way or 1) * low, (way or 1) * high)) for axis in axes}
                side, paired = None, True
        if paired:
            return moves
        quantity = self.numbers[-1]
        low, high = ends_of(quantity, {"type": "number", "minimum": -1}, both=True)
        if quantity.form == "exact" and not self.random:
            self._unclear(f"shift by {_said(quantity)} to the right", f"shift by up to {_said(quantity)}")
            return {"x": [low, high], "y": [0, 0]}
        return {axis: [-abs(high) if quantity.form == "exact" else low, abs(high)] for axis in "xy"}

    def _unsaid_shift(self) -> dict[str, list[float]]:
        if not self.random:
            self._unclear("shift the image 20 pixels to the right", "randomly shift by up to 10 %")
        share = (3, 6, 20)[self.level]
        return {axis: [-share, share] for axis in "xy"}

    def _shear(self) -> list[Made]:
        axis, other = ("y", "x") if self.clause.value("axis") == "vertical" else ("x", "y")
        angles = [one for one in self.numbers if one.unit in ("", "deg")][-1:]
        self._stray(angles)
        high: float = (5, 10, 25)[self.level]
        low = -high
        if angles:
            low, high = ends_of(angles[0], _ANGLE, both=True)
        elif not self.random:
            self._unclear("shear by 10 degrees", "shear between -10 and 10 degrees")
        if self.clause.value("side") == "left":
            low, high = -high, -low
        return [(self.name, {"shear": {axis: [low, high], other: [0, 0]}})]


def _factor(value: float, quantity: Quantity, direction: int) -> float:
    if quantity.unit == "%":
        return value / 100 if quantity.link == "to" or direction == 0 else 1 + direction * value / 100
    return 1 / value if direction < 0 and value > 1 else value
