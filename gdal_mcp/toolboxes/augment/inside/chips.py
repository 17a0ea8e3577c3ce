"""`make_chips`: windows of a large raster, one at a time, each with its labels and mask, split by place.

A chip depends only on the call's arguments and its own name, so each can be reproduced separately, byte for byte.
"""

import csv
import hashlib
import json
import os
import random
import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import cv2
import numpy as np
from osgeo import ogr

from gdal_mcp.toolboxes.augment.inside import moving, rasters, single, vectors

ENDINGS = {"GTiff": "tif", "PNG": "png"}
ACROSS = 6  # chips in a row and in a column of the contact sheet
CLASSES = ("class", "label", "category", "type", "name")  # the first of these columns is the category
COLUMNS = ("chip", "split", "file", "left", "top", "width", "height", "copy", "seed", "georeference", "geotransform", "sha256", "applied")  # fmt: skip


class Window(NamedTuple):
    left: int
    top: int
    width: int
    height: int
    split: str

    @property
    def name(self):
        return f"x{self.left}_y{self.top}"


class Chip(NamedTuple):
    name: str
    window: Window
    copy: int
    seed: int
    scene: moving.Scene
    applied: list
    skipped: list
    labels: list  # features in pixels of the chip
    place: str  # path below the output folder
    digest: str


def run(job, report):
    folder = job["outputs"][0]["path"]
    source = rasters.RasterReader(job["path"])
    chosen, between = windows(job, source)
    for split in job["split"]:
        for part in ("images", *(["masks"] if job["mask"] else []), *(["labels"] if job["labels"] else [])):
            os.makedirs(f"{folder}/{split}/{part}")
    sheet, own = ContactSheet(job, len(chosen)), threading.local()
    index, started, empty = (
        ChipIndex(job, folder, Maker(job, folder, source.span).fields),
        time.perf_counter(),
        0,
    )
    threads = int(os.environ.get("CHIP_THREADS", "1"))

    def work(window):  # each thread has its own datasets and transforms, because neither may be shared
        if not hasattr(own, "maker"):
            own.maker = Maker(job, folder, source.span)
        return list(own.maker.chips(window))

    for done, chips in enumerate(in_order(work, chosen, threads)):
        empty += not chips
        for chip in chips:
            index.enter(chip)
            sheet.add(done, chip)
        share = 0.1 + 0.85 * (done + 1) / len(chosen)
        report.progress(share, f"processing: window {done + 1} of {len(chosen)}")
    seconds = time.perf_counter() - started
    report.progress(0.96, "verification: writing the manifest")
    config = index.close(source)
    sheet.save(folder, report)
    report.progress(1.0, "complete")
    skipped = {job["steps"][step]["name"]: count for step, count in sorted(index.skipped.items())}
    return {
        "chips": len(index.rows), "windows": len(chosen), "left_out": {"empty": empty, "between_splits": between},
        "splits": {split: index.splits[split] for split in job["split"]}, "labels": index.labelled if job["labels"] else None,
        "skipped": skipped, "config": config, "georeference": index.worst, "chips_per_second": len(index.rows) / max(seconds, 1e-9),
    }  # fmt: skip


