"""The effect of a step on pixels, compared with albumentations in a separate container, and on positions, compared
with GDAL.
"""

import json
from pathlib import Path

import pytest

from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS, number_of
from tests.augmenting import in_image

pytestmark = [pytest.mark.engine, pytest.mark.nightly]

INSIDE = str(Path(__file__).resolve().parents[3] / "gdal_mcp/toolboxes/augment/inside")
RESIZED = {"CropAndPad", "LongestMaxSize", "RandomResizedCrop", "RandomScale", "Resize", "SmallestMaxSize"}
REQUIRED = {
    "Crop": {"x_min": 5, "y_min": 7, "x_max": 61, "y_max": 70},
    "CenterCrop": {"height": 50, "width": 40},
    "RandomCrop": {"height": 50, "width": 40},
    "RandomResizedCrop": {"size": [48, 96]},
    "Resize": {"height": 50, "width": 111},
    "LongestMaxSize": {"max_size": 61},
    "SmallestMaxSize": {"max_size": 131},
    "GridElasticDeform": {"num_grid_xy": [4, 4], "magnitude": 10},
    "CropAndPad": {"px": [-9, 4]},
    "Pad": {"padding": 7},
    "PadIfNeeded": {"min_height": 130, "min_width": 140},
    "RandomScale": {"scale_limit": [-0.4, 0.4]},
}
STEPS = [
    {"name": transform.name, "parameters": REQUIRED.get(transform.name, {}), "probability": 1.0, "group": None,
     "georeference": transform.georeference, "bands": transform.bands, "category": transform.category}
    for transform in TRANSFORMS.values()
]  # fmt: skip
SETTING = f"""
import hashlib, os, types, warnings
warnings.simplefilter("ignore")
os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
import numpy as np
STEPS = json.loads({json.dumps(STEPS)!r})
noise = np.random.default_rng(5)
image = noise.integers(0, 256, (90, 120, 3), dtype=np.uint8)
mask = noise.integers(0, 4, (90, 120), dtype=np.uint8)
digest = lambda one: [list(one.shape), hashlib.sha256(np.ascontiguousarray(one).tobytes()).hexdigest()]
"""
PLAIN = """
import albumentations as A
found = {}
for step in STEPS:
    done = A.Compose([getattr(A, step["name"])(**step["parameters"], p=1)], seed=11)(image=image, mask=mask)
    found[step["name"]] = [digest(done["image"]), digest(done["mask"])]
print(json.dumps(found))
"""
OURS = """
for name in ("gdal_mcp", "gdal_mcp.toolboxes.augment", "gdal_mcp.toolboxes.augment.inside"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = ["/inside"]
from gdal_mcp.toolboxes.augment.inside import moving, rasters
"""
PIXELS = """
found = {}
for step in STEPS:
    scene = moving.Scene(rasters.Raster(image), [mask])
    _, skipped = moving.run([step], [moving.transform(step)], scene, 11)
    found[step["name"]] = skipped or [digest(scene.raster.pixels), digest(scene.masks[0])]
print(json.dumps(found))
"""
# each pixel contains the position of its centre; a label is a triangle with corners given by the pixels there
PLACES = """
from osgeo import gdal, osr
gdal.UseExceptions()
utm = osr.SpatialReference(); utm.ImportFromEPSG(32633)
place = (400000.0, 10.0, 0.0, 5400000.0, 0.0, -10.0)
rows, columns = np.mgrid[0:90, 0:120]
worst, labels, kept = {}, {}, {}
for kind in ("f4", "u2", "i2", "u1"):
    for step in STEPS:
        if step["georeference"] != "exact":
            continue
        for seed in range(4):
            pixels = np.stack([columns + 1, rows + 1, columns * 0 + 9, rows * 0 + 9, rows * 0 + 9], 2).astype(kind)
            raster = rasters.Raster(pixels, nodata=(0,) * 5, place=place, crs=utm)
            scene = moving.Scene(raster, points=np.array([[30.0, 40.0], [60.0, 44.0], [44.0, 60.0]]))
            applied, skipped = moving.run([step], [moving.transform(step)], scene, seed)
            assert applied and not skipped, (step["name"], skipped)
            rasters.write(scene.raster, "/tmp/out.tif")
            made = gdal.Open("/tmp/out.tif")
            assert made.GetSpatialRef().IsSame(utm) and made.GetRasterBand(1).GetNoDataValue() == 0
            read = [np.frombuffer(made.GetRasterBand(number).ReadRaster(buf_type=gdal.GDT_Float64)).reshape(made.RasterYSize, made.RasterXSize) for number in (1, 2)]
            there = made.GetGeoTransform()
            inner = np.zeros(read[0].shape, bool)
            inner[3:-3, 3:-3] = True
            inner &= (read[0] > 2) & (read[1] > 2) & (read[0] < 119) & (read[1] < 89)  # away from edges, where sizes change by guessing
            y, x = np.nonzero(inner)
            assert len(x) > 500, step["name"]
            moved = np.stack([there[0] + (x + .5) * there[1] + (y + .5) * there[2], there[3] + (x + .5) * there[4] + (y + .5) * there[5]])
            was = np.stack([place[0] + (read[0][y, x] - .5) * 10, place[3] - (read[1][y, x] - .5) * 10])
            worst[f"{kind} {step['name']}"] = max(worst.get(f"{kind} {step['name']}", 0), float(np.abs(moved - was).max()))
            corners = scene.points
            world = np.stack([there[0] + corners[:, 0] * there[1] + corners[:, 1] * there[2], there[3] + corners[:, 0] * there[4] + corners[:, 1] * there[5]], 1)
            source = np.array([[400300, 5399600], [400600, 5399560], [400440, 5399400]])
            labels[step["name"]] = max(labels.get(step["name"], 0), float(np.abs(world - source).max()))
print(json.dumps([worst, labels]))
"""


