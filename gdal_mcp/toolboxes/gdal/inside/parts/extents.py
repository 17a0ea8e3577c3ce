"""Facts about CRSs and extents of datasets, and their checks."""

import math

from osgeo import gdal, osr

from gdal_mcp.toolboxes.gdal.inside.parts.reporting import plain, quiet

DEGREE = math.pi / 180
# points per side of a transformed box; the sides of a projected box become curves
POINTS_A_SIDE = 21
FARTHEST = 8e7  # metres
NEAR = 0.02  # degrees; no two datums are two kilometres apart, and a point has no extent
BEYOND = 1.01  # factor; a box in a geographic CRS may exceed the limits by a pixel


def crs_facts(crs):
    """Authority code and kind of a CRS, and flags for degrees and metres as its unit; None without a CRS."""
    if crs is None:
        return None
    kinds = {
        "compound": crs.IsCompound,
        "geographic": crs.IsGeographic,
        "projected": crs.IsProjected,
        "geocentric": crs.IsGeocentric,
        "vertical": crs.IsVertical,
        "local": crs.IsLocal,
    }
    return {
        "code": code_of(crs),
        "kind": next((kind for kind, applies in kinds.items() if applies()), "other"),
        "degrees": in_degrees(crs),
        "metres": bool(crs.IsProjected()) and abs(crs.GetLinearUnits() - 1) < 1e-9,
        **unit_of(crs),
        **({"epoch": crs.GetCoordinateEpoch()} if crs.GetCoordinateEpoch() else {}),
    }


def unit_of(crs):
    """The size of a CRS's unit in metres or degrees; empty if the unit is the metre or the degree."""
    if crs.IsProjected() and abs(crs.GetLinearUnits() - 1) > 1e-9:
        return {"unit_metres": crs.GetLinearUnits()}
    if crs.IsGeographic() and not in_degrees(crs):
        return {"unit_degrees": round(crs.GetAngularUnits() / DEGREE, 12)}
    return {}


def code_of(crs):
    authority, code = crs.GetAuthorityName(None), crs.GetAuthorityCode(None)
    return f"{authority}:{code}" if authority and code else None


def reference(name):
    """Parses the text of a call as a CRS; None if it is not one."""
    crs = osr.SpatialReference()
    if crs.SetFromUserInput(name, ["ALLOW_NETWORK_ACCESS=NO", "ALLOW_FILE_ACCESS=NO"]) != 0:
        return None
    return crs


def traditional(crs):
    """A copy of the CRS with x before y, whatever axis order its authority defines."""
    copy = crs.Clone()
    copy.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return copy


def in_degrees(crs):
    return bool(crs.IsGeographic()) and abs(crs.GetAngularUnits() - DEGREE) < 1e-12


def raster_extent(dataset):
    """[west, south, east, north] in the CRS of the raster, or None without a geotransform."""
    transform = dataset.GetGeoTransform(can_return_null=True)
    if transform is None:
        return None
    width, height = dataset.RasterXSize, dataset.RasterYSize
    corners = [gdal.ApplyGeoTransform(transform, x, y) for x in (0, width) for y in (0, height)]
    xs, ys = zip(*corners, strict=True)
    return [plain(value) for value in (min(xs), min(ys), max(xs), max(ys))]


def is_box(box):
    return box is not None and all(isinstance(value, int | float) and math.isfinite(value) for value in box)


def wgs84_box(box, crs):
    """[west, south, east, north] in degrees, with west > east across the antimeridian; None if unknown."""
    target = osr.SpatialReference()
    target.ImportFromEPSG(4326)
    transformed = box_in(box, crs, target)
    if transformed is None:
        return None
    west, south, east, north = transformed
    collapsed = (west == east and box[0] < box[2]) or (south == north and box[1] < box[3])
    if collapsed or south < -90 * BEYOND or north > 90 * BEYOND:
        return None
    if east - west >= 360:
        west, east = -180.0, 180.0
    west, east = (x if -180 <= x <= 180 else (x + 180) % 360 - 180 for x in (west, east))
    return [west, max(south, -90.0), east, min(north, 90.0)]


def box_in(box, crs, target):
    """Transforms a box to another CRS, with points on its sides, which may become curves; None if that fails."""
    if crs is None or not is_box(box) or outside(box, crs):
        return None
    with quiet():
        change = osr.CreateCoordinateTransformation(traditional(crs), traditional(target))
        transformed = change.TransformBounds(*box, POINTS_A_SIDE) if change is not None else None
    return list(transformed) if is_box(transformed) else None


def outside(box, crs):
    """True if coordinates cannot belong to their CRS: degrees beyond the poles or twice around the earth."""
    if not is_box(box) or crs is None or not in_degrees(crs):
        return False
    return min(box[1], -box[3]) < -90 * BEYOND or box[0] < -360 * BEYOND or box[2] > 540 * BEYOND


def halves(box):
    """The box, or its two parts on either side of the antimeridian."""
    west, south, east, north = box
    return [box] if west <= east else [(west, south, 180.0, north), (-180.0, south, east, north)]


def are_disjoint(box, other):
    """True if two boxes in WGS 84 certainly do not intersect. A box across the antimeridian counts as two."""
    return not any(
        a[0] <= b[2] + NEAR and b[0] <= a[2] + NEAR and a[1] <= b[3] + NEAR and b[1] <= a[3] + NEAR
        for a in halves(box)
        for b in halves(other)
    )


def crs_checks(facts, crs):
    """Checks the CRS and the extent of a raster or a layer."""
    if facts["extent"] is None:
        return
    if crs is None:
        yield {"code": "crs_missing"}
    elif outside(facts["extent"], crs):
        yield {"code": "extent_outside_crs"}
    elif beyond_earth(facts["extent"], crs):
        yield {"code": "coordinates_beyond_earth"}
    elif degrees_in_metres(facts, crs):
        yield {"code": "degrees_in_projected"}
    elif far_from_use(facts.get("wgs84"), crs):
        yield {"code": "outside_area_of_use"}


def beyond_earth(box, crs):
    """True for coordinates of a projected CRS beyond twice the circumference of the earth, as of a pole in Mercator."""
    return bool(crs.IsProjected()) and is_box(box) and max(map(abs, box)) * crs.GetLinearUnits() > FARTHEST


def degrees_in_metres(facts, crs):
    """True if coordinates look like degrees and are outside the area of use of their projected CRS."""
    box, area = facts["extent"], crs.GetAreaOfUse()
    if not crs.IsProjected() or not is_box(box) or area is None or not facts.get("wgs84"):
        return False
    if max(map(abs, box[::2])) > 180 or max(map(abs, box[1::2])) > 90:
        return False
    west, south, east, north = (
        area.west_lon_degree,
        area.south_lat_degree,
        area.east_lon_degree,
        area.north_lat_degree,
    )
    return are_disjoint(facts["wgs84"], [west, south, east, north])


def far_from_use(box, crs):
    """True if a box in WGS 84 is outside the area of use of a CRS, by more than half of that area's size.

    Outside but closer, such as in the next zone, the CRS is often used on purpose.
    """
    area = crs.GetAreaOfUse() if box else None
    if area is None:
        return False
    west, east = area.west_lon_degree, area.east_lon_degree
    south, north = area.south_lat_degree, area.north_lat_degree
    wide, high = ((east - west) % 360 or 360) / 2, (north - south) / 2
    if wide >= 90:
        west, east = -180.0, 180.0
    else:
        west, east = ((x + 180) % 360 - 180 for x in (west - wide, east + wide))
    return are_disjoint(box, [west, south - high, east, north + high])
