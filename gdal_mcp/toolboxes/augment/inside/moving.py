"""Applies steps in order: a transform draws random values once, and they apply to pixels, masks, nodata and labels
alike.

A transform that moves pixels works on their own type. One that changes values works on 8-bit values, or on 32-bit
floats, for which the raster's range is scaled to 0 to 1. The random values of a step depend only on its seed: step
`n` of a call has the call's seed plus `n`.
"""

import math
import random
import time
from dataclasses import dataclass, field

import albumentations as A
import numpy as np

from gdal_mcp.toolboxes.augment.inside import rasters
from gdal_mcp.toolboxes.augment.inside.ranges import scaled, unscaled

SEEDS = 1 << 32
# types that OpenCV cannot move, and the type that holds their values
BY_OPENCV = dict.fromkeys(("i4", "u4"), np.float64)
WINDOWED = ("crop_coords", "crop_params")  # keys of drawn values that show that a window was cut out
MAX_OUTSIDE = 1e-3  # share of a pixel that may come from outside
MAX_DRAWN = 16  # numbers of one drawn value that are reported
# keys in the drawn values that were not drawn
NOT_DRAWN = ("shape", "interpolation", "fill", "fill_mask")


class Skipped(Exception):
    """A step that cannot be applied to this image; the text says why."""


@dataclass
class Scene:
    """A raster and everything that moves with it. `matrix` maps the old corners of pixels to the new ones."""

    raster: rasters.Raster
    masks: list = field(default_factory=list)  # each has rows and columns
    # x and y, from the upper left corner
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    matrix: np.ndarray = field(default_factory=lambda: np.eye(3))
    exact: bool = True  # True if the matrix describes where everything is


def transform(step):
    """Builds the transform once for many images, because that takes longer than applying it."""
    alone = step["group"] is None
    return getattr(A, step["name"])(**step["parameters"], p=step["probability"] if alone else 1.0)


def run(steps, transforms, scene, seed, watch=None):
    """Applies all steps. Returns a row for each that was applied, and one for each that was not, with the reason."""
    applied, skipped, groups = [], [], {}
    for number, (step, transform) in enumerate(zip(steps, transforms, strict=True)):
        started, own = time.perf_counter(), (seed + number) % SEEDS
        if (group := step["group"]) is not None:
            hit = groups.setdefault(group, random.Random(own).random() < step["probability"])
        before, why = scene.raster, {"code": "chance", "reason": ""}
        try:
            done = apply(step, transform, scene, own) if group is None or hit else False
        except Skipped as reason:
            done, why = False, {"code": "unfit", "reason": str(reason)}
        except Exception as error:  # the library has no error class of its own; other steps can still run
            done, why = False, {"code": "failed", "reason": str(error)[:300]}
        if not done:
            skipped.append({"step": number, "bands": before.pixels.shape[2], **why})
            continue
        # reported as JSON; for long arrays, such as the noise of each pixel, only the shape, because the seed
        # reproduces the rest
        drawn = {name: plain(value) for name, value in transform.params.items() if name not in NOT_DRAWN}
        row = {"step": number, "drawn": drawn, "seconds": time.perf_counter() - started}
        applied.append(row)
        if watch is not None:
            watch(row, before, scene.raster)
    return applied, skipped


def apply(step, transform, scene, seed):
    """Applies a step. False if it was skipped at random. The scene is unchanged if this raises."""
    transform.set_random_seed(seed)
    old = scene.raster
    if step["bands"] == "rgb" and old.pixels.shape[2] != 3:
        raise Skipped("it is for images of three bands")
    new = rasters.Raster(**vars(old))
    moves = step["georeference"] != "kept"
    plain = moves or old.pixels.dtype == np.uint8
    sent = movable(old.pixels) if moves else old.pixels if plain else scaled(old.pixels, old.range)
    done = transform(image=sent)["image"]
    if not transform.params and transform.p < 1:
        return False
    new.pixels = (
        layered(done).astype(old.pixels.dtype, copy=False)
        if plain
        else unscaled(layered(done), old.range, old.pixels.dtype)
    )
    masks = [layer(transform, mask) for mask in scene.masks]
    if not moves:
        scene.raster, scene.masks = new, masks
        return True
    new.alpha = None if old.alpha is None else layer(transform, old.alpha)
    new.invalid = None if old.invalid is None else layered(layer(transform, old.invalid))
    if step["georeference"] == "exact":
        matrix = matrix_of(transform, old.size, new.size)
        points = moved(scene.points, matrix)
        scene.matrix = matrix @ scene.matrix
        if new.place is not None:
            new.place = placed(new.place, matrix)
    else:
        points = warped(transform, scene.points)
        scene.exact, new.place, new.crs = False, None, None
    gaps(transform, new, old)
    scene.raster, scene.masks, scene.points = new, masks, points
    return True


