"""Traps about values that SQL takes otherwise than they seem: times, texts, numbers that are not measurements.

`TEXTS` are further files, and `TABLE` continues the table of `table.py`.
"""

import unicodedata

from tests.traps.texts import features, point

_NAMES = "id,name\n1,Zürich\n2,Genève\n3,Bern\n"
# more conditions than the checks of one statement have probes
_MANY = " AND ".join(f"last <> 'a{i}'" for i in range(30))
_PATTERNS = " AND ".join(f"first NOT LIKE 'a_{i}'" for i in range(30))
TEXTS = {
    "offsets.geojson": features(
        [
            (point(i, 1), {"id": i, "at": f"2024-07-01T{at}"})
            for i, at in enumerate(("10:00:00+09:00", "08:00:00+02:00", "07:00:00-05:00"))
        ]
    ),
    "same_offset.geojson": features(
        [
            (point(i, 1), {"id": i, "at": f"2024-07-01T{at}:00:00+02:00"})
            for i, at in enumerate(("10", "08", "15"))
        ]
    ),
    "local_days.csv": "id,at\n1,2024-07-01T00:30:00+02:00\n2,2024-07-01T12:00:00+02:00\n",
    "utc_days.csv": "id,at\n1,2024-07-01T00:30:00Z\n2,2024-07-01T12:00:00Z\n",
    "built.csv": "id,built,day\n1,1998,1998-03-01\n2,2004,2004-05-01\n3,2020,2020-06-01\n",
    "log.csv": "id,millis,seconds\n1,1700000000000,1700000000\n2,1700000360000,1700000360\n",
    "composed.csv": _NAMES,
    "decomposed.csv": unicodedata.normalize("NFD", _NAMES),
    "ascii_names.csv": "id,name\n1,Zurich\n2,Bern\n",
    "spaces.csv": "id,name,pop\n1,Bern ,10\n2,Bern,20\n3,Chur,5\n",
    "underscores.csv": "id,name\n1,zone_1\n2,zone11\n3,zoneA1\n4,other\n",
    "underscores_only.csv": "id,name\n1,zone_1\n2,zone_2\n3,other\n",
    "steps.csv": "g,t,v\na,1,10\na,2,20\na,3,30\nb,1,5\nb,2,6\n",
    "plots.csv": "id,name\n1,a\n2,b\n3,c\n",
    "yields.csv": "id,v\n1,5\n2,1\n",
    "untidy.csv": "id,region,pop\n1,North,10\n2,north,20\n3,North ,30\n4,South,5\n5,South,6\n",
    "cities.csv": "id,name\n1,Zürich\n2,Bern\n3,Genève\n",
    "rates_decomposed.csv": unicodedata.normalize("NFD", "name,rate\nZürich,5\nBern,6\n"),
    "rates_spaces.csv": "name,rate\nZürich,5\nBern ,6\n",
    "rates_capitals.csv": "name,rate\nZürich,5\nGENÈVE,6\n",
    "rates_both.csv": "name,rate\nZürich,5\nBERN,6\nbern,7\n",
    "rates_some.csv": "name,rate\nZürich,5\nBern,6\nChur,7\n",
    "tidy.csv": "id,region,pop\n1,North,10\n2,North,20\n3,North,30\n4,South,5\n5,South,6\n",
    "fills.csv": "id,region,temp\n1,a,12.5\n2,a,-9999\n3,b,14.0\n4,b,13.1\n5,b,-9999\n",
    "colds.csv": "id,region,temp\n1,a,12.5\n2,a,11\n3,b,14.0\n4,b,13.1\n5,b,-9\n",
    "depths.csv": "id,depth\n1,-999\n2,-950\n3,-900\n",
    "totals.csv": "region,pop\nNorth,10\nSouth,20\nWest,5\nTotal,35\n",
    "parts.csv": "region,pop\nNorth,10\nSouth,20\nWest,5\nEast,35\n",
    "a_place_all.csv": "region,pop\nNorth,10\nSouth,20\nAll,5\n",
    "nulls_in_names.geojson": features(
        [(point(i, 1), {"id": i, "first": f, "last": n}) for i, f, n in ((1, "Ann", "Lee"), (2, "Bo", None))]
    ),
    "padded.geojson": features([(point(i, 1), {"code": c}) for i, c in enumerate(("007", "010", "120"))]),
    "latlon_angles.csv": "id,lat,lon,phi\n1,52.5,13.4,0.9\n2,47.4,8.5,0.8\n",
}

