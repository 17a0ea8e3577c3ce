"""Lengths, areas and angles of a statement have their units, in a field that a program can read."""

import pytest

from tests.e2e.mcp.talk import Talk

pytestmark = pytest.mark.engine

CASES = (
    (
        "parcels",
        "SELECT name, ST_Area(geom) AS a, ST_Perimeter(geom) FROM parcels",
        ["square metre", "metre"],
    ),
    ("feet_square", "SELECT sum(ST_Area(geom)) AS a FROM feet_square", ["square US survey foot"]),
    ("stations", "SELECT max(ST_Distance(a.geom, b.geom)) AS d FROM stations a, stations b", ["degree"]),
    ("stations", "SELECT ST_Distance(a.geom, b.geom, 1) AS d FROM stations a, stations b", ["metre"]),
    ("stations", "SELECT round(ST_Azimuth(a.geom, b.geom), 3) AS a FROM stations a, stations b", ["radian"]),
    ("parcels", "SELECT ST_Area(ST_Transform(geom, 4326)) AS a FROM parcels", ["square degree"]),
    ("parcels", "SELECT name, length(name) AS n, ST_Area(geom) / 10000 AS ha FROM parcels", None),
)


@pytest.mark.parametrize(("name", "sql", "units"), CASES)
def test_a_measured_column_has_its_unit(talk: Talk, name: str, sql: str, units: list[str] | None) -> None:
    column_units = talk.done("query", inputs=[f"{name}.gpkg"], sql=sql).get("units")
    assert (column_units and [row["unit"] for row in column_units]) == units
    first = sql.startswith("SELECT name")
    assert column_units is None or column_units[0]["column"] == int(first)
