"""Scales the values of a raster to 0 to 1, for transforms that change values, and back."""

import numpy as np


def widened(span, pixels, invalid):
    """`span`, which is from a sample, widened to the valid finite values of these pixels, so that none is cut off."""
    there = np.isfinite(pixels) if invalid is None else np.isfinite(pixels) & (invalid == 0)
    values = pixels[there]
    if not values.size:
        return span
    return min(span[0], float(values.min())), max(span[1], float(values.max()))


def scaled(pixels, span):
    low, high = span
    return ((pixels.astype(np.float64) - low) / (high - low)).clip(0, 1).astype(np.float32)


def unscaled(pixels, span, kind):
    low, high = span
    values = pixels.astype(np.float64) * (high - low) + low
    if kind.kind == "f":
        return values.astype(kind)
    limits = np.iinfo(kind)
    return values.round().clip(limits.min, limits.max).astype(kind)
