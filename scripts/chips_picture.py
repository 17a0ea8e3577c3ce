"""Draws docs/pictures/chips.jpg from a real run of `make_chips` on a drawn landscape with houses.

On the left are the raster, its houses and the chips' windows in the colours of the splits; on the right are chips
with their labels from `annotations.json`. Needs an engine and the image of the toolbox `augment`.
"""

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from bench.chips import in_image
from gdal_mcp.approvals.model import Terminal
from gdal_mcp.calls.pipeline import Request
from gdal_mcp.policy.identity import local
from gdal_mcp.server.app import running
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import load_settings

TARGET: Final = Path(__file__).parents[1] / "docs/pictures/chips.jpg"
CALL: Final = {
    "input": "land.tif",
    "labels": "houses.gpkg",
    "output": "chips",
    "size": 128,
    "prompt": "rotate 20 degrees, flip horizontally with 50% probability, increase contrast and add noise",
    "block": 2,
    "seed": 3,
    "split": {"train": 0.6, "val": 0.2, "test": 0.2},
}
LAND: Final = """
import cv2, numpy as np
from osgeo import gdal, ogr, osr
gdal.UseExceptions()
draw = np.random.default_rng(12)
land = np.full((768, 768, 3), (92, 140, 96), np.uint8)
for row in range(-60, 800, 96):
    for column in range(-60, 800, 120):
        corners = np.array([[column, row], [column + 116, row + 8], [column + 120, row + 94], [column + 4, row + 90]]) + draw.integers(-9, 9, (4, 2))
        cv2.fillPoly(land, [corners.astype(np.int32)], tuple(map(int, draw.choice([[84, 150, 110], [60, 120, 80], [110, 170, 190], [70, 110, 130], [96, 160, 90]]) + draw.integers(-12, 12))))
        for step in range(0, 90, 6):
            cv2.line(land, (column, row + step), (column + 118, row + step + 6), tuple(map(int, draw.integers(70, 130, 3))), 1)
land = cv2.addWeighted(land, .75, cv2.GaussianBlur(land, (0, 0), 3), .25, 0)
for start, end in (((0, 250), (768, 330)), ((380, 0), (300, 768)), ((0, 620), (768, 560))):
    cv2.line(land, start, end, (190, 190, 195), 9); cv2.line(land, start, end, (230, 230, 232), 1)
utm = osr.SpatialReference(); utm.ImportFromEPSG(32633)
table = gdal.GetDriverByName("GPKG").Create("/ws/houses.gpkg", 0, 0, 0, gdal.GDT_Unknown)
layer = table.CreateLayer("houses", utm, ogr.wkbPolygon); layer.CreateField(ogr.FieldDefn("class", ogr.OFTString))
for _ in range(90):
    box = cv2.boxPoints(((float(draw.integers(10, 758)), float(draw.integers(10, 758))), (float(draw.integers(14, 26)), float(draw.integers(10, 18))), float(draw.integers(0, 90))))
    cv2.fillPoly(land, [(box + 4).astype(np.int32)], (50, 60, 60)); cv2.fillPoly(land, [box.astype(np.int32)], tuple(map(int, draw.choice([[70, 80, 190], [90, 100, 170], [150, 150, 160]]))))
    ring = ",".join(f"{400000 + x / 2} {5400000 - y / 2}" for x, y in [*box, box[0]])
    row = ogr.Feature(layer.GetLayerDefn()); row.SetField("class", "house"); row.SetGeometry(ogr.CreateGeometryFromWkt(f"POLYGON(({ring}))")); layer.CreateFeature(row)
table.Close()
land = np.clip(land.astype(int) + draw.integers(-9, 9, land.shape), 0, 255).astype(np.uint8)
made = gdal.GetDriverByName("GTiff").Create("/ws/land.tif", 768, 768, 3, gdal.GDT_Byte)
made.SetGeoTransform((400000, .5, 0, 5400000, 0, -.5)); made.SetSpatialRef(utm)
made.WriteRaster(0, 0, 768, 768, np.ascontiguousarray(land[:, :, ::-1].transpose(2, 0, 1)).tobytes()); made.Close()
"""
DRAWN: Final = """
import csv, cv2, numpy as np
from osgeo import gdal
read = lambda name: np.ascontiguousarray(np.frombuffer((made := gdal.Open(name)).ReadRaster(), np.uint8).reshape(3, made.RasterYSize, made.RasterXSize)[::-1].transpose(1, 2, 0))
colours = {"train": (90, 200, 80), "val": (60, 170, 250), "test": (240, 110, 70)}
left, rows = read("/ws/land.tif"), list(csv.DictReader(open("/ws/chips/manifest.csv")))
coco = json.load(open("/ws/chips/annotations.json"))
for row in rows:
    x, y = int(row["left"]), int(row["top"])
    cv2.rectangle(left, (x + 4, y + 4), (x + 123, y + 123), colours[row["split"]], 3)
    cv2.putText(left, row["split"], (x + 12, y + 24), cv2.FONT_HERSHEY_SIMPLEX, .5, (255, 255, 255), 1, cv2.LINE_AA)
tiles = []
for image in coco["images"][::max(1, len(coco["images"]) // 12)][:12]:
    chip = cv2.resize(read("/ws/chips/" + image["file_name"]), None, fx=1.9, fy=1.9, interpolation=cv2.INTER_LINEAR)
    for one in coco["annotations"]:
        if one["image_id"] == image["id"]:
            for ring in one["segmentation"]:
                cv2.polylines(chip, [(np.array(ring).reshape(-1, 2) * 1.9).astype(np.int32)], True, (40, 240, 250), 2, cv2.LINE_AA)
    tiles.append(cv2.copyMakeBorder(chip, 6, 7, 6, 7, cv2.BORDER_CONSTANT, value=(255, 255, 255)))
grid = np.vstack([np.hstack(tiles[start : start + 4]) for start in range(0, 12, 4)])
left = cv2.resize(left, (grid.shape[0], grid.shape[0]), interpolation=cv2.INTER_AREA)
cv2.imwrite("/ws/chips.jpg", cv2.resize(np.hstack([left, grid]), None, fx=.75, fy=.75, interpolation=cv2.INTER_AREA), [cv2.IMWRITE_JPEG_QUALITY, 82])
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gdal-mcp-picture-", dir="/var/tmp") as place:
        root = Path(place) / "ws"
        root.mkdir()
        Path(place).chmod(0o755)
        in_image(LAND, root)
        loaded = load_settings(
            workspaces=[str(root)], state_dir=f"{place}/state", toolboxes=["gdal", "augment"]
        )
        with running(loaded, boxes=toolboxes(loaded)) as app:
            approver = Terminal("ann", assume_yes=True, how="a picture")
            request = Request("make_chips", CALL, local("ann"), "a picture", approver)
            reply = anyio.run(partial(app.pipeline.call, request))
            if reply.error is not None:
                raise SystemExit(str(reply.result))
        in_image(DRAWN, root)
        shutil.copy(root / "chips.jpg", TARGET)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
