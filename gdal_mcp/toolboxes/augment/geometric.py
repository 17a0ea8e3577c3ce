"""Builds the arguments of turning, flipping, cropping, padding, scaling, shifting and shearing: angles, sides and sizes. Pure."""

from typing import Final

from gdal_mcp.toolboxes.augment.building import BuiltStep, StepBuilder, format_quantity, range_of
from gdal_mcp.toolboxes.augment.reading import Quantity

_ANGLE: Final = {"type": "number", "minimum": -180, "maximum": 180}
# axes, and the direction of a side along each: right and down are positive, 0 has no direction
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
# exact quarter turns, counterclockwise
_TURNS: Final = {
    0: (),
    1: ("Transpose", "VerticalFlip"),
    2: ("HorizontalFlip", "VerticalFlip"),
    3: ("Transpose", "HorizontalFlip"),
}


class Geometric(StepBuilder):
    """Builds the steps of one clause, including those whose numbers have a position or a direction."""

    def _rotate(self) -> list[BuiltStep]:
        """Builds rotations. Positive is counterclockwise, as in the library; whole quarter turns are exact."""
        sides = {"left": "counterclockwise", "right": "clockwise"}
        spin = self.clause.value("spin") or sides.get(str(self.clause.value("side")))
        way = -1 if spin == "clockwise" else 1
        turn = self.concept.set.get("turn")
        angles = [
            quantity
            for quantity in self.numbers
            if quantity.unit in ("", "deg") and quantity.form not in ("size", "box")
        ]
        angles = [Quantity(turn, turn)] if turn else angles[-1:]
        if not turn:
            self._stray(angles)
        if not angles:
            return self._no_angle()
        angle = angles[-1]
        low, high = range_of(angle, _ANGLE, both=spin is None)
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

    def _no_angle(self) -> list[BuiltStep]:
        if self.clause.level is not None:
            angle = (5, 15, 45)[self.level]
            self._unclear(f"rotate between -{angle} and {angle} degrees", f"rotate {angle} degrees")
            return [(self.name, {"limit": [-angle, angle]})]
        if not self.random:
            self._unclear(
                "rotate 15 degrees", "rotate 90 degrees clockwise", "rotate between -90 and 90 degrees"
            )
        return [(self.name, {})]

    def _flip(self) -> list[BuiltStep]:
        self._stray([])
        own = self.concept.set.get("axis", "")
        stated = self.clause.values("axis") or [side for side in self.clause.values("side") if side in _WAYS]
        axes = [axis for direction in stated for axis in _WAYS[direction][0]]
        if self.concept.key == self.name or not axes:  # "flip horizontally and vertically"; "mirror"
            axes.insert(0, own or "x")
        if not own and not stated:
            self._unclear("flip horizontally", "flip vertically")
        return [(_FLIPS[axis], {}) for axis in dict.fromkeys(axes)]

    # sizes

    def _dimensions(self) -> tuple[int, int] | None:
        """Height and width in pixels; a single number is both. None without numbers."""
        dimensions: dict[str, float] = {}
        for quantity in self.numbers:
            if quantity.form == "size":
                sizes = {"width": quantity.low, "height": quantity.high}
            elif quantity.unit in ("", "px") and quantity.argument in (("width",), ("height",)):
                sizes = {quantity.argument[0]: self._one(quantity)}
            elif quantity.unit in ("", "px") and quantity.form != "box":
                sizes = dict.fromkeys(("width", "height"), self._one(quantity))
            else:
                self._wrong(f"{format_quantity(quantity)} is not a size in pixels")
                continue
            if dimensions.keys() & sizes.keys():
                self._wrong(f"{format_quantity(quantity)} is one size too many")
            dimensions |= sizes
        return (round(dimensions["height"]), round(dimensions["width"])) if len(dimensions) == 2 else None

    def _one(self, quantity: Quantity) -> float:
        return quantity.high if quantity.form == "exact" else self._no_range(quantity.high)

    def _stray(self, taken: list[Quantity]) -> None:
        for quantity in self.numbers:
            if not any(quantity is other for other in taken):  # a prompt may name two equal ones
                self._wrong(f"{format_quantity(quantity)} means nothing here")

    def _crop(self) -> list[BuiltStep]:
        sides = self.clause.values("side")
        random = self.random or self.name == "RandomCrop"
        centre = self.concept.key == "CenterCrop" or "center" in sides
        if "edges" in sides:
            return self._borders()
        for quantity in self.numbers[:1]:
            if quantity.form == "box":
                self._stray([quantity])
                corners = map(round, (quantity.low, quantity.high, *quantity.rest))
                return [("Crop", dict(zip(("x_min", "y_min", "x_max", "y_max"), corners, strict=True)))]
            is_centred = not random and sides in ([], ["center"])
            if is_centred and quantity.unit == "%" and quantity.form == "exact" and quantity.high < 100:
                self._stray([quantity])
                if not centre:
                    self._unclear(f"crop the center {quantity.high:g} %", "random crop of 256x256")
                return self._sides((quantity.high - 100) / 2, "%")
        size = self._dimensions()
        size_text = f"{size[1]}x{size[0]}" if size else "256x256"
        ways = [f"crop the center {size_text}"] * (not random) + [f"random crop of {size_text}"] * (
            not centre
        )
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

    def _borders(self) -> list[BuiltStep]:
        """Crops (or pads) every side by an amount: exactly with CropAndPad, up to it with RandomCropFromBorders."""
        outward = self.concept.build == "pad"
        for quantity in self.numbers[:1]:
            self._stray([quantity])
            drawn = quantity.form == "most" or (self.random and quantity.form == "exact")
            if quantity.unit == "%" and drawn and not outward:
                sides = ("crop_left", "crop_right", "crop_top", "crop_bottom")
                return [("RandomCropFromBorders", dict.fromkeys(sides, quantity.high / 100))]
            if quantity.unit in ("", "px", "%"):
                return self._sides(self._one(quantity) * (1 if outward else -1), quantity.unit)
        if self.name == "RandomCropFromBorders" and not self.numbers:
            return [(self.name, {})]
        self._unclear("crop 10 pixels from each side", "crop up to 10 % from the borders")
        return self._wrong("how much comes off each side is not said", "crop 10 pixels from each side")

    def _sides(self, value: float, unit: str) -> list[BuiltStep]:
        """Crops or pads by the same amount on each side, which changes the size of the image."""
        share = {"percent": [value / 100] * 4} if unit == "%" else {"px": [round(value)] * 4}
        return [("CropAndPad", {**share, "keep_size": False})]

    def _pad(self) -> list[BuiltStep]:
        if _WAYS.keys() & self.clause.values("side"):
            return self._wrong("a margin is the same on each side", "pad by 16 pixels")
        if any(quantity.unit == "%" for quantity in self.numbers):
            return self._borders()
        size = self._dimensions()
        to = any(
            quantity.form == "size" or quantity.link == "to" or quantity.argument for quantity in self.numbers
        )
        if size and (to or self.name == "PadIfNeeded"):
            return [("PadIfNeeded", {"min_height": size[0], "min_width": size[1]})]
        if size:
            return [("Pad", {"padding": size[0]})]
        self._unclear("pad by 16 pixels", "pad to 512x512")
        return self._wrong("padding needs a size", "pad by 16 pixels")

    def _resize(self) -> list[BuiltStep]:
        """Resizes to a size in pixels, or by a factor."""
        shares = [
            quantity for quantity in self.numbers if quantity.unit in ("%", "x") and quantity.form != "size"
        ]
        plain = [
            quantity
            for quantity in self.numbers
            if quantity.unit == "" and quantity.form != "size" and not quantity.argument
        ]
        small = [quantity for quantity in plain if quantity.high <= 20]  # a factor, not a size
        if self.concept.build == "scale" and not self.numbers:
            return [(self.name, {} if self.random and not self._sign() else self._degree())]
        if shares or (small and self.concept.build == "scale"):
            self._stray([(shares or small)[-1]])
            return self._factors((shares or small)[-1])
        size = self._dimensions()
        if size is None:
            self._unclear("resize to 512x512", "scale the longest side to 512 pixels", "scale by 50 %")
            return self._wrong("a size is missing", "resize to 512x512")
        if not any(quantity.form == "size" or quantity.argument for quantity in self.numbers):
            self._unclear(f"resize to {size[1]}x{size[0]}", f"scale the longest side to {size[1]} pixels")
        return [("Resize", {"height": size[0], "width": size[1]})]

    _scale = _resize

    def _factors(self, quantity: Quantity) -> list[BuiltStep]:
        """Scales by a factor, as in "by 50 %", "to half", "2x" or "enlarge by 20 %"."""
        direction = self._sign()
        ends = [quantity.low, quantity.high]
        if quantity.unit == "%":
            about = quantity.form == "range" and ends[0] <= 100 <= ends[1]  # "zoom between 90 and 110 %"
            reached = quantity.link == "to" or direction == 0 or about
            ends = [end / 100 if reached else 1 + direction * end / 100 for end in ends]
        elif direction < 0:
            ends = [1 / end if end > 1 else end for end in ends]
        low, high = sorted(ends)
        if quantity.form in ("most", "around") or (self.random and quantity.form == "exact"):
            change = abs(high - 1) if direction or quantity.unit != "%" else quantity.high / 100
            low, high = 1 - change * (direction <= 0), 1 + change * (direction >= 0)
        if self.name == "Affine":
            return [("Affine", {"scale": [low, high]})]
        return [("RandomScale", {"scale_limit": [low - 1, high - 1]})]

    # moves

    def _shift(self) -> list[BuiltStep]:
        units = {quantity.unit or "px" for quantity in self.numbers} or {"%"}
        if units not in ({"px"}, {"%"}):
            return self._wrong(
                "a shift is in pixels, or in percent", "shift the image 20 pixels to the right"
            )
        moves = self._moves()
        if units == {"%"}:
            shares = {axis: [end / 100 for end in moves[axis]] for axis in "xy"}
            return [(self.name, {"translate_percent": shares})]
        return [(self.name, {"translate_px": {axis: [round(end) for end in moves[axis]] for axis in "xy"}})]

    def _moves(self) -> dict[str, list[float]]:
        """The ends of the shift along each axis, from pairs of a number and a side in the order of the prompt."""
        if not self.numbers:
            if not self.random:
                self._unclear("shift the image 20 pixels to the right", "randomly shift by up to 10 %")
            share = (3, 6, 20)[self.level]
            return {axis: [-share, share] for axis in "xy"}
        moves: dict[str, list[float]] = {"x": [0, 0], "y": [0, 0]}
        last, side, paired = None, None, list[Quantity]()
        for item in self.clause.items:
            last = item.value if item.kind == "quantity" and item.value in self.numbers else last
            side = item.value if item.kind in ("side", "axis") and item.value in _WAYS else side
            if last is not None and side is not None:
                axes, way = _WAYS[side]
                low, high = range_of(last, {"type": "number", "minimum": -1}, both=not way)
                moves |= {axis: sorted(((way or 1) * low, (way or 1) * high)) for axis in axes}
                paired.append(last)
                side = None
        self._stray(paired or self.numbers[-1:])
        if paired:
            return moves
        quantity = self.numbers[-1]
        low, high = range_of(quantity, {"type": "number", "minimum": -1}, both=True)
        if quantity.form == "exact" and not self.random:
            self._unclear(
                f"shift by {format_quantity(quantity)} to the right",
                f"shift by up to {format_quantity(quantity)}",
            )
            return {"x": [low, high], "y": [0, 0]}
        return {axis: [-abs(high) if quantity.form == "exact" else low, abs(high)] for axis in "xy"}

    def _shear(self) -> list[BuiltStep]:
        axis, other = ("y", "x") if self.clause.value("axis") == "vertical" else ("x", "y")
        angles = [quantity for quantity in self.numbers if quantity.unit in ("", "deg")][-1:]
        self._stray(angles)
        high: float = (5, 10, 25)[self.level]
        low = -high
        if angles:
            low, high = range_of(angles[0], _ANGLE, both=True)
        elif not self.random:
            self._unclear("shear by 10 degrees", "shear between -10 and 10 degrees")
        if self.clause.value("side") == "left":
            low, high = -high, -low
        return [(self.name, {"shear": {axis: [low, high], other: [0, 0]}})]
