"""Finds the operations that PROJ uses between two CRSs for the data, their accuracy, and better operations.

GDAL's binding does not report this, so PROJ is called directly; its library is loaded with GDAL's. PROJ chooses an
operation for every point, by the operations' areas of use. A sample of points within the data is transformed as GDAL
would do it, and the operation of each point is recorded.
"""

import ctypes
import itertools
import math
import re
from collections import Counter
from functools import cache
from typing import NamedTuple

from osgeo import gdal, osr

from gdal_mcp.toolboxes.gdal.inside.parts.extents import (
    DEGREE,
    box_in,
    code_of,
    far_from_use,
    is_box,
    reference,
    traditional,
    wgs84_box,
)
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import library, quiet

# fractions of each side of the data; its corners may lie outside the area of every operation
SAMPLE = (0.1, 0.3, 0.5, 0.7, 0.9)
CONVERSION = 21  # PJ_TYPE_CONVERSION: exact, as no datum changes
IGNORED = 2  # PROJ_GRID_AVAILABILITY_IGNORED
INTERSECTION = 1  # PROJ_SPATIAL_CRITERION_PARTIAL_INTERSECTION
MAX_CANDIDATES = 3  # best first
NO_PART = (None, "EPSG:15498", "EPSG:9843", "EPSG:9844")  # operations that only change the order of axes
CODE = re.compile(r"^(?:[A-Z_]+\()*([A-Za-z_0-9]+?)\)*$")  # such as DERIVED_FROM(INVERSE(EPSG))
SHOWN_FOR_MAPS = " (with axis order normalized for visualization)"
# semi-major axis in metres and inverse flattening of Hughes 1980, which is used only for maps of the poles
HUGHES = (6378273.0, 298.279)
MAX_DISTANCE = 2.0  # metres: EPSG's accuracy of WGS 84 itself, whose realizations count as one
SAME_HEIGHT = 0.01  # metres below which heights count as the same
YEARS = (2000.0, 2020.0)  # years between which the motion of a place is measured
SAME_DRIFT = 0.002  # metres per year, less than any plate moves
SAME_EPOCH = 0.01  # years
MOST_TRIED = 20  # operations to WGS 84 that are tried, best first
METRES_OF_DEGREE = 111_195.0  # metres per degree on a sphere of the mean radius
# CRSs whose frames are WGS 84 within two metres by definition; EPSG has operations to WGS 84 for only some of them.
# ITRF, IGS, SIRGAS and CGCS2000 (ITRF97) agree within decimetres; realizations of NAD83 are as close to WGS 84 as NAD83
# is, which is four metres by EPSG:1188
FRAMES = re.compile(
    r"(?:GCS_)?(?:(?:ITRF|IGS|IGb|(?:CR-)?SIRGAS|SRGI)[ _-]?[0-9A-Z].*|NAD83(?:\(.*)?|"
    r"China[ _]Geodetic[ _]Coordinate[ _]System[ _]2000|CGCS2000)"
)


# PROJ's functions without `proj_`: the types of the result and of the arguments, as letters of KINDS
FUNCTIONS = """
context_create p, log_level ipi, create ppt, get_type ip, get_name tp, get_id_auth_name tpi, get_id_code tpi, get_target_crs ppp,
create_crs_to_crs_from_pj pppppp, normalize_for_visualization ppp, area_create p, area_set_bbox -pdddd, trans_array ipizp,
trans_get_last_used_operation pp, coordoperation_get_accuracy dpp, coordoperation_has_ballpark_transformation ipp,
coordoperation_get_grid_used_count ipp, coordoperation_get_grid_used ippippppppp, concatoperation_get_step_count ipp,
concatoperation_get_step pppi, create_operation_factory_context ppt, operation_factory_context_set_area_of_interest -ppdddd,
operation_factory_context_set_spatial_criterion -ppi, operation_factory_context_set_grid_availability_use -ppi,
create_operations ppppp, list_get_count ip, list_get pppi
"""
KINDS = {"p": ctypes.c_void_p, "t": ctypes.c_char_p, "d": ctypes.c_double, "i": ctypes.c_int}
KINDS |= {"z": ctypes.c_size_t, "-": None}


