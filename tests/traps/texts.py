"""Features and tables for the traps, as text."""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def features(rows: Iterable[tuple[Any, Mapping[str, Any]]], crs: str | None = None) -> str:
    """GeoJSON of geometries (type and coordinates, or None) with their properties."""
    collection: dict[str, Any] = {"type": "FeatureCollection"}
    if crs:
        collection["crs"] = {
            "type": "name",
            "properties": {"name": f"urn:ogc:def:crs:{crs.replace(':', '::')}"},
        }
    shapes = (
        (geometry and {"type": geometry[0], "coordinates": geometry[1]}, properties)
        for geometry, properties in rows
    )
    collection["features"] = [
        {"type": "Feature", "properties": properties, "geometry": shape} for shape, properties in shapes
    ]
    return json.dumps(collection)


def square(west: float, south: float, side: float) -> tuple[str, Any]:
    east, north = west + side, south + side
    return "Polygon", [[[west, south], [east, south], [east, north], [west, north], [west, south]]]


def point(x: float, y: float) -> tuple[str, Any]:
    return "Point", [x, y]


def ring(*places: tuple[float, float]) -> tuple[str, Any]:
    return "Polygon", [[list(place) for place in (*places, places[0])]]


# a border that three polygons share, two of them on one side
WAVES = [(30.0 * (1, 0.3, -0.9, -0.6, 0.5, 1, 0)[k % 7], 10.0 * k) for k in range(61)]
TEE = [
    ring(*WAVES, (-500, 600), (-500, 0)),
    ring(*WAVES[:24], (500, 230), (500, 0)),
    ring(*WAVES[23:], (500, 600), (500, 230)),
]
ISLANDS = ("MultiPolygon", [square(x, 52, 0.1)[1] for x in (13, 13.1)])
BOW = ("Polygon", [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]])

