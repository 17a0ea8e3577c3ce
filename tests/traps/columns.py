"""Traps about values of columns and positions of points that GDAL reads without a warning.

`TEXTS` are further files, `MAKE` continues the program of `explained.py`, and `TABLE` continues the table of `table.py`.
"""

from typing import Any

from tests.traps.texts import features, point


def _points(*places: tuple[float, float], crs: str | None = None) -> str:
    rows: list[tuple[Any, dict[str, int]]] = [(point(x, y), {"id": i}) for i, (x, y) in enumerate(places)]
    return features(rows, crs)


def _days(*days: str) -> str:
    return "id,day\n" + "".join(f"{i},{day}\n" for i, day in enumerate(days))


_HESSE = ((8.65, 50.1), (8.25, 50.08), (9.5, 51.3), (8.7, 50.6))
_PACIFIC = ((-157.8, 21.3), (-122.4, 37.8), (-155.1, 19.7))
TEXTS = {
    "impossible.csv": _days("2023-01-31", "2023-02-28", "2023-02-30"),
    "no_month.csv": _days("2021-12-01", "2021-13-01", "2021-11-01"),
    "possible.csv": _days("2023-01-31", "2024-02-29", "2023-03-30"),
    "case_numbers.csv": _days("2021-13-01", "2021-45-02", "2021-12-88"),
    "impossible.geojson": features(
        [(point(i, 1), {"id": i, "day": f"2023-02-{day}"}) for i, day in enumerate((27, 28, 30))]
    ),
    "possible.geojson": features(
        [(point(i, 1), {"id": i, "day": f"2024-02-{day}"}) for i, day in enumerate((27, 28, 29))]
    ),
    "two_orders.csv": _days("31.12.2024", "12.31.2024", "01.02.2024"),
    "day_first.csv": _days("31.12.2024", "13.12.2024", "01.02.2024"),
    "many_days.csv": _days(*["2024-01-31"] * 20_001),
    "many_points.csv": "id,lon,lat\n" + "".join(f"{i},8.{i},50.{i}\n" for i in range(20_001)),
    "unit_row.csv": "name,depth\n,m\nA,3.2\nB,10.1\n",
    "erddap.csv": "time,latitude,sst\nUTC,degrees_north,degree_C\n2024-01-01,47.5,8.1\n2024-01-02,47.5,9.2\n",
    "text_row.csv": "name,depth\nA,n/a\nB,3.2\nC,10.1\n",
    "some_grouped.csv": 'name,pop\na,"1,200"\nb,900\nc,n/a\nd,"12,000"\n',
    "some_decimals.csv": 'name,v\na,"1,5"\nb,2\nc,"3,25"\n',
    "lists.csv": 'name,v\na,"1,2,3"\nb,2\nc,"3,25"\n',
    "grouped_semicolons.csv": "name;v\na;1.200,5\nb;900,25\n",
    "accounts.csv": "name,v\na,5-\nb,3\nc,(4)\n",
    "minutes_of_degrees.csv": "id,lon\n1,8°33'00\"E\n2,7°27'E\n",
    "months.csv": _days("01-Jan-2024", "15-Dec-2023", "03-Feb-2024"),
    "month_names.csv": _days('"January 5, 2024"', "n/a", "2023-12-15"),
    "of_people.csv": _days("June Carter", "May 5th", "April O'Neil"),
    "unpadded.csv": _days("2024-9-5", "2024-10-05"),
    "clocks.csv": _days("9:05", "10:15", "08:00"),
    "padded_clocks.csv": _days("09:05", "10:15", "08:00"),
    "spaced.csv": "id,v\n1,1 200\n2,900\n3,12 000\n",
    "limits.csv": "id,v\n1,<0.5\n2,<0.5\n3,0.7\n",
    "first_of_texts.csv": "name,note\nA,m\nB,in the harbour\n",
    "null_island.geojson": _points(*_HESSE, (0, 0), (0, 0)),
    "null_island.csv": "id,lon,lat\n" + "".join(f"{x},{x},{y}\n" for x, y in (*_HESSE, (0, 0))),
    "hesse_points.csv": "id,lon,lat\n" + "".join(f"{x},{x},{y}\n" for x, y in _HESSE),
    "null_mercator.geojson": _points(
        (962914, 6461660), (918386, 6457791), (1057535, 6672010), (0, 0), crs="EPSG:3857"
    ),
    "false_origin.geojson": _points(
        (477000, 5550000), (446000, 5548000), (535000, 5683000), (0, 0), crs="EPSG:25832"
    ),
    "guinea.geojson": _points((0, 0), (6.6, 0.3), (9.7, 4.05), (1.2, 3.1), (-2.5, -1.5)),
    "lattice.geojson": _points(*((x, y) for x in range(-60, 80, 20) for y in range(-60, 80, 20))),
    "hesse_points.geojson": _points(*_HESSE),
    "some_exchanged.geojson": _points(*_HESSE, (50.2, 8.6)),
    "some_exchanged.csv": "id,lon,lat\n" + "".join(f"{x},{x},{y}\n" for x, y in (*_HESSE, (50.2, 8.6))),
    "some_far.geojson": _points(*_HESSE, (51.5, 25.3)),
    "two_ranges.geojson": _points(*_PACIFIC, (202.1, 21.2), (236.9, 36.7)),
    "one_range.geojson": _points((202.2, 21.3), (237.6, 37.8), (204.9, 19.7)),
    "around_greenwich.geojson": _points((-30, 10), (100, 20), (200, -10), (320, 40), (10, 5)),
}
MAKE = r"""
sheets("text_days", ("text_days", table(("id", "day"), (1, "2023-02-28"), (2, "2023-02-30")), "", ""))
sheets("true_days", ("true_days", table(("id", "day"), (1, "2023-02-28"), (2, "2023-03-30")), "", ""))
sheets("unit_sheet", ("unit_sheet", table(("name", "depth"), (None, "m"), ("a", 2.5), ("b", 13)), "", ""))
"""