def in_order(work, items, threads):
    """Yields results in the order of the items. Few are computed ahead, so that memory is bounded."""
    with ThreadPoolExecutor(threads) as pool:
        under_way = deque()
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > threads:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def windows(job, source):
    """The windows in a single split, and the number of those in several, which are left out so that splits never share a pixel."""
    width, height, size = *source.size, job["size"]
    side = size * job["block"]
    blocks = [(x, y) for y in range(-(-height // side)) for x in range(-(-width // side))]
    splits = shared_out(blocks, job["split"], job["seed"])
    accepted, between = [], 0
    for top in starts(height, size, job["overlap"]):
        for left in starts(width, size, job["overlap"]):
            window = Window(left, top, min(size, width), min(size, height), "")
            ends = ((left + window.width - 1) // side, (top + window.height - 1) // side)
            touched = {
                splits[x, y]
                for x in range(left // side, ends[0] + 1)
                for y in range(top // side, ends[1] + 1)
            }
            if len(touched) > 1:
                between += 1
            else:
                accepted.append(window._replace(split=touched.pop()))
    wanted = {name.rpartition("_")[0] for name in job["only"]}
    return [window for window in accepted if not wanted or window.name in wanted], between


def starts(length, size, overlap):
    """The start of each window. The last one is moved back to the edge, so that every chip is complete."""
    if length <= size:
        return [0]
    positions = list(range(0, length - size + 1, size - overlap))
    return positions if positions[-1] == length - size else [*positions, length - size]


def shared_out(blocks, shares, seed):
    """Assigns a split to each block: by shares, at least one block each if there are enough, drawn with the seed."""
    drawn = sorted(blocks)
    random.Random(seed).shuffle(drawn)
    total, names = sum(shares.values()), sorted(shares, key=lambda name: (shares[name], name))
    assigned = {}
    for number, name in enumerate(names):
        rest = len(names) - number - 1
        count = max(1, round(len(blocks) * shares[name] / total))
        count = min(count, max(0, len(drawn) - rest)) if rest else len(drawn)
        assigned |= dict.fromkeys(drawn[:count], name)
        drawn = drawn[count:]
    return assigned


class Maker:
    """Reads windows, and makes and writes the chips of each."""

    def __init__(self, job, folder, span):
        self._job, self._folder = job, folder
        self._source = source = rasters.RasterReader(job["path"], span)
        self._mask = mask = rasters.RasterReader(job["mask"], (0, 1)) if job["mask"] else None
        if mask is not None and (mask.size, mask.place) != (source.size, source.place):
            raise rasters.Unreadable("the mask is not on the same grid as the raster")
        self._layer = vectors.Layer(job["labels"], source.crs) if job["labels"] else None
        self._transforms = [moving.transform(step) for step in job["steps"]]
        self.fields = self._layer.fields if self._layer else []

    def chips(self, window):
        """Makes the chips of a window; none for a window without data."""
        raster = self._source.read(window[:4])
        no_data = raster.invalid is not None and raster.invalid.all()
        if no_data or (raster.alpha is not None and not raster.alpha.any()):
            return
        masks = [rasters.marked(self._mask.read(window[:4]))] if self._mask else []
        labels = self._layer.within(raster) if self._layer else None
        for copy in range(self._job["copies"] if self._job["steps"] else 1):
            name = f"{window.name}_{copy}"
            if self._job["only"] and name not in self._job["only"]:
                continue
            seed = int(hashlib.sha256(f"{self._job['seed']}/{name}".encode()).hexdigest()[:8], 16)
            scene = moving.Scene(raster, masks)
            if labels is not None:
                scene.points = labels.points
            rows = moving.run(self._job["steps"], self._transforms, scene, seed)
            chip = Chip(
                name, window, copy, seed, scene, *rows, labels.features(scene) if labels else [], "", ""
            )
            yield self.written(chip)

    def written(self, chip):
        raster, split, kind = chip.scene.raster, chip.window.split, self._job["format"]
        place = f"{split}/images/{chip.name}.{ENDINGS[kind]}"
        rasters.write(raster, f"{self._folder}/{place}", kind)
        for mask in chip.scene.masks:
            mask_raster = rasters.Raster(moving.layered(mask), place=raster.place, crs=raster.crs)
            rasters.write(mask_raster, f"{self._folder}/{split}/masks/{chip.name}.{ENDINGS[kind]}", kind)
        if self._layer:
            there = raster.place
            features = [
                (vectors.mapped(geometry, there) if there else geometry, values)
                for geometry, values in chip.labels
            ]
            name = f"{self._folder}/{split}/labels/{chip.name}.geojson"
            vectors.save(name, features, self.fields, raster.crs if there else None)
        with open(f"{self._folder}/{place}", "rb") as file:
            return chip._replace(place=place, digest=hashlib.sha256(file.read()).hexdigest())


class ChipIndex:
    """Collects the facts of the chips and writes them to files."""

    def __init__(self, job, folder, fields):
        self._job, self._folder, self._fields = job, folder, fields
        names = [field[0].lower() for field in fields]
        self._class = next((names.index(name) for name in CLASSES if name in names), None)
        self.rows, self.footprints, self.splits, self.skipped, self.labelled = [], [], Counter(), Counter(), 0
        self._images, self._annotations, self._categories = [], [], {}
        self.worst = "none"

    def enter(self, chip):
        raster, window = chip.scene.raster, chip.window
        kind = "lost" if not chip.scene.exact else "none" if raster.place is None else "kept"
        kind = "exact" if kind == "kept" and (chip.scene.matrix != np.eye(3)).any() else kind
        self.worst = max(self.worst, kind, key=("none", "kept", "exact", "lost").index)
        geotransform = " ".join(map(repr, raster.place or ()))
        applied = json.dumps([{"step": row["step"], "drawn": row["drawn"]} for row in chip.applied])
        origin = (chip.name, window.split, chip.place, *window[:4], chip.copy, chip.seed)
        self.rows.append((*origin, kind, geotransform, chip.digest, applied))
        self.splits[window.split] += 1
        self.skipped.update(row["step"] for row in chip.skipped if row["code"] != "chance")
        self.labelled += len(chip.labels)
        width, height = raster.size
        self._images.append({"id": len(self.rows), "file_name": chip.place, "width": width, "height": height})
        self.annotate(chip)
        left, top = window.left, window.top
        frame = vectors.rectangle(left, top, left + window.width, top + window.height)
        self.footprints.append((frame, [chip.name, window.split, kind]))

    def annotate(self, chip):
        for geometry, values in chip.labels:
            name = str(values[self._class]) if self._class is not None else "label"
            category = self._categories.setdefault(name, len(self._categories) + 1)
            left, right, top, bottom = geometry.GetEnvelope()
            kind = ogr.GT_Flatten(geometry.GetGeometryType())
            parts = range(geometry.GetGeometryCount() if kind == ogr.wkbMultiPolygon else 0)
            areas = [geometry] if kind == ogr.wkbPolygon else [geometry.GetGeometryRef(n) for n in parts]
            outlines = [vectors.points_of(polygon.GetGeometryRef(0)).ravel().tolist() for polygon in areas]
            self._annotations.append(
                {
                    "id": len(self._annotations) + 1,
                    "image_id": len(self.rows),
                    "category_id": category,
                    "bbox": [left, top, right - left, bottom - top],
                    "area": geometry.GetArea(),
                    "segmentation": outlines,
                    "iscrowd": 0,
                }
            )

    def close(self, source):
        """Writes the manifest, the footprints, the annotations and the configuration. Returns the configuration's
        digest.
        """
        with open(f"{self._folder}/manifest.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *self.rows])
        place = source.place
        features = [
            (vectors.mapped(geometry, place) if place else geometry, values)
            for geometry, values in self.footprints
        ]
        fields = [(name, ogr.OFTString, ogr.OFSTNone) for name in ("chip", "split", "georeference")]
        vectors.save(f"{self._folder}/footprints.gpkg", features, fields, source.crs, "footprints")
        if self._fields:
            categories = [{"id": number, "name": name} for name, number in self._categories.items()]
            coco = {"images": self._images, "annotations": self._annotations, "categories": categories}
            single.save(self._folder, "annotations.json", json.dumps(coco).encode())
        config = {
            "tool": "make_chips",
            "arguments": self._job["arguments"],
            "steps": self._job["steps"],
            "input": {"range": source.span, "size": source.size, "geotransform": place},
            "versions": single.versions(),
        }
        data = json.dumps(config, indent=1, sort_keys=True).encode()
        single.save(self._folder, "config.json", data)
        return hashlib.sha256(data).hexdigest()


class ContactSheet:
    """A picture of some chips, evenly sampled from all windows."""

    def __init__(self, job, windows):
        self._pixels = job["picture_pixels"] // ACROSS
        self._every, self._tiles = max(1, -(-windows // ACROSS**2)), []

    def add(self, number, chip):
        if not self._pixels or number % self._every or len(self._tiles) >= ACROSS**2:
            return
        pixels = rasters.shown(chip.scene.raster)
        share = self._pixels / max(pixels.shape[:2])
        size = [max(1, int(side * share)) for side in (pixels.shape[1], pixels.shape[0])]
        small = moving.layered(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
        tile = np.full((self._pixels, self._pixels, 3), 255, np.uint8)
        tile[: size[1], : size[0]] = small
        tile[-1:], tile[:, -1:] = 255, 255
        self._tiles.append(tile)

    def save(self, folder, report):
        if not self._tiles:
            return
        across = min(ACROSS, len(self._tiles))
        blank = np.full_like(self._tiles[0], 255)
        tiles = [*self._tiles, *[blank] * (-len(self._tiles) % across)]
        rows = [np.hstack(tiles[start : start + across]) for start in range(0, len(tiles), across)]
        data = rasters.encoded(np.vstack(rows), None, "PNG")
        single.save(folder, "contact_sheet.png", data)
        report.attach("preview.png", data)
