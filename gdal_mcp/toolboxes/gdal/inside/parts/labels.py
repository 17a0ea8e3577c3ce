"""Reports information that explains the values of an input and that the output lacks, such as names of classes and
units.
"""

import itertools

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.datasets import UNITS
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of

MAX_SOURCES = 10  # inputs that are compared
MAX_BANDS = 100
FIRST_FEATURES = 100
# metadata domains that GDAL creates itself, or that only describe how the file is stored
OWN_DOMAINS = (
    *("", "DERIVED_SUBDATASETS", "IMAGE_STRUCTURE", "SUBDATASETS", "TIFF", "COLOR_PROFILE", "EXIF"),
    *("GEOLOCATION", "RPC", "OGR_STYLE", "NATIVE_DATA"),
)
WITHOUT_COLORS = ("JPEG", "GTiff", "COG")  # formats for which GDAL itself reports lost colours


def raster_checks(dataset, sources):
    """Reports labels that an input has and the output lacks. The bands of both need not correspond."""
    with quiet():
        opened = [gdal.OpenEx(path, gdal.OF_RASTER) for path, row in sources[:MAX_SOURCES] if row]
        before = set().union(*(labels_of(one) for one in opened if one is not None))
        lost = before - labels_of(dataset)
    if lost:
        yield {"code": "labels_lost", "lost": sorted(lost)}


def labels_of(dataset):
    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, MAX_BANDS))]
    domains = {one for one in dataset.GetMetadataDomainList() or () if not one.startswith("xml:")}
    found = {
        "category_names": any(band.GetCategoryNames() for band in bands),
        "color_table": any(band.GetColorTable() is not None for band in bands),
        "attribute_table": any(map(has_attributes, bands)),
        "band_descriptions": any(band.GetDescription() for band in bands),
        "units": any(map(has_unit, bands)),
        "metadata_domains": bool(domains - set(OWN_DOMAINS)),
    }
    return {name for name, there in found.items() if there}


def has_attributes(band):
    table = band.GetDefaultRAT()
    return table is not None and table.GetRowCount() > 0


def has_unit(band):
    """True for a unit other than the metre, because numbers without a unit are taken for metres."""
    unit = band.GetUnitType().strip().lower()
    return bool(unit) and UNITS.get(unit) != "metre"


def layer_checks(dataset, sources):
    """Reports fields whose values are codes of a field domain that the output lacks."""
    with quiet():
        opened = [gdal.OpenEx(path, gdal.OF_VECTOR) for path, row in sources[:MAX_SOURCES] if row]
        coded = {}
        for one in opened:
            coded |= coded_fields(one) if one is not None else {}
        own = coded_fields(dataset) if coded else {}
        lost = {name for name in coded.keys() - own.keys() if has_codes(dataset, name, coded[name])}
    if lost:
        yield {"code": "labels_lost", "lost": ["field_domains"], "count": len(lost)}


def coded_fields(dataset):
    """The codes of each field that has a coded domain, by the name of the field."""
    every = itertools.chain.from_iterable(fields(layer.GetLayerDefn()) for layer in layers_of(dataset))
    named = [
        (one.GetName(), dataset.GetFieldDomain(one.GetDomainName())) for one in every if one.GetDomainName()
    ]
    return {
        name: set(domain.GetEnumeration())
        for name, domain in named
        if domain and domain.GetDomainType() == ogr.OFDT_CODED
    }


def has_codes(dataset, name, codes):
    """True if a field contains codes. For some formats, GDAL writes their meanings instead."""
    for layer in layers_of(dataset):
        index = layer.GetLayerDefn().GetFieldIndex(name)
        first = itertools.islice(layer, FIRST_FEATURES if index >= 0 else 0)
        found = any(feature.GetFieldAsString(index) in codes for feature in first)
        layer.ResetReading()
        if found:
            return True
    return False