class Proj:
    """PROJ's functions with a separate context that logs nothing. Objects are freed with the container."""

    def __init__(self):
        for row in FUNCTIONS.split(","):
            name, (result, *arguments) = row.split()
            # images with an internal PROJ give its functions a prefix
            function = getattr(library, f"proj_{name}", None) or getattr(library, f"internal_proj_{name}")
            function.restype, function.argtypes = KINDS[result], [KINDS[kind] for kind in arguments]
            setattr(self, name, function)
        self.context = self.context_create()
        self.log_level(self.context, 0)

    def way(self, source, target, area):
        """PROJ's transformation between two CRSs, with x before y; None if there is none.

        `area` is the area of interest in degrees that GDAL passes to PROJ, or None.
        """
        within = None
        if area is not None:
            within = self.area_create()
            self.area_set_bbox(within, *area)
        operation = self.create_crs_to_crs_from_pj(self.context, source, target, within, None)
        return self.normalize_for_visualization(self.context, operation) if operation else None

    def used(self, way, box):
        """The operations that PROJ uses in a box, each with its `share` of the sampled points, most frequent first."""
        if not way:
            return []
        counts, first = Counter(), {}
        west, south, east, north = box
        for x, y in itertools.product(SAMPLE, SAMPLE):
            at = (ctypes.c_double * 4)(west + x * (east - west), south + y * (north - south), 0.0, math.inf)
            failed = self.trans_array(way, 1, 1, ctypes.byref(at))
            if not failed and (last := self.trans_get_last_used_operation(way)):
                row = self.description(last)
                counts[row["name"]] += 1
                first.setdefault(row["name"], row)
        return [{**first[name], "share": count / counts.total()} for name, count in counts.most_common()]

    def drift(self, way, box, unit):
        """The metres per year by which the middle of a box moves, if the transformation depends on time.

        `unit` is the number of metres in one unit of the target CRS.
        """
        places = []
        for year in YEARS if way else ():
            at = (ctypes.c_double * 4)((box[0] + box[2]) / 2, (box[1] + box[3]) / 2, 0.0, year)
            if self.trans_array(way, 1, 1, ctypes.byref(at)) or not math.isfinite(at[0]):
                return 0.0
            places.append((at[0] * unit, at[1] * unit))
        return math.dist(*places) / (YEARS[1] - YEARS[0]) if places else 0.0

    def of(self, crs):
        return self.create(self.context, crs.ExportToWkt(["FORMAT=WKT2_2019"]).encode())

    def true_ways(self, source, target, area):
        """Yields the usable operations that are not ballpark ones, best first, with x before y."""
        operations = self.operations(source, target, area) if source and target else None
        for i in range(min(self.list_get_count(operations) if operations else 0, MOST_TRIED)):
            way = self.list_get(self.context, operations, i)
            rough = self.coordoperation_has_ballpark_transformation(self.context, way)
            if not rough and not self.lacks_grid(way):
                yield self.normalize_for_visualization(self.context, way)

    def placed(self, way, x, y):
        """Transforms a point by an operation; None outside its range."""
        at = (ctypes.c_double * 4)(x, y, 0.0, math.inf)
        failed = self.trans_array(way, 1, 1, ctypes.byref(at))
        return None if failed or not math.isfinite(at[0]) else (at[0], at[1])

    def best(self, source, target, area):
        """The best operations for an area, including those that need a missing grid."""
        operations = self.operations(source, target, area)
        count = self.list_get_count(operations) if operations else 0
        return [
            self.description(self.list_get(self.context, operations, i))
            for i in range(min(count, MAX_CANDIDATES))
        ]

    def operations(self, source, target, area):
        how = self.create_operation_factory_context(self.context, None)
        self.operation_factory_context_set_spatial_criterion(self.context, how, INTERSECTION)
        self.operation_factory_context_set_grid_availability_use(self.context, how, IGNORED)
        if area is not None and area[0] <= area[2]:
            self.operation_factory_context_set_area_of_interest(self.context, how, *area)
        return self.create_operations(self.context, source, target, how)

    def description(self, operation):
        name = (self.get_name(operation) or b"").decode("utf-8", "replace").replace(SHOWN_FOR_MAPS, "")
        count = self.concatoperation_get_step_count(self.context, operation)
        parts = [self.concatoperation_get_step(self.context, operation, i) for i in range(count)]
        steps = parts or [operation]
        exact = all(self.get_type(step) == CONVERSION for step in steps)
        accuracy = self.coordoperation_get_accuracy(self.context, operation)
        codes = [self.identifier(step) for step in steps]
        through = [self.identifier(self.get_target_crs(self.context, step)) for step in steps[:-1]]
        return {
            "name": name,
            "codes": [code for code in codes if code not in NO_PART],
            "through": [code for code in through if code is not None],
            "accuracy": accuracy if accuracy >= 0 else 0.0 if exact else None,
            "ballpark": bool(self.coordoperation_has_ballpark_transformation(self.context, operation)),
            "grid_missing": self.lacks_grid(operation),
        }

    def lacks_grid(self, operation):
        for i in range(self.coordoperation_get_grid_used_count(self.context, operation)):
            # names; then flags: direct download, open license, available
            texts, switches = [ctypes.c_char_p() for _ in range(4)], [ctypes.c_int() for _ in range(3)]
            refs = map(ctypes.byref, (*texts, *switches))
            if self.coordoperation_get_grid_used(self.context, operation, i, *refs) and not switches[2].value:
                return True
        return False

    def identifier(self, proj_object):
        """AUTHORITY:CODE of an operation or a CRS; None without one.

        An inverse or derived object has the code of its original.
        """
        authority, code = (
            proj_object and get(proj_object, 0) for get in (self.get_id_auth_name, self.get_id_code)
        )
        known = authority and CODE.match(authority.decode())
        return f"{known[1]}:{code.decode()}" if known and code else None


