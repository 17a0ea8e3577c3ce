"""Cheap checks of outputs. Each check is a code with numbers for the place; the host has the texts."""

import filecmp
import itertools
import os
from operator import itemgetter

from osgeo import gdal

from gdal_mcp.toolboxes.gdal.inside.parts.datasets import has_pixels, opened
from gdal_mcp.toolboxes.gdal.inside.parts.extents import are_disjoint, wgs84_box
from gdal_mcp.toolboxes.gdal.inside.parts.raster_checks import (
    combined_checks,
    copied_pixel_checks,
    joined_checks,
    raster_checks,
    rotation_checks,
    sampled_checks,
    unwritten_blocks,
)
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import part, quiet
from gdal_mcp.toolboxes.gdal.inside.parts.survey import MAX_FEATURES
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of
from gdal_mcp.toolboxes.gdal.inside.parts.vector_checks import changed_shapes, invalid_sources, layer_checks

MAX_LAYERS = 10  # layers that are compared
# formulas that specify which part of complex numbers they use
PARTS_OF_COMPLEX = tuple(f"--calc={name}" for name in ("mod", "phase", "real", "imag", "intensity", "conj"))
SAME_BYTES = 64 << 20
SAME_PIXELS = 4 << 20  # pixels of all bands together
RASTER_KEYS = "size band_count block_size overviews compression crs extent gcps rotated".split()


def output_checks(path, dataset, facts, rows, origin):
    """Checks an open output. `rows` are the value ranges of its bands."""
    if has_pixels(dataset):
        yield from pixel_checks(path, dataset, facts, rows, origin)
    lost = any(map(is_complex, origin.sources)) and not is_complex((path, {"facts": facts}))
    by_formula = "--dialect=builtin" in origin.options and set(PARTS_OF_COMPLEX) & set(origin.options)
    if lost and not by_formula:
        yield {"code": "imaginary_lost"}
    if "layers" in facts:
        yield from layer_checks(dataset, facts["layers"], origin)
        yield from invalid_sources(origin)
        yield from changed_shapes(dataset, origin)
        if any(source and "bands" in source["facts"] for _, source in origin.sources):
            yield from sampled_checks(dataset, zones="zonal-stats" in origin.options)
    if not origin.updates:
        yield from left_out(dataset, origin)
    # comparison with the inputs: nothing changed, or the output lies elsewhere
    boxes = []
    for number, (name, source) in enumerate(origin.sources):
        if source is None:
            continue
        about = dataset, facts, name, source["facts"]
        same_kind = os.path.splitext(path)[1].lower() == os.path.splitext(name)[1].lower()
        if number in origin.compared and same_kind and (same_bytes(path, name) or same_content(*about)):
            yield {"code": "identical_to_input", "input": number}
        boxes += [box for extent_and_crs in source["boxes"] if (box := wgs84_box(*extent_and_crs))]
    own = [box for description in (facts, *facts.get("layers", ())) if (box := description.get("wgs84"))]
    comparable = own and boxes and "elsewhere" not in origin.expected
    if comparable and all(are_disjoint(*pair) for pair in itertools.product(own, boxes)):
        yield {"code": "no_overlap"}


def pixel_checks(path, dataset, facts, rows, origin):
    yield from raster_checks(dataset, facts, rows, origin)
    if "pixels" in origin.expected:
        others = [source for source in origin.sources if source[0] != path]
        yield from copied_pixel_checks(facts, others)
        yield from rotation_checks(facts, others)
        yield from joined_checks(dataset, others)
        if not origin.updates:
            yield from part("values").merged_checks(dataset, facts, others)
    if origin.options[:2] == ("vector", "grid"):
        yield from part("grids").grid_checks(dataset, origin.sources, origin.options)
        yield from part("grids").fill_checks(origin.sources, origin.options)
    if origin.options[:2] == ("raster", "color-map"):
        yield from part("color_maps").color_map_checks(dataset, origin.sources, origin.options)
    if "combined" in origin.expected:
        yield from combined_checks(origin.sources, origin.options)
    if not origin.updates and any(word.startswith("--resampling=") for word in origin.options):
        yield from part("values").class_checks(dataset, origin.sources)
    if "holes" in origin.expected and not origin.updates:
        yield from part("masks").mask_checks(dataset, origin.sources, origin.expected)
    if origin.updates:
        yield from part("overviews").overview_checks(dataset)
    else:
        yield from part("overviews").unexamined(dataset, origin.sources)