TOWNS = [(point(13.4, 52.5), {"name": "a", "pop": 9}), (point(13.5, 52.6), {"name": "b", "pop": 1000})]
METRES = [(point(530000.123456789, 180000.25), {"id": 1}), (point(530100, 180100), {"id": 2})]
TEXTS = {
    "towns.geojson": features(TOWNS),
    "metres.geojson": features(METRES, "EPSG:27700"),
    "rain.geojson": features(
        [
            (point(x, y), {"rain": (x + y) % 3, "dew": 1 + x * y})
            for x, y in ((0, 0), (0, 8), (8, 1), (5, 8), (2.5, 2.5), (3.5, 3.5))
        ]
    ),
    # more rows than are read to find the kinds of columns
    "late_missing.csv": "n,v,w,version\n"
    + "".join(f"{n},{n},{n},1.{n}.0\n" for n in range(1, 99))
    + "99,N/A,5,1.99.0\n",
    "squares.geojson": features([(square(13, 52, 0.1), {"id": 1}), (square(13.2, 52, 0.1), {"id": 2})]),
    "prices.csv": 'id,price,share,grade\n1,"$1,200.50",45%,1a\n2,$300,5%,2b\n3,$20,100%,10a\n',
    "walk.gpx": '<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg><trkpt lat="46.9" lon="10.4"/><trkpt lat="46.8" lon="10.5"/></trkseg></trk></gpx>',
    "degrees.geojson": features([(square(13, 52, 0.15), {"id": 3})]),
    "bare.geojson": features([(point(1, 2), {})]),
    "more.geojson": features([(point(1, 2), {"name": "x", "pop": 1, "more": 1.5})]),
    "squares_m.geojson": features([(square(530000, 180000, 100), {"id": 1})], "EPSG:27700"),
    "bows.geojson": features([(BOW, {"id": 1}), (square(5, 5, 1), {"id": 2})]),
    "long.geojson": features([(point(1, 2), {"a_very_long_field_name": 1, "note": "x" * 300})]),
    "short.geojson": features([(point(1, 2), {"name": "x", "note": "y"})]),
    "times.geojson": features([(point(1, 2), {"at": "2024-01-02T03:04:05.678Z", "n": 1})]),
    "one_zone.geojson": features(
        [(point(i, 2), {"at": f"2024-01-02T0{i}:04:05+02:00", "n": i}) for i in (1, 2)]
    ),
    "two_zones.geojson": features(
        [(point(i, 2), {"at": f"2024-01-02T0{i}:04:05+0{i}:00", "n": i}) for i in (1, 2)]
    ),
    "ages.geojson": features([(point(1, 2), {"until": "9999-12-31T23:59:59-05:00"})]),
    "nulls.geojson": features([(point(1, 2), {"n": None, "v": 1.5}), (point(2, 2), {"n": 3, "v": 2.5})]),
    "full.geojson": features([(point(1, 2), {"n": 2, "v": 1.5}), (point(2, 2), {"n": 3, "v": 2.5})]),
    "huge.geojson": features([(point(1, 2), {"v": 1e300}), (point(2, 2), {"v": 0.5})]),
    "holes.geojson": features([(point(1, 2), {"id": 1}), (None, {"id": 2})]),
    "dateline.geojson": features([(point(179.5, -17), {"id": 1}), (point(-179.5, -16), {"id": 2})]),
    "world.geojson": features([(point(x, 0), {"id": x}) for x in range(-170, 180, 20)]),
    "empty.geojson": features([]),
    "latlon.csv": "id,lat,lon,name\n1,52.5,13.4,a\n2,52.6,13.5,b\n",
    "plain.csv": "id,name\n1,a\n2,b\n",
    "counts.csv": "name,pop\na,9\nb,1000\nc,200\n",
    "codes.geojson": features(
        [(point(i, 47), {"id": i, "code": code}) for i, code in enumerate(("ab", "AB", "Ab", "cd", None))]
    ),
    "tee.geojson": features([(geometry, {"id": i}) for i, geometry in enumerate(TEE)], "EPSG:32632"),
    "islands.geojson": features([(ISLANDS, {"id": 1}), (square(14, 52, 0.1), {"id": 2})]),
    "islands_and_bow.geojson": features([(ISLANDS, {"id": 1}), (BOW, {"id": 2})]),
    "empty_cells.csv": "id,name,pop\n1,Bern,10\n2,,20\n3,Chur,\n",
    "alike.geojson": features([(point(1, 2), {"Name": "A", "name": "b", "n": 1})]),
    "described.kml": '<kml xmlns="http://www.opengis.net/kml/2.2"><Document><Placemark><name>a</name><ExtendedData><Data name="h">'
    "<value>3</value></Data></ExtendedData><Point><coordinates>8,47</coordinates></Point></Placemark></Document></kml>",
    "named.kml": '<kml xmlns="http://www.opengis.net/kml/2.2"><Document><Placemark><name>a</name><Point><coordinates>8,47'
    "</coordinates></Point></Placemark></Document></kml>",
    "continent.geojson": features(
        [(("Polygon", [[[0, 40], [40, 40], [40, 60], [0, 60], [0, 40]]]), {"id": 1})]
    ),
    "track.gpx": '<gpx version="1.1" creator="x" xmlns="http://www.topografix.com/GPX/1/1"><wpt lat="47" lon="8"/>'
    '<trk><trkseg><trkpt lat="47" lon="8"/><trkpt lat="48" lon="9"/></trkseg></trk></gpx>',
    "named_geom.geojson": features([(point(1, 2), {"geom": "x"})]),
    "codes.csv": "code,name\n007,a\n010,b\n",
    "areas.geojson": features(
        [(square(x, 50, 0.9), {"code": code, "size": x}) for x, code in ((10, "a"), (11, "b"), (12, "c"))]
    ),
    "sites.geojson": features(
        [(point(x, 50.5), {"id": x, "area": "abc"[int(x) - 10]}) for x in (10.2, 10.7, 11.5, 12.5)]
    ),
    "keys.csv": "code,v\na,1\nb,2\nc,3\n",
    "twice.csv": "code,v\na,1\na,9\nb,2\nc,3\n",
    "visits.csv": "code,v\na,1\na,9\nb,2\nc,3\nd,4\n",
    "some.csv": "code,v\na,1\nb,2\n",
    "capitals.csv": "code,v\nA,1\nB,2\n",
    "years.csv": "code,year,v\na,2020,1\na,2021,2\nb,2020,3\nb,2021,4\nc,2020,5\nc,2021,6\n",
    "mixed.geojson": features([(point(1, 2), {"id": 1}), (("LineString", [[0, 0], [1, 1]]), {"id": 2})]),
    "utf8.csv": "name\nMöwe\n",
    "named.geojson": features([(point(1, 2), {"name": "x"}), (point(2, 2), {"name": "y"})]),
    "rome_named.geojson": features([(point(13, 42), {"name": "x"})], "EPSG:4265"),
    "heights.geojson": features([(("Point", [1, 2, 3]), {"name": "x"})]),
    "commas.csv": 'name,v\na,"1,5"\nb,"10,25"\n',
    "semicolons.csv": "name;v\na;1,5\nb;10,25\n",
    "local_dates.csv": "name,day\na,31.12.2024\nb,01.02.2024\n",
    "iso_dates.csv": "name,day\na,2024-12-31\nb,2024-02-01\n",
    "large.csv": "id,v\n9223372036854775813,1\n9223372036854775814,2\n",
    "negative.csv": "id,v\n-9223372036854775809,1\n0,2\n",
    "microseconds.csv": "at,v\n2024-01-01T00:00:00.123456,1\n2024-01-01T00:00:01,2\n",
    "milliseconds.csv": "at,v\n2024-01-01T00:00:00.123000,1\n2024-01-01T00:00:01,2\n",
    "missing.csv": "name,pop\na,10\nb,n/a\nc,20\nd,9\n",
    "mercator.geojson": features([(square(1400000, 6800000, 100), {"id": 1})], "EPSG:3857"),
    "flags.geojson": features([(square(10 + x, 50, 0.9), {"flood": x, "class": x + 1}) for x in range(3)]),
    "parcels.geojson": features(
        [
            (square(10, 50, 0.9), {"id": 20_000_001, "share": 0.25}),
            (square(12.03, 50.33, 0.02), {"id": 2, "share": 0.6}),
        ]
    ),
    "names.csv": "name,kind\na,x\nb,y\nc,z\n",
    "spans.geojson": features(
        [
            (point(n, 50), {"id": n, "day": day, "start": f"{day}T08:00:00", "stop": f"{day}T1{n}:00:00"})
            for n in (1, 2, 3)
            for day in (f"2024-01-0{n}",)
        ]
    ),
    "wards.geojson": features(
        [
            (square(10 + n, 50, 0.9), {"name": "abcd"[n], "region": "nnss"[n], "pop": (4, 2, 3, 1)[n]})
            for n in range(4)
        ]
    ),
    "unplaced.geojson": features(
        [(point(10.5, 50.5), {"name": "a", "n": 1}), (None, {"name": None, "n": 2})]
    ),
    "minutes.csv": "name,deg,min,sec,hem\na,41,53,24,N\nb,45,27,36,N\n",
    "rates.csv": "name,labour_force,jobless_pct\na,1000,20\nb,1000,20\nc,98000,1\n",
    "even_rates.csv": "name,labour_force,jobless_pct\na,1000,20\nb,1000,20\nc,1000,5\n",
    "reordered.csv": "pop,name\n5,x\n6,y\n",
    "exchanged.geojson": features([(point(-33.9, 151.2), {"id": 1}), (point(35.7, 139.7), {"id": 2})]),
}
