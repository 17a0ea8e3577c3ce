"""Which ballpark operations the container calls harmless, compared with an independent transformation through WGS 84."""

import json
from pathlib import Path

import pytest

from tests.integration.worker_kit import MAKER, Box
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

# a CRS, a position in it, and the target CRS
PAIRS = [
    *(("EPSG:2039", (190000, 610000), to) for to in ("EPSG:4258", "EPSG:3035", "EPSG:7844", "EPSG:4269")),
    *(("EPSG:3405", (555000, 2305000), to) for to in ("EPSG:4258", "EPSG:7912")),
    *(("EPSG:2100", (475000, 4205000), to) for to in ("EPSG:7912", "EPSG:4269")),
    *(("EPSG:25832", (505000, 5005000), to) for to in ("EPSG:4269", "EPSG:7844", "EPSG:6668", "EPSG:4674")),
    *(("EPSG:6668", (139.7, 35.7), to) for to in ("EPSG:4258", "EPSG:4269", "EPSG:7844")),
    *(("EPSG:2193", (1750000, 5430000), to) for to in ("EPSG:4258", "EPSG:4674")),
    *(("EPSG:4674", (-47, -15), to) for to in ("EPSG:4258", "EPSG:7844")),
    *(("EPSG:5179", (955000, 1950000), to) for to in ("EPSG:4258", "EPSG:4269")),
    ("EPSG:4269", (-100, 40), "EPSG:4258"),
]
MAKE = r"""
import json
for number, (source, (x, y), _) in enumerate(json.loads(sys.argv[2])):
    made = ogr.GetDriverByName("GPKG").CreateDataSource(out + f"{number}.gpkg")
    layer = made.CreateLayer("places", crs(source), ogr.wkbPoint)
    for dx, dy in ((0, 0), (0.01, 0), (0, 0.01)):
        feature = ogr.Feature(layer.GetLayerDefn())
        feature.SetGeometry(ogr.CreateGeometryFromWkt(f"POINT ({x + dx} {y + dy})"))
        layer.CreateFeature(feature)
    made = None
"""
# metres by which a position moves on its way through WGS 84, which can be reached from all of these CRSs
TRUTH = r"""
import json, math, sys
from osgeo import osr
osr.UseExceptions()
def crs(text):
    made = osr.SpatialReference(); made.SetFromUserInput(text)
    made.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return made
def go(source, target, x, y):
    options = osr.CoordinateTransformationOptions()
    options.SetBallparkAllowed(False)
    return osr.CreateCoordinateTransformation(source, target, options).TransformPoint(x, y)[:2]
found = []
for source, (x, y), target in json.loads(sys.argv[1]):
    own, other, world = crs(source), crs(target).CloneGeogCS(), crs("EPSG:4326")
    other.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    degrees = own.CloneGeogCS()
    degrees.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    taken = osr.CoordinateTransformation(own, degrees).TransformPoint(x, y)[:2]
    true = go(own, world, x, y)
    # the frames of these targets are WGS 84 to within two metres by EPSG's own transformations
    found.append(math.hypot((true[0] - taken[0]) * math.cos(math.radians(true[1])), true[1] - taken[1]) * 111195)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def changes(box: Box, oracle: Oracle) -> list[tuple[float, dict]]:
    """For each pair the error in metres if coordinates are used unchanged, and the container's judgement of the
    change.
    """
    folder, text = oracle.folder("ballpark"), json.dumps(PAIRS)
    oracle.python(MAKER + MAKE, str(folder), text)
    offsets = json.loads(oracle.python(TRUTH, text))
    jobs = (
        {"program": "describe", "inputs": [str(folder / f"{n}.gpkg")], "changes": [["", to, ""]]}
        for n, (_, _, to) in enumerate(PAIRS)
    )
    ran = box.run(*jobs)
    rows = [done.parsed[0]["changes"] for done in ran]
    return list(
        zip(offsets, (row[f"\n{to}\n"] for row, (_, _, to) in zip(rows, PAIRS, strict=True)), strict=True)
    )


def test_ballpark_is_harmless_only_for_wgs_84_datums(changes, subtests: pytest.Subtests):
    for pair, (metres, change) in zip(PAIRS, changes, strict=True):
        if change["ballpark"]:
            with subtests.test(pair=pair, apart=metres):
                assert change["alike"] is (metres < 2)
    off = [metres for metres, change in changes if change["ballpark"] and not change["alike"]]
    assert len(off) >= 6
    assert min(off) > 70


def test_route_through_wgs_84_is_named_if_necessary(changes):
    rows = [change for _, change in changes if change["ballpark"] and not change["alike"]]
    assert [row["better"]["through"] for row in rows] == [["EPSG:4326"]] * len(rows)


def test_frame_defined_as_wgs_84_is_harmless(box: Box, oracle: Oracle):
    places = [
        ("EPSG:4490", (110, 35), ""),
        ("EPSG:4547", (500000, 3500000), ""),
        ("EPSG:8246", (-100, 55), ""),
    ]
    folder = oracle.folder("defined")
    oracle.python(MAKER + MAKE, str(folder), json.dumps(places))
    jobs = (
        {"program": "describe", "inputs": [str(folder / f"{n}.gpkg")], "changes": [["", "EPSG:4326", ""]]}
        for n in range(len(places))
    )
    rows = [done.parsed[0]["changes"]["\nEPSG:4326\n"] for done in box.run(*jobs)]
    assert [(row["ballpark"], row["alike"]) for row in rows] == [(True, True)] * len(places)


def test_unrelated_datum_is_not_harmless(box: Box, oracle: Oracle):
    folder = oracle.folder("untied")
    places = [
        ("+proj=longlat +ellps=GRS80 +no_defs", (35, 32), ""),
        ("+proj=longlat +R=6371007.181 +no_defs", (35, 32), ""),
    ]
    oracle.python(MAKER + MAKE, str(folder), json.dumps(places))
    jobs = [
        {
            "program": "describe",
            "inputs": [str(Path(folder) / f"{n}.gpkg")],
            "changes": [["", "EPSG:4326", ""]],
        }
        for n in range(2)
    ]
    unknown, sphere = (done.parsed[0]["changes"]["\nEPSG:4326\n"] for done in box.run(*jobs))
    assert (unknown["ballpark"], unknown["alike"]) == (True, False)
    assert (sphere["ballpark"], sphere["alike"]) == (True, True)
