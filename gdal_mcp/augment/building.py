"""From a clause to steps: which transform it is, and what numbers, degrees and directions mean for its arguments. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gdal_mcp.augment.lexicon import Concept
from gdal_mcp.augment.reading import Clause, Quantity
from gdal_mcp.augment.steps import Ambiguity, Problem
from gdal_mcp.augment.transforms import TRANSFORMS, number_of

Made = tuple[str, dict[str, Any]]  # a transform's name and its arguments


@dataclass
class Notes:
    """What is to be said of a clause besides its steps."""

    text: str
    errors: list[Problem] = field(default_factory=list)
    suggestions: list[str] = field(default_factory=list)
    ambiguities: list[Ambiguity] = field(default_factory=list)
    confidence: float = 1.0

    def unclear(self, *interpretations: str) -> None:
        self.ambiguities.append(Ambiguity(self.text, interpretations))
        self.confidence *= 0.5

    def wrong(self, message: str, suggestion: str) -> None:
        self.errors.append(Problem(f"{self.text!r}: {message}", "error", suggestion))


def build(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    made = _BUILD[concept.build](clause, concept, notes)
    return [(name, _rounded(parameters)) for name, parameters in made]


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


def _ends(quantity: Quantity, schema: Mapping[str, Any], *, both: bool = False) -> tuple[float, float]:
    """The two ends that a quantity means for an argument; `both`: no direction was said, so that "up to" goes both ways."""
    low, high = quantity.low, quantity.high
    bounds = number_of(schema)
    match quantity.form:
        case "most":
            least = bounds.get("minimum", 0)
            return (-high, high) if both and least < 0 else (max(least, 0), high)
        case "least":
            default = schema.get("default")
            upper = default[1] if isinstance(default, list) else default
            return low, upper if isinstance(upper, int | float) and upper > low else bounds.get(
                "maximum", low
            )
        case "around":
            return -abs(high), abs(high)
    return low, high


def _pair(schema: Mapping[str, Any], low: float, high: float, notes: Notes, *, base: float = 0) -> Any:
    """The argument's value: two ends where one is drawn between, else one number."""
    low, high = sorted((low + base, high + base))
    one = number_of(schema)
    if one.get("type") == "integer":
        odd = "not" in one or "anyOf" in one
        low, high = (_odd(end, notes) if odd and end else round(end) for end in (low, high))
    if schema.get("ordered") or schema.get("minItems") == 2:
        return [low, high]
    if low != high:
        notes.errors.append(
            Problem(
                f"{notes.text!r}: one number is taken here, not a range", "warning", f"{high:g} was taken"
            )
        )
    return high


def _odd(value: float, notes: Notes) -> int:
    whole = round(value)
    if whole % 2:
        return whole
    notes.suggestions.append(f"a kernel has an odd size: {whole + 1} was taken for {whole}")
    return whole + 1


def _slot(concept: Concept, quantity: Quantity) -> tuple[str, float] | None:
    """Which argument(s) a number is for, and what it is multiplied by."""
    arguments = TRANSFORMS[concept.transform].arguments
    for name in quantity.argument:
        if all(one in arguments for one in name.split(",")):
            return name, 0.01 if quantity.unit == "%" and arguments[name.split(",")[0]].get(
                "unit"
            ) != "percent" else 1
    if quantity.argument and quantity.argument != ("amount",):
        return None
    unit = "size" if quantity.form == "size" else quantity.unit
    amount = concept.amount.split(",")[0].lstrip("-")
    if unit in concept.numbers:
        name, _, factor = concept.numbers[unit].partition("*")
        return name, float(factor or 1) * (0.01 if unit == "%" else 1)
    if not amount:
        return None
    measured = str(arguments[amount].get("unit", ""))
    if unit == "%":
        fits, factor_of = measured not in ("px", "degrees"), 1 if measured == "percent" else 0.01
        return (concept.amount, factor_of) if fits else None
    small = concept.scale if abs(quantity.high) < 10 else 1
    expected = {
        "": True,
        "deg": measured == "degrees",
        "px": measured == "px",
        "bit": measured == "bits",
        "k": measured == "kelvin",
    }
    if unit == "x":
        return (concept.amount, 1) if concept.sign is not None else None
    if unit == "size" and measured == "px":
        return concept.amount, 1
    return (concept.amount, small) if expected.get(unit) else None


