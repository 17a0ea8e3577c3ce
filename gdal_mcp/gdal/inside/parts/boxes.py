"""Boxes on the earth: west, south, east and north in degrees; west is above east across the antimeridian."""

import math


def size(box):
    """720 for all of the earth."""
    west, south, east, north = box
    return (east - west if east >= west else east - west + 360) * (height(north) - height(south))


def height(latitude):
    return math.sin(math.radians(latitude))


def halves(box):
    """The box, or its two parts on either side of the antimeridian."""
    west, south, east, north = box
    return [box] if west <= east else [(west, south, 180.0, north), (-180.0, south, east, north)]


def common(one, other):
    """The size of what two boxes share."""
    south, north = max(one[1], other[1]), min(one[3], other[3])
    if south >= north:
        return 0.0
    widths = (min(a[2], b[2]) - max(a[0], b[0]) for a in halves(one) for b in halves(other))
    return sum(width for width in widths if width > 0) * (height(north) - height(south))
