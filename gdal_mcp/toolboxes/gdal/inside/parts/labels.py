"""Reports information about an input that the output lacks, such as names of classes, units, control points and
metadata items.
"""

import itertools
import json
import os
import re

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.raster_checks import unit_of
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet, skip
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of

MAX_SOURCES = 10  # inputs that are compared
MAX_BANDS = 100
FIRST_FEATURES = 100
# metadata domains that GDAL creates itself, or that only describe how the file is stored
OWN_DOMAINS = (
    *("", "DERIVED_SUBDATASETS", "IMAGE_STRUCTURE", "SUBDATASETS", "TIFF", "COLOR_PROFILE", "EXIF"),
    *("GEOLOCATION", "RPC", "OGR_STYLE", "NATIVE_DATA"),
)
# metadata items that locate pixels in place of a geotransform, with the domain of each
POSITIONS = {"control_points": "", "sensor_model": "RPC", "geolocation_arrays": "GEOLOCATION"}
# metadata items that formats make themselves, or that are not valid for other pixels
OWN_ITEMS = re.compile(
    r"STATISTICS_|AREA_OR_POINT|TIFFTAG_[XY]?RES|NETCDF_|_FillValue|RepresentationType|LAYER_TYPE"
    r"|GeoTransform|spatial_ref|crs_wkt|history|grid_mapping|Conventions"
)
# members of GeoJSON that GDAL reads, and those by which services describe their answer
OWN_MEMBERS = frozenset(
    "type id name crs bbox features properties geometry geometry_name xy_coordinate_resolution z_coordinate_resolution "
    "links numberMatched numberReturned totalFeatures timeStamp timestamp generator copyright exceededTransferLimit".split()
)
KML = ("KML", "LIBKML")
MAX_BYTES = 16 << 20  # bytes of a file that is read a second time


def raster_checks(dataset, sources):
    """Reports labels that an input has and the output lacks. The bands of input and output need not correspond."""
    with quiet():
        opened = [gdal.OpenEx(path, gdal.OF_RASTER) for path, row in sources[:MAX_SOURCES] if row]
        readable = [source for source in opened if source is not None]
        before = set().union(*map(labels_of, readable))
        lost = before - labels_of(dataset)
        transform = dataset.GetGeoTransform(can_return_null=True)
        if transform is not None and dataset.GetSpatialRef() is not None:
            lost -= {*POSITIONS}  # they may have been used for the coordinates of the pixels
        # items of several inputs, such as the time of each picture, do not describe what is made of all
        if len(readable) == 1 and items_of(readable[0]) - items_of(dataset):
            lost.add("metadata_items")
    if lost:
        yield {"code": "labels_lost", "lost": sorted(lost)}


def labels_of(dataset):
    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, MAX_BANDS))]
    domains = {domain for domain in dataset.GetMetadataDomainList() or () if not domain.startswith("xml:")}
    present = {
        "category_names": any(band.GetCategoryNames() for band in bands),
        "color_table": any(band.GetColorTable() is not None for band in bands),
        "attribute_table": any(map(has_attributes, bands)),
        "band_descriptions": any(band.GetDescription() for band in bands),
        # numbers without a unit are taken for metres
        "units": any(unit_of(band) not in ("", "metre") for band in bands),
        "metadata_domains": bool(domains - set(OWN_DOMAINS)),
        "control_points": dataset.GetGCPCount() > 0,
        **{name: bool(dataset.GetMetadata(domain)) for name, domain in POSITIONS.items() if domain},
    }
    return {name for name, there in present.items() if there}


def items_of(dataset):
    """The names of the metadata items of a dataset and its bands, without the prefixes that netCDF adds."""
    bands = [dataset.GetRasterBand(i + 1) for i in range(min(dataset.RasterCount, MAX_BANDS))]
    names = {name.rpartition("#")[2] for owner in (dataset, *bands) for name in owner.GetMetadata()}
    return {name.removeprefix("GDAL_") for name in names if not OWN_ITEMS.match(name)}


def has_attributes(band):
    table = band.GetDefaultRAT()
    return table is not None and table.GetRowCount() > 0


def layer_checks(dataset, sources):
    """Reports fields whose values are codes of a field domain that the output lacks."""
    with quiet():
        opened = [gdal.OpenEx(path, gdal.OF_VECTOR) for path, row in sources[:MAX_SOURCES] if row]
        coded = {}
        for source in opened:
            coded |= coded_fields(source) if source is not None else {}
        own = coded_fields(dataset) if coded else {}
        lost = {name for name in coded.keys() - own.keys() if has_codes(dataset, name, coded[name])}
    if lost:
        yield {"code": "labels_lost", "lost": ["field_domains"], "count": len(lost)}


def member_checks(dataset, sources):
    """Reports members of a GeoJSON that GDAL does not know, and styles of a KML, that the output lacks."""
    lost = set()
    with quiet():
        for path, row in sources[:MAX_SOURCES]:
            if not row or not os.path.isfile(path):
                continue
            if row["facts"]["bytes"] > MAX_BYTES:
                skip("labels_lost")
            else:
                lost |= extras_of(path, row["facts"]["driver"])
        driver = dataset.GetDriver().ShortName
        lost -= extras_of(dataset.GetDescription(), driver) if lost else set()
    if lost:
        yield {"code": "labels_lost", "lost": sorted(lost)}


def extras_of(path, driver):
    """The extras of a file, in addition to the fields and geometries of its features."""
    if driver in KML:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES)
        # GDAL itself writes styles without an id into each line and polygon
        return {"styles"} if b"<styleUrl" in text or b"<Style id" in text else set()
    return {"foreign_members"} if driver == "GeoJSON" and foreign_members(path) else set()


def foreign_members(path):
    """The names of members of a GeoJSON and its first features that are not part of the format."""
    dataset = gdal.OpenEx(path, gdal.OF_VECTOR, open_options=["NATIVE_DATA=YES"])
    layer = dataset.GetLayer(0)
    texts = [layer.GetMetadataItem("NATIVE_DATA", "NATIVE_DATA")]
    texts += [feature.GetNativeData() for feature in itertools.islice(layer, FIRST_FEATURES)]
    objects = [json.loads(text) for text in texts if text]
    names = {name for parsed in objects if isinstance(parsed, dict) for name in parsed}
    # GDAL takes the members of a feature without properties for fields
    return names - OWN_MEMBERS - {field.GetName() for field in fields(layer.GetLayerDefn())}


def coded_fields(dataset):
    """The codes of each field that has a coded domain, by the name of the field."""
    every = itertools.chain.from_iterable(fields(layer.GetLayerDefn()) for layer in layers_of(dataset))
    named = [
        (field.GetName(), dataset.GetFieldDomain(field.GetDomainName()))
        for field in every
        if field.GetDomainName()
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
        has_code = any(feature.GetFieldAsString(index) in codes for feature in first)
        layer.ResetReading()
        if has_code:
            return True
    return False