def _sign(clause: Clause, concept: Concept) -> int:
    """1 or -1; 0 where a direction is needed and none was said."""
    said = [
        *(["up"] if clause.values("vague") else []),
        *clause.values("sign"),
        *(side for side in clause.values("side") if side in ("up", "down")),
    ]
    turned = -1 if said and said[-1] in ("down", "low") else 1
    return (concept.sign or 1) * turned if said or concept.sign else 0


def _plain(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    """By the table of the lexicon: numbers to their arguments, else the degree's value."""
    parameters = dict(concept.set)
    for axis in clause.values("axis"):
        parameters |= concept.axis.get(axis, {})
    direction = 1 if concept.sign is None else _sign(clause, concept)
    unsigned_down = concept.sign is None and clause.value("sign") == "down"
    if unsigned_down and not clause.quantities:
        notes.wrong(
            "this can be added, not taken away", f"leave it out, or ask for a slight {concept.transform}"
        )
        return []
    filled = [_fill(parameters, concept, one, clause, notes) for one in clause.quantities]
    if not any(filled) and concept.amount:
        _degree(parameters, clause, concept, direction, notes)
    if not concept.amount and not clause.quantities and clause.value("random") and clause.probability is None:
        notes.suggestions.append(
            f'{notes.text!r}: by chance, one time in two; say "with a probability of ..." for another share'
        )
    return [(concept.transform, parameters)]


def _fill(
    parameters: dict[str, Any], concept: Concept, quantity: Quantity, clause: Clause, notes: Notes
) -> bool:
    """Put a number into its arguments; whether it was the amount itself."""
    slot = _slot(concept, quantity)
    if slot is None:
        notes.wrong(f"{_said(quantity)} means nothing for {concept.transform}", _asked(concept))
        return False
    names, factor = slot
    is_amount = names == concept.amount
    arguments = TRANSFORMS[concept.transform].arguments
    both = concept.sign is None or (is_amount and concept.sign == 0 and _sign(clause, concept) == 0)
    for place, name in enumerate(names.split(",")):
        schema = arguments[name.lstrip("-")]
        if quantity.form == "size" and not schema.get("ordered"):
            parameters[name] = [round(quantity.high), round(quantity.low)]
            continue
        low, high = _sized(quantity, place) if quantity.form == "size" else _ends(quantity, schema, both=both)
        low, high = low * factor, high * factor
        if is_amount and concept.sign is not None:
            low, high = _signed(quantity, concept, clause, (low, high), notes)
        turn = -1 if name.startswith("-") else 1
        parameters[name.lstrip("-")] = _pair(
            schema, turn * low, turn * high, notes, base=concept.base if is_amount else 0
        )
    if is_amount and quantity.unit in ("%", "x"):
        parameters.update(concept.relative)
    return is_amount


def _sized(quantity: Quantity, place: int) -> tuple[float, float]:
    """For two arguments, "5x7" is the width and the height, height first."""
    value = quantity.high if place == 0 else quantity.low
    return value, value


def _signed(
    quantity: Quantity, concept: Concept, clause: Clause, ends: tuple[float, float], notes: Notes
) -> tuple[float, float]:
    """A change by so much, in the direction that was said; "twice as" and "to 80 %" name what is to be reached."""
    low, high = ends
    unit = quantity.unit
    direction = _sign(clause, concept)
    symmetric = quantity.form in ("most", "around", "range") or low < 0
    before = clause.items[0].value is quantity and direction == 0  # "half the brightness"
    if unit == "x" or (unit == "%" and (quantity.link == "to" or before) and quantity.form == "exact"):
        return low - 1, high - 1
    measured = TRANSFORMS[concept.transform].arguments[concept.amount.split(",")[0].lstrip("-")].get("unit")
    if unit == "" and max(abs(low), abs(high)) > 1 and measured in ("fraction", "factor"):
        notes.unclear(f"{_said(quantity)} %", f"{_said(quantity)} of 255 values")
        low, high = low / 100, high / 100
    if direction == 0 and not symmetric:
        if clause.value("random"):
            return -high, high
        notes.unclear(f"increase by {_said(quantity)}", f"decrease by {_said(quantity)}")
        direction = 1
    return (low * direction, high * direction) if direction else (low, high)


def _degree(
    parameters: dict[str, Any], clause: Clause, concept: Concept, direction: int, notes: Notes
) -> None:
    """No number was said: the value of the degree ("slightly"), or the library's own defaults."""
    level = clause.level
    if level is None and concept.sign is None:
        level = {"low": 0, "high": 2}.get(str(clause.value("sign")))
    random = clause.value("random") is not None
    arguments = TRANSFORMS[concept.transform].arguments
    for name in concept.amount.split(","):
        schema = arguments[name.lstrip("-")]
        if not concept.levels or (
            concept.sign is None and random and level is None and schema.get("ordered")
        ):
            continue  # the library's range
        value = concept.levels[1 if level is None else level]
        if isinstance(value, str):
            parameters[name] = value
            continue
        turn = (-1 if name.startswith("-") else 1) * (direction or 1)
        low, high = (
            (-value, value)
            if (direction == 0 or random) and concept.sign is not None
            else (turn * value, turn * value)
        )
        parameters[name.lstrip("-")] = _pair(schema, low, high, notes, base=concept.base)
    if concept.sign is not None and direction == 0 and not random:
        notes.unclear(
            f"increase the {notes.text}", f"decrease the {notes.text}", f"randomly vary the {notes.text}"
        )
    notes.confidence *= 0.9 if level is not None else 0.8


def _asked(concept: Concept) -> str:
    return f"for example: {TRANSFORMS[concept.transform].examples[0]}"


def _contrast(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    """Contrast about the mean: the library multiplies values, which alone would brighten as well."""
    made = _plain(clause, concept, notes)
    for _name, parameters in made:
        low, high = parameters["contrast_limit"]
        parameters["brightness_limit"] = [-(low + high) / 2 or 0, -(low + high) / 2 or 0]
    return made


def _gaussian(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    """A kernel without a sigma gets OpenCV's sigma for it; the library would draw one that has nothing to do with it."""
    made = _plain(clause, concept, notes)
    for _name, parameters in made:
        kernel = parameters["blur_limit"]
        if any("sigma_limit" in one.argument for one in clause.quantities) or kernel == [0, 0]:
            continue
        parameters["sigma_limit"] = [0.3 * ((max(end, 3) - 1) / 2 - 1) + 0.8 for end in kernel]
    return made


def _downscale(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    """As "by a factor of 4" is to a quarter."""
    whole = [
        replace(item, value=_inverse(item.value)) if item.kind == "quantity" else item
        for item in clause.items
    ]
    return _plain(replace_items(clause, whole), concept, notes)


def _inverse(quantity: Quantity) -> Quantity:
    if quantity.unit in ("", "x") and quantity.low >= 1 and quantity.form != "size":
        return replace(quantity, low=1 / quantity.high, high=1 / quantity.low, unit="x")
    return quantity


def replace_items(clause: Clause, items: list[Any]) -> Clause:
    return Clause(clause.join, items, clause.negated)


def _quarters(turns: int) -> list[Made]:
    """Quarter turns counterclockwise, exactly."""
    flips = {
        1: ("Transpose", "VerticalFlip"),
        2: ("HorizontalFlip", "VerticalFlip"),
        3: ("Transpose", "HorizontalFlip"),
    }
    return [(name, {}) for name in flips.get(turns % 4, ())]


def _rotate(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    """Positive is counterclockwise, as in the library; whole quarter turns are exact."""
    spin = clause.value("spin") or {"left": "counterclockwise", "right": "clockwise"}.get(
        str(clause.value("side"))
    )
    way = -1 if spin == "clockwise" else 1
    angles = [one for one in clause.quantities if one.unit in ("", "deg") and one.form not in ("size", "box")]
    if turn := concept.set.get("turn"):
        angles = [Quantity(turn, turn)]
    for one in clause.quantities:
        if one not in angles and not turn:
            notes.wrong(f"{_said(one)} is no angle", "rotate 15 degrees")
    if not angles:
        return _unsaid_angle(clause, concept, notes)
    angle = angles[-1]
    low, high = _ends(angle, {"type": "number", "minimum": -180, "maximum": 180}, both=spin is None)
    if angle.form == "exact" and clause.value("random") and not turn:
        low, high = -abs(high), abs(high)
        notes.unclear(
            f"rotate between {low:g} and {high:g} degrees",
            f"rotate {high:g} degrees with a probability of 0.5",
        )
    elif angle.form == "exact" and high % 90 == 0 and concept.transform == "Rotate":
        if high % 360 == 0:
            notes.wrong("a whole turn changes nothing", "leave it out")
        if spin is None and high % 180 and high > 0:
            notes.suggestions.append(f"{notes.text!r}: counterclockwise, as no direction is said")
        return _quarters(way * round(high / 90))
    low, high = sorted((way * low, way * high))
    return [(concept.transform, {"limit": [low, high]})]


def _unsaid_angle(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    level = clause.level
    if level is not None:
        angle = (5, 15, 45)[level]
        notes.unclear(f"rotate between -{angle} and {angle} degrees", f"rotate {angle} degrees")
        return [(concept.transform, {"limit": [-angle, angle]})]
    if clause.value("random") is None:
        notes.unclear("rotate 15 degrees", "rotate 90 degrees clockwise", "rotate between -90 and 90 degrees")
    return [(concept.transform, {})]


def _flip(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    said = {
        "left": "horizontal",
        "right": "horizontal",
        "up": "vertical",
        "down": "vertical",
        "top": "vertical",
        "bottom": "vertical",
    }
    axes = clause.values("axis") or [said[side] for side in clause.values("side") if side in said]
    if concept.key == concept.transform:
        axes = [concept.set["axis"], *axes]  # "flip horizontally", and what else is said
    wanted = dict.fromkeys(
        axis for one in axes for axis in (("horizontal", "vertical") if one == "both" else (one,))
    )
    for one in clause.quantities:
        notes.wrong(f"{_said(one)} means nothing for a flip", "flip horizontally with a probability of 0.5")
    if not wanted:
        wanted = {concept.set.get("axis", "horizontal"): None}
        if "axis" not in concept.set:
            notes.unclear("flip horizontally", "flip vertically")
    return [(f"{axis.capitalize()}Flip", {}) for axis in wanted]


def _dimensions(clause: Clause) -> dict[str, int]:
    """Width and height in pixels, as far as they are said; one number alone is both."""
    found: dict[str, int] = {}
    for one in clause.quantities:
        if one.form == "size":
            found |= {"width": round(one.low), "height": round(one.high)}
        elif one.argument in (("width",), ("height",)):
            found[one.argument[0]] = round(one.high)
        elif one.unit in ("", "px") and one.form in ("exact", "most"):
            found |= {"width": round(one.high), "height": round(one.high)}
    return found


def _crop(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    sides = clause.values("side")
    random = concept.key == "RandomCrop" or clause.value("random") is not None
    centre = concept.key == "CenterCrop" or "center" in sides
    if "edges" in sides:
        return _borders(clause, concept, notes)
    for one in clause.quantities:
        if one.form == "box":
            left, top, right, bottom = (round(end) for end in (one.low, one.high, *one.rest))
            return [("Crop", {"x_min": left, "y_min": top, "x_max": right, "y_max": bottom})]
        if one.unit == "%" and one.form == "exact" and not random:
            if not centre:
                notes.unclear(f"crop the center {one.high:g} %", "random crop of 256x256")
            return (
                [("CropAndPad", {"percent": [-(1 - one.high / 100) / 2] * 4, "keep_size": False})]
                if one.high < 100
                else []
            )
    size = _dimensions(clause)
    if len(size) < 2:
        ways = ("random crop of 256x256",) if random else ("crop the center 256 by 256",)
        notes.unclear(
            *(ways if random or centre else ("crop the center 256 by 256", "random crop of 256x256"))
        )
        notes.wrong("a crop needs a size", ways[0])
        return []
    if {"left", "top"} <= set(sides):
        return [("Crop", {"x_min": 0, "y_min": 0, "x_max": size["width"], "y_max": size["height"]})]
    if set(sides) & {"left", "right", "top", "bottom"}:
        notes.wrong("a crop from this side needs the image's size", "crop from 10, 20 to 200, 220")
        return []
    if not random and not centre:
        said = f"{size['width']}x{size['height']}"
        notes.unclear(f"crop the center {said}", f"random crop of {said}")
    return [("RandomCrop" if random else "CenterCrop", {"height": size["height"], "width": size["width"]})]


def _borders(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    """So much off every side: exactly by CropAndPad, up to so much by RandomCropFromBorders."""
    for one in clause.quantities:
        if one.unit == "%" and (one.form == "most" or (clause.value("random") and one.form == "exact")):
            names = ("crop_left", "crop_right", "crop_top", "crop_bottom")
            return [("RandomCropFromBorders", dict.fromkeys(names, one.high / 100))]
        inward = 1 if concept.build == "pad" else -1
        if one.unit == "%" and one.form == "exact":
            return [("CropAndPad", {"percent": [inward * one.high / 100] * 4, "keep_size": False})]
        if one.unit in ("", "px") and one.form == "exact":
            return [("CropAndPad", {"px": [inward * round(one.high)] * 4, "keep_size": False})]
    if concept.key == "RandomCropFromBorders" and not clause.quantities:
        return [("RandomCropFromBorders", {})]
    notes.unclear("crop 10 pixels from each side", "crop up to 10 % from the borders")
    notes.wrong("how much comes off each side is not said", "crop 10 pixels from each side")
    return []


def _pad(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    size = _dimensions(clause)
    to = any(one.form == "size" or one.link == "to" or one.argument for one in clause.quantities)
    if len(size) == 2 and (to or concept.key == "PadIfNeeded"):
        return [("PadIfNeeded", {"min_height": size["height"], "min_width": size["width"]})]
    if len(size) == 2:
        return [("Pad", {"padding": size["width"]})]
    if any(one.unit == "%" for one in clause.quantities):
        return _borders(clause, concept, notes)
    notes.unclear("pad by 16 pixels", "pad to 512x512")
    notes.wrong("padding needs a size", "pad by 16 pixels")
    return []


def _resize(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    if any(one.unit in ("%", "x") and one.form != "size" for one in clause.quantities):
        return _scale(clause, replace(concept, transform="RandomScale", amount="scale_limit", sign=0), notes)
    size = _dimensions(clause)
    if len(size) < 2:
        notes.unclear("resize to 512x512", "scale the longest side to 512 pixels", "scale by 50 %")
        notes.wrong("a size is missing", "resize to 512x512")
        return []
    if not any(one.form == "size" or one.argument for one in clause.quantities):
        notes.unclear(
            f"resize to {size['width']}x{size['height']}", f"scale the longest side to {size['width']} pixels"
        )
    return [("Resize", {"height": size["height"], "width": size["width"]})]


def _resized(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    size = _dimensions(clause)
    if len(size) < 2:
        notes.wrong("the size to scale to is missing", _asked(concept))
        return []
    shares = [_ends(one, {"type": "number", "minimum": 0.08}) for one in clause.quantities if one.unit == "%"]
    scale = {"scale": [max(end / 100, 0.08) for end in shares[-1]]} if shares else {}
    return [("RandomResizedCrop", {"size": [size["height"], size["width"]], **scale})]


def _scale(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    """A factor, whichever way it is said: "by 50 %", "to half", "2x", "enlarge by 20 %"."""
    if any(one.form == "size" for one in clause.quantities):
        return _resize(clause, concept, notes)
    direction = _sign(clause, concept)
    random = clause.value("random") is not None
    if not clause.quantities:
        parameters: dict[str, Any] = {}
        if not random or direction:
            _degree(parameters, clause, concept, direction, notes)
        return [(concept.transform, parameters)]
    shares = [one for one in clause.quantities if one.unit in ("%", "x")]
    quantity = (shares or clause.quantities)[-1]
    if quantity.unit == "px" or (quantity.unit == "" and quantity.high > 20):
        return _resize(clause, concept, notes)
    low, high = sorted(_factor(end, quantity, direction) for end in (quantity.low, quantity.high))
    if quantity.form == "most" or (random and quantity.form == "exact") or quantity.form == "around":
        change = (
            max(abs(low - 1), abs(high - 1)) if direction or quantity.unit != "%" else quantity.high / 100
        )
        low, high = (
            (1, 1 + change)
            if direction > 0
            else (1 - change, 1)
            if direction < 0
            else (1 - change, 1 + change)
        )
    base = 0 if concept.transform == "Affine" else -1
    return [(concept.transform, {concept.amount: [low + base, high + base]})]


def _factor(value: float, quantity: Quantity, direction: int) -> float:
    if quantity.unit == "%":
        return value / 100 if quantity.link == "to" or direction == 0 else 1 + direction * value / 100
    return 1 / value if direction < 0 and value > 1 else value


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


def _moves(clause: Clause) -> dict[str, list[float]]:
    """Pairs of a number and a side, as they are said; positive is right and down."""
    moves: dict[str, list[float]] = {"x": [0, 0], "y": [0, 0]}
    last, side = None, None
    for item in clause.items:
        last = item.value if item.kind == "quantity" and item.value in clause.quantities else last
        side = item.value if item.kind in ("side", "axis") and item.value in _WAYS else side
        if last is not None and side is not None:
            axes, way = _WAYS[side]
            low, high = _ends(last, {"type": "number", "minimum": -1}, both=not way)
            moves |= {axis: sorted(((way or 1) * low, (way or 1) * high)) for axis in axes}
            side = None
    return moves


def _shift(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    moves = _moves(clause)
    unit = next((one.unit for one in clause.quantities), "%")
    if not clause.quantities:
        share = (3, 6, 20)[1 if clause.level is None else clause.level]
        moves = {axis: [-share, share] for axis in moves}
        if clause.value("random") is None:
            notes.unclear("shift the image 20 pixels to the right", "randomly shift by up to 10 %")
    elif moves == {"x": [0, 0], "y": [0, 0]}:
        moves = _unsided(clause, notes)
    if unit not in ("", "px", "%"):
        notes.wrong("a shift is in pixels or percent", "shift the image 20 pixels to the right")
        return []
    if unit == "%":
        shares = {axis: [end / 100 for end in ends] for axis, ends in moves.items()}
        return [(concept.transform, {"translate_percent": shares})]
    whole = {axis: [round(end) for end in ends] for axis, ends in moves.items()}
    return [(concept.transform, {"translate_px": whole})]


def _unsided(clause: Clause, notes: Notes) -> dict[str, list[float]]:
    quantity = clause.quantities[-1]
    low, high = _ends(quantity, {"type": "number", "minimum": -1}, both=True)
    if quantity.form == "exact" and not clause.value("random"):
        notes.unclear(f"shift by {_said(quantity)} to the right", f"shift by up to {_said(quantity)}")
        return {"x": [low, high], "y": [0, 0]}
    return {axis: [-abs(high), abs(high)] if quantity.form == "exact" else [low, high] for axis in ("x", "y")}


def _shear(clause: Clause, concept: Concept, notes: Notes) -> list[Made]:
    axis, other = ("y", "x") if clause.value("axis") == "vertical" else ("x", "y")
    angles = [one for one in clause.quantities if one.unit in ("", "deg")]
    if angles:
        low, high = _ends(angles[-1], {"type": "number", "minimum": -89, "maximum": 89}, both=True)
    else:
        high = (5, 10, 25)[1 if clause.level is None else clause.level]
        low = -high
        if clause.value("random") is None:
            notes.unclear("shear by 10 degrees", "shear between -10 and 10 degrees")
    if clause.value("side") == "left":
        low, high = -high, -low
    return [(concept.transform, {"shear": {axis: [low, high], other: [0, 0]}})]


_BUILD: Final[Mapping[str, Callable[[Clause, Concept, Notes], list[Made]]]] = {
    "plain": _plain,
    "contrast": _contrast,
    "gaussian": _gaussian,
    "downscale": _downscale,
    "rotate": _rotate,
    "flip": _flip,
    "crop": _crop,
    "borders": _borders,
    "pad": _pad,
    "resize": _resize,
    "resized": _resized,
    "scale": _scale,
    "shift": _shift,
    "shear": _shear,
}


def by_chance(clause: Clause, made: Sequence[Made]) -> float:
    """The probability that was said; "randomly" for what has nothing to draw is one time in two."""
    if clause.probability is not None:
        return round(max(0.0, min(1.0, clause.probability)), 4)
    drawn = any(TRANSFORMS[name].arguments for name, _ in made)
    return 0.5 if clause.value("random") is not None and not drawn else 1.0


def unread(clause: Clause) -> Iterator[str]:
    yield from (str(item.value) for item in clause.items if item.kind == "unknown")