the_proj = cache(Proj)


def transformation(box, own, bands, change):
    """Describes one change of CRS; None if nothing changes, or if a CRS is unknown.

    * `box` is the extent of the data in its CRS `own`.
    * `bands` is the number of its bands, 0 for features.
    * `change` has the source CRS, the target CRS and the area. For a CRS, "" means `own`, and "file:" with a path
      means the CRS of that dataset. The area is the one that the call passes to PROJ, or "points" if each point is
      transformed by itself.
    """
    *ends, area = change
    with quiet():
        source, target = (crs_named(name) if name else own for name in ends)
        if source is None or target is None or source.IsSame(target, ["CRITERION=EQUIVALENT"]):
            return None
        source, target = traditional(source), traditional(target)
        if change[0] and own is not None and (there := box_in(box, own, source)) is not None:
            box = there  # otherwise the call declares that the data's own CRS is wrong
        description = described(source, target, box, bands > 0, area) if is_box(box) else None
        moved = description and bands == 1 and area != "points"
        return {**description, **moved_heights(source, target, box)} if moved else description


def crs_named(name):
    if not name.startswith("file:"):
        return reference(name)
    dataset = gdal.OpenEx(name.removeprefix("file:"))
    if dataset is None or dataset.RasterCount or not dataset.GetLayerCount():
        return dataset and dataset.GetSpatialRef()
    return dataset.GetLayer(0).GetSpatialRef()


def described(source, target, box, raster, requested_box):
    proj = the_proj()
    ends = [proj.of(crs) for crs in (source, target)]
    if not all(ends):
        return None
    area = wgs84_box(box, source)
    candidates = proj.best(*ends, area)
    way = None
    if len(candidates) == 1 and candidates[0]["accuracy"] == 0:  # no datum changes: there is no alternative
        operations = [{**candidates[0], "share": 1.0}]
    else:
        assumed = None  # only GDAL's warper passes an area to PROJ
        if requested_box and requested_box != "points":
            assumed = [float(number) for number in requested_box.split(",")]
        elif raster and not requested_box:
            assumed = assumed_box(box, source)
        way = proj.way(*ends, assumed)
        operations = proj.used(way, box)
    if not operations:
        return None
    used, better = operations[0], None
    ballpark = sum(operation["share"] for operation in operations if operation["ballpark"]) >= 0.1
    best = next((candidate for candidate in candidates if not candidate["ballpark"]), None)
    if best is not None and best["accuracy"] is not None:
        rough = used["ballpark"] or used["accuracy"] is None
        if best["name"] != used["name"] if rough else best["accuracy"] < used["accuracy"]:
            better = best
    both = by_way_of_wgs84(source, target, box, area) if ballpark and "vertical" not in used["name"] else ()
    same_place = bool(both) and are_near(*both)
    if both and not same_place and best is None:
        better = in_two_steps(*both)
    # with this area, GDAL's warper would use the better operation
    hint = {"area": area} if raster and best and better and ballpark and not better["grid_missing"] else {}
    return {
        "from": code_of(source),
        "to": code_of(target),
        "operations": operations[:3],
        "ballpark": ballpark,
        "in_use": not far_from_use(area, source),
        "alike": same_place,
        "better": better and {**better, **hint},
        **time_facts(proj, way, source, target, box),
    }


def time_facts(proj, way, source, target, box):
    """The drift in metres per year if an epoch is unknown, or the years between two epochs; empty if neither matters.

    GDAL moves coordinates only if one of the two CRSs has no epoch.
    """
    epochs = source.GetCoordinateEpoch(), target.GetCoordinateEpoch()
    if all(epochs):
        years = epochs[1] - epochs[0]
        return {"years": years} if abs(years) > SAME_EPOCH and target.IsDynamic() else {}
    if any(epochs):
        return {}
    unit = METRES_OF_DEGREE if target.IsGeographic() else target.GetLinearUnits()
    drift = proj.drift(way, box, unit)
    return {"drift": drift} if drift > SAME_DRIFT else {}