TABLE = r"""
# dates and units in columns
dates_impossible
    info path=impossible.csv
    info path=possible.csv
    info path=case_numbers.csv
dates_impossible
    vector convert input=impossible.csv output=OUT.gpkg
    vector convert input=possible.csv output=OUT.gpkg
dates_impossible
    query inputs=["no_month.csv"] sql=SELECT max(day) AS last FROM no_month
    query inputs=["possible.csv"] sql=SELECT max(day) AS last FROM possible
    query inputs=["no_month.csv"] sql=SELECT count(*) AS n FROM no_month
    query inputs=["no_month.csv"] sql=SELECT max(day) AS last FROM no_month WHERE date(day) = day
dates_impossible
    query inputs=["impossible.geojson"] sql=SELECT * FROM impossible
    query inputs=["possible.geojson"] sql=SELECT * FROM possible
dates_impossible
    vector convert input=text_days.xlsx output=OUT.gpkg
    vector convert input=true_days.xlsx output=OUT.gpkg
date_orders_mixed
    info path=two_orders.csv
    info path=day_first.csv
local_dates
    query inputs=["months.csv"] sql=SELECT max(day) AS last FROM months
    query inputs=["possible.csv"] sql=SELECT max(day) AS last FROM possible
    query inputs=["of_people.csv"] sql=SELECT max(day) AS last FROM of_people
local_dates
    query inputs=["month_names.csv"] sql=SELECT id FROM month_names ORDER BY day
    query inputs=["month_names.csv"] sql=SELECT count(*) AS n FROM month_names
local_dates before
    vector convert input=unpadded.csv output=OUT.gpkg
    vector convert input=possible.csv output=OUT.gpkg
local_dates
    query inputs=["clocks.csv"] sql=SELECT max(day) AS last FROM clocks
    query inputs=["padded_clocks.csv"] sql=SELECT max(day) AS last FROM padded_clocks
units_as_row
    vector convert input=unit_row.csv output=OUT.gpkg
    vector convert input=text_row.csv output=OUT.gpkg
    vector convert input=first_of_texts.csv output=OUT.gpkg
units_as_row
    vector convert input=unit_sheet.xlsx output=OUT.gpkg open-option=["HEADERS=FORCE"]
units_as_row
    info path=erddap.csv
    info path=text_row.csv
units_as_row ignoring:number_as_text
    query inputs=["unit_row.csv"] sql=SELECT max(depth) AS d FROM unit_row
    query inputs=["unit_row.csv"] sql=SELECT max(CAST(depth AS REAL)) AS d FROM unit_row WHERE depth <> 'm'
    query inputs=["unit_row.csv"] sql=SELECT name FROM unit_row

# numbers of which only some have commas, signs or units
decimal_comma
    query inputs=["some_grouped.csv"] sql=SELECT sum(pop) AS p FROM some_grouped
    query inputs=["lists.csv"] sql=SELECT v FROM lists
    query inputs=["some_grouped.csv"] sql=SELECT sum(CAST(replace(pop, ',', '') AS REAL)) AS p FROM some_grouped WHERE pop <> 'n/a'
decimal_comma before
    vector convert input=some_decimals.csv output=OUT.gpkg
    vector convert input=lists.csv output=OUT.gpkg
    vector convert input=semicolons.csv output=OUT.gpkg
decimal_comma
    query inputs=["grouped_semicolons.csv"] sql=SELECT sum(v) AS v FROM grouped_semicolons
    query inputs=["semicolons.csv"] sql=SELECT sum(v) AS v FROM semicolons
decimal_comma
    query inputs=["spaced.csv"] sql=SELECT sum(v) AS v FROM spaced
number_as_text
    query inputs=["limits.csv"] sql=SELECT avg(v) AS v FROM limits
number_as_text
    query inputs=["accounts.csv"] sql=SELECT sum(v) AS v FROM accounts
    query inputs=["accounts.csv"] sql=SELECT name, v FROM accounts
number_as_text
    query inputs=["minutes_of_degrees.csv"] sql=SELECT avg(lon) AS x FROM minutes_of_degrees
    query inputs=["minutes_of_degrees.csv"] sql=SELECT id, lon FROM minutes_of_degrees

# points at wrong places
null_island
    info path=null_island.geojson
    info path=guinea.geojson
    info path=lattice.geojson
    info path=hesse_points.geojson
null_island
    vector clip input=null_island.geojson output=OUT.gpkg bbox=[8,50,9,51]
    vector clip input=hesse_points.geojson output=OUT.gpkg bbox=[8,50,9,51]
    vector clip input=guinea.geojson output=OUT.gpkg bbox=[-3,-2,2,4]
    vector filter input=null_island.geojson output=OUT.gpkg where=id < 4
    vector convert input=null_island.geojson output=OUT.gpkg
null_island
    query inputs=["null_island.geojson"] sql=SELECT ST_Area(ST_ConvexHull(ST_Collect(geom)), 1) AS a FROM null_island
    query inputs=["null_island.geojson"] sql=SELECT count(*) AS n FROM null_island
    query inputs=["null_island.geojson"] sql=SELECT ST_Area(ST_ConvexHull(ST_Collect(geom)), 1) AS a FROM null_island WHERE NOT (ST_X(geom) = 0 AND ST_Y(geom) = 0)
    query inputs=["guinea.geojson"] sql=SELECT ST_Area(ST_ConvexHull(ST_Collect(geom)), 1) AS a FROM guinea
null_island
    vector make-point input=null_island.csv output=OUT.gpkg x=lon y=lat output-crs=EPSG:4326
    vector make-point input=hesse_points.csv output=OUT.gpkg x=lon y=lat output-crs=EPSG:4326
null_island
    vector convert input=null_island.csv output=OUT.gpkg open-option=["X_POSSIBLE_NAMES=lon","Y_POSSIBLE_NAMES=lat"]
null_island
    query inputs=["null_island.csv"] sql=SELECT avg(lon) AS x, avg(lat) AS y FROM null_island
    query inputs=["hesse_points.csv"] sql=SELECT avg(lon) AS x, avg(lat) AS y FROM hesse_points
    query inputs=["null_island.csv"] sql=SELECT count(*) AS n FROM null_island
null_island ignoring:outside_area_of_use
    info path=null_mercator.geojson
null_island ignoring:outside_area_of_use
    info path=false_origin.geojson
xy_mixed
    info path=some_exchanged.geojson
    info path=some_far.geojson
xy_mixed
    vector make-point input=some_exchanged.csv output=OUT.gpkg x=lon y=lat output-crs=EPSG:4326
longitudes_mixed
    info path=two_ranges.geojson
    info path=one_range.geojson
    info path=around_greenwich.geojson
    query inputs=["two_ranges.geojson"] sql=SELECT ST_AsText(ST_Envelope(ST_Collect(ST_Shift_Longitude(geom)))) AS box FROM two_ranges
checks_skipped
    info path=many_days.csv
    info path=possible.csv
checks_skipped
    vector make-point input=many_points.csv output=OUT.gpkg x=lon y=lat output-crs=EPSG:4326
    vector make-point input=hesse_points.csv output=OUT.gpkg x=lon y=lat output-crs=EPSG:4326
"""