def test_every_transform_gives_library_pixels_and_masks():
    plain, ours = in_image(SETTING + PLAIN), in_image(SETTING + OURS + PIXELS, inside=INSIDE)
    assert len(plain) == len(TRANSFORMS)
    assert {name for name in plain if plain[name] != ours[name]} == set()


ENDS = """
import albumentations as A
warnings.simplefilter("error", RuntimeWarning)
found = []
for name, parameters in CASES:
    made = getattr(A, name)
    try:
        made(**parameters, p=1)(image=image)
    except RuntimeWarning as warning:
        found.append([name, parameters, str(warning)])
    except Exception:
        pass  # an argument that the image does not take is told of the step
print(json.dumps(found))
"""


def test_extreme_arguments_never_divide_by_zero():
    cases = []
    for name, argument, schema in (
        (transform.name, key, schema)
        for transform in TRANSFORMS.values()
        for key, schema in transform.arguments.items()
    ):
        bounds = number_of(schema)
        for end in (bounds.get("minimum"), bounds.get("maximum")):
            if end is not None and abs(end) <= 1000:  # larger values are sizes, which take long
                value = [end, end] if schema.get("ordered") else end
                cases.append((name, {**REQUIRED.get(name, {}), argument: value}))
    fit = [case for case in cases if not TRANSFORMS[case[0]].faults(case[1])]
    assert len(fit) > 200
    assert in_image(SETTING + f"CASES = json.loads({json.dumps(fit)!r})\n" + ENDS) == []


def test_point_keeps_coordinates_through_transforms_claiming_so():
    worst, labels = in_image(SETTING + OURS + PLACES, inside=INSIDE)
    assert set(labels) == {
        transform.name for transform in TRANSFORMS.values() if transform.georeference == "exact"
    }
    # metres, for pixels of ten metres; resizing computes new values, and integer values are rounded
    for name, far in worst.items():
        kind, _, step = name.partition(" ")
        assert far <= (1e-6 if step not in RESIZED else 0.02 if kind == "f4" else 10.01), name
    assert {name: far for name, far in labels.items() if far > 1e-6} == {}