def left_out(dataset, origin):
    """Checks that the output has the labels and coordinate epochs of its inputs."""
    labels = part("labels")
    if has_pixels(dataset) and "labels" in origin.expected:
        yield from labels.raster_checks(dataset, origin.sources)
    if dataset.GetLayerCount():
        yield from labels.layer_checks(dataset, origin.sources)
    if "labels" in origin.expected:
        yield from labels.member_checks(dataset, origin.sources)
    yield from part("epochs").epoch_checks(dataset, origin.sources)


def unwritten(dataset, origin):
    return (0, 0) if origin.updates or not has_pixels(dataset) else unwritten_blocks(dataset, origin.options)


def is_complex(source):
    _, row = source
    bands = row["facts"].get("bands", ()) if row else ()
    return any(band["type"].startswith("C") for band in bands)


def same_bytes(path, other_path):
    files = os.path.isfile(path) and os.path.isfile(other_path)
    return files and os.path.getsize(path) <= SAME_BYTES and filecmp.cmp(path, other_path, shallow=False)


def same_content(dataset, facts, name, output_facts):
    """True if an output has the same structure, values and metadata as an input."""
    if facts["driver"] != output_facts["driver"]:
        return False
    if has_pixels(dataset):  # pixels are compared only if the structure is the same and there are few enough
        about = itemgetter("type", "nodata", "color")
        bands = [list(map(about, description.get("bands", ()))) for description in (facts, output_facts)]
        if bands[0] != bands[1] or any(facts.get(key) != output_facts.get(key) for key in RASTER_KEYS):
            return False
        if dataset.RasterXSize * dataset.RasterYSize * dataset.RasterCount > SAME_PIXELS:
            return False
    with quiet() as aside:
        source = opened(name, aside)
        if source is None or dataset.GetMetadata() != source.GetMetadata():
            return False
        if has_pixels(dataset):
            labels = part("labels").labels_of
            if labels(dataset) != labels(source):
                return False
            numbers = range(1, dataset.RasterCount + 1)
            return all(same_band(dataset.GetRasterBand(i), source.GetRasterBand(i)) for i in numbers)
        if facts["driver"] == "GeoJSON" and members(dataset.GetDescription()) != members(name):
            return False
        layers, theirs = layers_of(dataset), layers_of(source)
        return 0 < len(layers) == len(theirs) <= MAX_LAYERS and all(map(same_layer, layers, theirs))


def members(path):
    """The native data of a GeoJSON, with foreign members that GDAL does not preserve; None if there are none."""
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR, open_options=["NATIVE_DATA=YES"])
    layer = dataset.GetLayer(0) if dataset is not None else None
    return layer and layer.GetMetadataItem("NATIVE_DATA", "NATIVE_DATA")


def same_layer(first, other):
    def about(layer):
        columns = [(field.GetName(), field.GetType()) for field in fields(layer.GetLayerDefn())]
        crs = layer.GetSpatialRef()
        texts = layer.GetName(), crs and crs.ExportToWkt(), layer.GetMetadata()
        return *texts, columns, layer.GetGeomType(), layer.GetFeatureCount()

    def content(feature):
        geometry = feature.GetGeometryRef()
        values = [feature.GetField(i) for i in range(feature.GetFieldCount())]
        return geometry if geometry is None else bytes(geometry.ExportToIsoWkb()), values

    if first.GetFeatureCount() > MAX_FEATURES or about(first) != about(other):
        return False
    first.ResetReading()
    other.ResetReading()
    return all(content(a) == content(b) for a, b in zip(first, other, strict=False))


def same_band(first, other):
    def about(band):
        table = band.GetColorTable()
        colors = [table.GetColorEntry(i) for i in range(table.GetCount())] if table else None
        return band.GetDescription(), band.GetMaskFlags(), band.GetScale(), band.GetOffset(), colors

    return about(first) == about(other) and first.ReadRaster() == other.ReadRaster()