TABLE = r"""
# times that are compared or converted as texts
offsets_differ
    query inputs=["offsets.geojson"] sql=SELECT id, at FROM offsets ORDER BY at
    query inputs=["same_offset.geojson"] sql=SELECT id, at FROM same_offset ORDER BY at
    query inputs=["offsets.geojson"] sql=SELECT id, at FROM offsets ORDER BY julianday(at)
    query inputs=["offsets.geojson"] sql=SELECT id, at FROM offsets
offsets_differ
    query inputs=["offsets.geojson"] sql=SELECT max(at) AS last FROM offsets
    query inputs=["same_offset.geojson"] sql=SELECT max(at) AS last FROM same_offset
days_in_utc
    query inputs=["local_days.csv"] sql=SELECT date(at) AS d, count(*) AS n FROM local_days GROUP BY date(at)
    query inputs=["utc_days.csv"] sql=SELECT date(at) AS d, count(*) AS n FROM utc_days GROUP BY date(at)
    query inputs=["local_days.csv"] sql=SELECT substr(at, 1, 10) AS d, count(*) AS n FROM local_days GROUP BY 1
    query inputs=["local_days.csv"] sql=SELECT id, strftime('%s', at) AS s FROM local_days
localtime_is_utc before
    query inputs=["utc_days.csv"] sql=SELECT id, datetime(at, 'localtime') AS t FROM utc_days
    query inputs=["utc_days.csv"] sql=SELECT id, datetime(at, '+2 hours') AS t FROM utc_days
number_as_day
    query inputs=["built.csv"] sql=SELECT id, strftime('%Y', built) AS y FROM built
    query inputs=["built.csv"] sql=SELECT id, strftime('%Y', day) AS y FROM built
number_as_day
    query inputs=["log.csv"] sql=SELECT id, datetime(seconds) AS t FROM log
    query inputs=["log.csv"] sql=SELECT id, datetime(seconds, 'unixepoch') AS t FROM log
milliseconds
    query inputs=["log.csv"] sql=SELECT id, datetime(millis, 'unixepoch') AS t FROM log
    query inputs=["log.csv"] sql=SELECT id, datetime(millis / 1000, 'unixepoch') AS t FROM log

# texts that are not equal although they look so, and the reverse
case_of_ascii
    query inputs=["composed.csv"] sql=SELECT id FROM composed WHERE upper(name) = 'ZÜRICH'
    query inputs=["composed.csv"] sql=SELECT id FROM composed WHERE name LIKE 'ZÜRICH'
    query inputs=["ascii_names.csv"] sql=SELECT id FROM ascii_names WHERE upper(name) = 'ZURICH'
texts_alike
    query inputs=["decomposed.csv"] sql=SELECT id FROM decomposed WHERE name = 'Zürich'
    query inputs=["composed.csv"] sql=SELECT id FROM composed WHERE name = 'Zürich'
    query inputs=["decomposed.csv"] sql=SELECT id FROM decomposed WHERE name = 'Bern'
texts_alike
    query inputs=["spaces.csv"] sql=SELECT sum(pop) AS p FROM spaces WHERE name IN ('Bern', 'Chur')
    query inputs=["spaces.csv"] sql=SELECT sum(pop) AS p FROM spaces WHERE name = 'Chur'
    query inputs=["spaces.csv"] sql=SELECT sum(pop) AS p FROM spaces WHERE trim(name) = 'Bern'
keys_alike
    query inputs=["cities.csv","rates_decomposed.csv"] sql=SELECT c.id, r.rate FROM cities c LEFT JOIN rates_decomposed r ON c.name = r.name
    query inputs=["cities.csv","rates_some.csv"] sql=SELECT c.id, r.rate FROM cities c LEFT JOIN rates_some r ON c.name = r.name
    query inputs=["cities.csv","rates_both.csv"] sql=SELECT c.id, r.rate FROM cities c LEFT JOIN rates_both r ON c.name = r.name
    query inputs=["cities.csv","rates_decomposed.csv"] sql=SELECT c.id, r.rate FROM cities c LEFT JOIN rates_decomposed r ON c.name = r.name WHERE c.name = 'Bern'
keys_alike
    query inputs=["cities.csv","rates_spaces.csv"] sql=SELECT id, rate FROM cities LEFT JOIN rates_spaces USING (name)
    query inputs=["cities.csv","rates_some.csv"] sql=SELECT id, rate FROM cities LEFT JOIN rates_some USING (name)
    query inputs=["cities.csv","rates_spaces.csv"] sql=SELECT c.id, r.rate FROM cities c LEFT JOIN rates_spaces r ON c.name = trim(r.name)
keys_alike
    query inputs=["cities.csv","rates_capitals.csv"] sql=SELECT c.id, s.rate FROM cities c LEFT JOIN (SELECT name, max(rate) AS rate FROM rates_capitals GROUP BY name) s ON s.name = c.name
    query inputs=["cities.csv","rates_some.csv"] sql=SELECT c.id, s.rate FROM cities c LEFT JOIN (SELECT name, max(rate) AS rate FROM rates_some GROUP BY name) s ON s.name = c.name
keys_alike
    query inputs=["cities.csv","rates_capitals.csv"] sql=WITH w AS (SELECT name AS city, rate FROM rates_capitals) SELECT c.id FROM cities c LEFT JOIN w ON c.name = w.city WHERE w.city IS NULL
    query inputs=["cities.csv","rates_some.csv"] sql=WITH w AS (SELECT name AS city, rate FROM rates_some) SELECT c.id FROM cities c LEFT JOIN w ON c.name = w.city WHERE w.city IS NULL
keys_alike
    pipeline steps=concat --mode=stack cities.csv rates_spaces.csv ! sql "SELECT c.id, r.rate FROM cities c LEFT JOIN rates_spaces r ON c.name = r.name" ! write OUT.csv
    pipeline steps=concat --mode=stack cities.csv rates_some.csv ! sql "SELECT c.id, r.rate FROM cities c LEFT JOIN rates_some r ON c.name = r.name" ! write OUT.csv
keys_alike
    pipeline steps=concat --mode=stack cities.csv rates_spaces.csv ! sql --dialect=SQLITE "SELECT c.id, r.rate FROM cities c LEFT JOIN rates_spaces r ON c.name = r.name" ! write OUT.csv
    pipeline steps=concat --mode=stack cities.csv rates_some.csv ! sql --dialect=SQLITE "SELECT c.id, r.rate FROM cities c LEFT JOIN rates_some r ON c.name = r.name" ! write OUT.csv
zeros_in_texts
    query inputs=["padded.geojson"] sql=SELECT code FROM padded WHERE code = 7
    query inputs=["padded.geojson"] sql=SELECT code FROM padded WHERE code = 120
    query inputs=["padded.geojson"] sql=SELECT code FROM padded WHERE code = '007'
underscore_matches
    query inputs=["underscores.csv"] sql=SELECT id FROM underscores WHERE name LIKE 'zone_1%'
    query inputs=["underscores_only.csv"] sql=SELECT id FROM underscores_only WHERE name LIKE 'zone_1%'
    query inputs=["underscores.csv"] sql=SELECT id FROM underscores WHERE name LIKE 'zone!_1%' ESCAPE '!'
    query inputs=["underscores.csv"] sql=SELECT id FROM underscores WHERE name LIKE 'o_her'
groups_alike
    query inputs=["untidy.csv"] sql=SELECT region, sum(pop) AS p FROM untidy GROUP BY region
    query inputs=["tidy.csv"] sql=SELECT region, sum(pop) AS p FROM tidy GROUP BY region
    query inputs=["untidy.csv"] sql=SELECT lower(trim(region)) AS r, sum(pop) AS p FROM untidy GROUP BY 1
groups_alike
    query inputs=["untidy.csv"] sql=SELECT count(DISTINCT region) AS n FROM untidy
    query inputs=["tidy.csv"] sql=SELECT count(DISTINCT region) AS n FROM tidy

# numbers that are not measurements, and rows that are left out or added
fill_values
    query inputs=["fills.csv"] sql=SELECT avg(temp) AS t FROM fills
    query inputs=["colds.csv"] sql=SELECT avg(temp) AS t FROM colds
    query inputs=["fills.csv"] sql=SELECT avg(nullif(temp, -9999)) AS t FROM fills
    query inputs=["fills.csv"] sql=SELECT avg(temp) AS t FROM fills WHERE temp > -9999
    query inputs=["depths.csv"] sql=SELECT avg(depth) AS d FROM depths
totals_included
    query inputs=["totals.csv"] sql=SELECT sum(pop) AS p FROM totals
    query inputs=["totals.csv"] sql=SELECT sum(pop) AS p FROM totals WHERE region <> 'Total'
    query inputs=["parts.csv"] sql=SELECT sum(pop) AS p FROM parts
    query inputs=["a_place_all.csv"] sql=SELECT sum(pop) AS p FROM a_place_all
nulls_excluded
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE last <> 'Ek'
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE last <> 'Ek' OR last IS NULL
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE last <> 'Ek' AND last IS NOT NULL
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE first NOT IN ('Bo', 'Cy')
nulls_excluded
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE {many}
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE {many} AND last = 'Lee'
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE ({many}) OR last IS NULL
nulls_excluded
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where="last" <> 'Ek' AND id > 0
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where="last" <> 'Ek' OR "last" IS NULL
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where="last" <> 'Ek' AND id < 2
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where="last" <> 'Ek' bbox=[0.5,0,1.5,2]
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where="first" NOT IN ('Cy', 'Di')
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where="last" = 'Lee'
nulls_excluded
    vector filter input=with_null.gpkg output=OUT.gpkg where="code" NOT LIKE 'E%'
    vector filter input=with_null.gpkg input-layer=areas output=OUT.gpkg where="code" NOT LIKE 'E%'
    vector filter input=with_null.gpkg output=OUT.gpkg where="code" IS NOT 'b'
nulls_excluded
    pipeline steps=read nulls_in_names.geojson ! edit --crs=EPSG:4326 ! filter "--where=last <> 'Ek'" ! write OUT.gpkg
    pipeline steps=read nulls_in_names.geojson ! edit --crs=EPSG:4326 ! filter "--where=first <> 'Ek'" ! write OUT.gpkg
nulls_excluded
    vector info input=["nulls_in_names.geojson"] where=NOT last = 'Ek'
    vector info input=["nulls_in_names.geojson"] where=NOT first = 'Ek'
checks_skipped
    pipeline steps=read nulls_in_names.geojson ! tee [ write OUT.gpkg ] ! sql --dialect=SQLITE "SELECT id FROM nulls_in_names WHERE id > 0" ! write OUTb.csv
    pipeline steps=read nulls_in_names.geojson ! sql --dialect=SQLITE "SELECT id FROM nulls_in_names WHERE id > 0" ! write OUTb.csv
checks_skipped
    pipeline steps=read nulls_in_names.geojson ! tee [ write OUT.gpkg ] ! filter "--where=first <> 'Ek'" ! write OUTb.gpkg
    pipeline steps=read nulls_in_names.geojson ! tee [ write OUT.gpkg ] ! filter "--where=first = 'Bo'" ! write OUTb.gpkg
checks_skipped
    query inputs=["cities.csv","rates_some.csv"] sql=SELECT id, rate FROM cities NATURAL LEFT JOIN rates_some
    query inputs=["cities.csv","rates_some.csv"] sql=SELECT id, rate FROM cities LEFT JOIN rates_some USING (name)
checks_skipped
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where={patterns} AND last <> 'Ek'
    vector filter input=nulls_in_names.geojson output=OUT.gpkg where=first NOT LIKE 'a_1' AND first <> 'Ek'
checks_skipped
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE {patterns} AND last <> 'Ek'
    query inputs=["nulls_in_names.geojson"] sql=SELECT id FROM nulls_in_names WHERE first NOT LIKE 'a_1' AND first <> 'Ek'
left_join_undone
    query inputs=["plots.csv","yields.csv"] sql=SELECT p.id, y.v FROM plots p LEFT JOIN yields y ON p.id = y.id WHERE y.v < 4
    query inputs=["plots.csv","yields.csv"] sql=SELECT p.id, y.v FROM plots p LEFT JOIN yields y ON p.id = y.id AND y.v < 4
    query inputs=["plots.csv","yields.csv"] sql=SELECT p.id FROM plots p LEFT JOIN yields y ON p.id = y.id WHERE y.id IS NULL
    query inputs=["plots.csv","yields.csv"] sql=SELECT p.id FROM plots p LEFT JOIN yields y ON p.id = y.id WHERE coalesce(y.v, 0) < 4
joined_text_null
    query inputs=["nulls_in_names.geojson"] sql=SELECT first || ' ' || last AS n FROM nulls_in_names
    query inputs=["nulls_in_names.geojson"] sql=SELECT first || ' ' || coalesce(last, '') AS n FROM nulls_in_names
    query inputs=["nulls_in_names.geojson"] sql=SELECT first || ' ' || id AS n FROM nulls_in_names
last_value_so_far before
    query inputs=["steps.csv"] sql=SELECT g, t, last_value(v) OVER (PARTITION BY g ORDER BY t) AS newest FROM steps
    query inputs=["steps.csv"] sql=SELECT g, t, last_value(v) OVER (PARTITION BY g ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS newest FROM steps
degrees_as_radians before
    query inputs=["latlon_angles.csv"] sql=SELECT id, cos(lat) AS c FROM latlon_angles
    query inputs=["latlon_angles.csv"] sql=SELECT id, cos(radians(lat)) AS c FROM latlon_angles
    query inputs=["latlon_angles.csv"] sql=SELECT id, cos(phi) AS c FROM latlon_angles
radians_as_degrees before
    query inputs=["stations.gpkg"] sql=SELECT ST_Azimuth(a.geom, b.geom) AS bearing FROM stations a, stations b
    query inputs=["stations.gpkg"] sql=SELECT degrees(ST_Azimuth(a.geom, b.geom)) AS bearing FROM stations a, stations b
    query inputs=["stations.gpkg"] sql=SELECT ST_Azimuth(a.geom, b.geom) * 180 / pi() AS bearing_deg FROM stations a, stations b
    query inputs=["stations.gpkg"] sql=SELECT ST_Azimuth(a.geom, b.geom) AS azimuth FROM stations a, stations b
radians_as_degrees before
    query inputs=["stations.gpkg"] sql=SELECT count(*) AS n FROM stations a, stations b WHERE ST_Azimuth(a.geom, b.geom) BETWEEN 45 AND 90
    query inputs=["stations.gpkg"] sql=SELECT count(*) AS n FROM stations a, stations b WHERE ST_Azimuth(a.geom, b.geom) BETWEEN 0.5 AND 1.5
    query inputs=["stations.gpkg"] sql=SELECT count(*) AS n FROM stations a, stations b WHERE degrees(ST_Azimuth(a.geom, b.geom)) BETWEEN 45 AND 90
units_in_degrees
    query inputs=["degrees.geojson"] sql=SELECT ST_Simplify(geom, 10) AS geom FROM degrees
    query inputs=["squares_m.geojson"] sql=SELECT ST_Simplify(geom, 10) AS geom FROM squares_m
""".replace("{many}", _MANY).replace("{patterns}", _PATTERNS)