def gaps(transform, new, old):
    """Marks pixels from outside the old image, or mixed with them, as nodata, if the raster has a nodata value."""
    if old.nodata is None and old.invalid is None:
        return
    coverage = transform.apply(np.ones((*old.pixels.shape[:2], 1), np.float32), **transform.params)
    outside = np.abs(layered(coverage) - 1) > MAX_OUTSIDE
    if outside.any():
        outside = np.repeat(outside, new.pixels.shape[2], 2).astype(np.uint8)
        new.invalid = outside if new.invalid is None else new.invalid | outside


def layer(transform, values):
    """A mask, moved by the transform's last random values; unchanged if the transform moves no masks."""
    if "mask" not in transform.targets:
        return values
    return transform.apply_to_mask(movable(values), **transform.params).astype(values.dtype, copy=False)


def movable(pixels):
    return pixels.astype(BY_OPENCV.get(pixels.dtype.str[1:], pixels.dtype), copy=False)


def layered(pixels):
    """The array with an axis of bands, which the library omits for a single band."""
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def matrix_of(transform, old, new):
    """The matrix of a flip, a turn, a window, a margin or a new size, for the corners of pixels.

    The library counts from the centres of pixels where it flips, and from their corners where it scales.
    """
    drawn, (width, height) = transform.params, old
    if "pad_left" in drawn:
        return np.array([[1, 0, drawn["pad_left"]], [0, 1, drawn["pad_top"]], [0, 0, 1]], float)
    probes = np.zeros((3, 5))
    probes[1, 0], probes[2, 1] = width, height
    corners = np.asarray(transform.apply_to_keypoints(probes, **drawn), float)[:, :2]
    if len(corners) != 3:
        raise Skipped("it repeats the image beyond its edges, which has no one place")
    linear = np.column_stack([(corners[1] - corners[0]) / width, (corners[2] - corners[0]) / height])
    linear[np.abs(linear) < 1e-4] = 0
    if any(name in drawn for name in WINDOWED):
        return np.array([[*linear[0], corners[0, 0]], [*linear[1], corners[0, 1]], [0, 0, 1]])
    # new size / old size of the whole image
    ratio = np.array(new, float)[:, None] / np.array(old, float)[None, :]
    linear = np.sign(linear) * ratio
    offset = [new[row] if linear[row].sum() < 0 else 0.0 for row in (0, 1)]
    return np.array([[*linear[0], offset[0]], [*linear[1], offset[1]], [0, 0, 1]])


def placed(place, matrix):
    """The geotransform of an image after its pixels were moved by a matrix."""
    a, b, c, d, e, f = place
    affine = np.array([[b, c, a], [e, f, d], [0, 0, 1]]) @ np.linalg.inv(matrix)
    return (*affine[0, [2, 0, 1]].tolist(), *affine[1, [2, 0, 1]].tolist())


def moved(points, matrix):
    return points @ matrix[:2, :2].T + matrix[:2, 2]


def warped(transform, points):
    """The moved points for any kind of transform, by the library's own keypoints, which are at the centre of pixels."""
    if not len(points):
        return points
    rows = np.zeros((len(points), 5))
    rows[:, :2] = points - 0.5
    return np.asarray(transform.apply_to_keypoints(rows, **transform.params), float)[:, :2] + 0.5


def plain(value):
    if isinstance(value, np.ndarray) and value.size > MAX_DRAWN:
        return {"shape": list(value.shape)}
    if isinstance(value, np.ndarray | np.generic):
        numbers = value.tolist()
        return numbers if value.dtype.kind != "f" or np.isfinite(value).all() else None
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in list(value.items())[:MAX_DRAWN]}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value[:MAX_DRAWN]]
    finite = isinstance(value, float) and math.isfinite(value)
    return value if finite or isinstance(value, bool | int | str) else None