def moved_heights(source, target, box):
    """The metres that GDAL's warper adds to the values of one band, and their vertical CRS; empty for no change.

    The values are heights in the vertical CRS of the source, and become heights above the ellipsoid.
    """
    vertical = source.GetAuthorityCode("VERT_CS") if source.IsCompound() else None
    if vertical is None or target.GetAxesCount() != 2:
        return {}
    upright = target.Clone()
    upright.PromoteTo3D()
    change = osr.CreateCoordinateTransformation(source, upright)
    middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    metres = change.TransformPoint(*middle, 0.0)[2] if change else 0.0
    authority = source.GetAuthorityName("VERT_CS")
    return {"heights": metres, "vertical": f"{authority}:{vertical}"} if abs(metres) > SAME_HEIGHT else {}


class InWgs84(NamedTuple):
    """A place in WGS 84, and the operation to it; `way` is None if the coordinates are read as WGS 84 directly."""

    lon: float
    lat: float
    way: dict | None


def by_way_of_wgs84(source, target, box, area):
    """The middle of the box in WGS 84, by the source's datum and by the target's datum; () if one is unknown.

    Both places have the same coordinates in their own datum. Coordinates of a datum without a relation to WGS 84 may
    be anywhere.
    """
    degrees = [geographic(crs) for crs in (source, target)]
    there = box_in(box, source, degrees[0]) if all(degrees) else None
    if there is None:
        return ()
    x, y = (there[0] + there[2]) / 2, (there[1] + there[3]) / 2
    turned = prime_meridian(degrees[0]) - prime_meridian(degrees[1])
    places = in_wgs84(degrees[0], x, y, area), in_wgs84(degrees[1], x + turned, y, area)
    return places if all(places) else ()


def are_near(place, other):
    """True if both places are the same within MOST_APART."""
    east = (place.lon - other.lon) * math.cos(math.radians(place.lat))
    return math.hypot(east, place.lat - other.lat) * METRES_OF_DEGREE <= MAX_DISTANCE


def in_two_steps(first, other):
    """Combines an operation to WGS 84 and one from WGS 84 into one description."""
    ways = [place.way for place in (first, other) if place.way]
    unknown = any(way["accuracy"] is None for way in ways)
    return {
        "name": " + ".join(way["name"] for way in ways),
        "codes": [code for way in ways for code in way["codes"]],
        "through": ["EPSG:4326"],
        "accuracy": None if unknown else sum(way["accuracy"] for way in ways),
        "ballpark": False,
        "grid_missing": False,
    }


def in_wgs84(crs, x, y, area):
    """The place in WGS 84, by the best usable operation; None if PROJ has no operation.

    By convention, coordinates on a sphere or on the Hughes ellipsoid are read as WGS 84.
    """
    axis, flattening = crs.GetSemiMajor(), crs.GetInvFlattening()
    on_hughes = abs(axis - HUGHES[0]) < 1 and abs(flattening - HUGHES[1]) < 0.001
    if flattening == 0 or on_hughes or FRAMES.fullmatch(crs.GetName() or ""):
        return InWgs84(x, y, None)
    proj, target = the_proj(), traditional(reference("EPSG:4326"))
    if crs.IsSame(target, ["CRITERION=EQUIVALENT"]):
        return InWgs84(x, y, None)
    ends = [proj.of(end) for end in (crs, target)]
    for way in (way for within in (area, None) for way in proj.true_ways(*ends, within)):
        if (place := proj.placed(way, x, y)) is not None:
            return InWgs84(*place, proj.description(way))
    return None


def geographic(crs):
    """The 2D geographic CRS, in degrees, on which a CRS is based; None if it has none, such as a local CRS."""
    flat = crs.Clone()
    flat.StripVertical()
    degrees = flat.CloneGeogCS()
    if degrees is None:
        return None
    degrees.DemoteTo2D()
    degrees.SetAngularUnits("degree", DEGREE)
    return traditional(degrees)


def prime_meridian(crs):
    """The longitude of the prime meridian of a CRS, in degrees from Greenwich."""
    return float(crs.GetAttrValue("PRIMEM", 1) or 0)


def assumed_box(box, crs):
    """The box in degrees that GDAL's warper assumes: counted from the prime meridian of the CRS, wherever that lies."""
    degrees = geographic(crs)
    return degrees and box_in(box, crs, degrees)
