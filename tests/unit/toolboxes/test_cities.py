"""Cities in questions for a CRS."""

from gdal_mcp.toolboxes.gdal.discovery import read
from gdal_mcp.toolboxes.gdal.discovery.cities import find_city


def test_city_becomes_a_box_and_other_words_stay():
    for query, rest, x, y in (
        ("CRS for Lagos", "crs", 3.38, 6.52),
        ("utm zone in tokyo", "utm zone", 139.7, 35.7),
        ("Mumbai", "", 72.9, 19.1),
        ("S\u00e3o Paulo", "", -46.6, -23.5),
        ("New York City state plane feet", "new york state plane feet", -74.0, 40.7),
        ("state plane near New Orleans feet", "state plane feet", -90.1, 30.0),
    ):
        left, box = find_city(query)
        assert left == rest
        assert box is not None
        west, south, east, north = box
        assert west <= x <= east
        assert south <= y <= north


def test_city_in_a_crs_name_stays_a_word():
    for query in (
        "Lagos 1955 height", "Tokyo / UTM zone 54N", "NTF (Paris) / Lambert zone II", "DHDN / Soldner Berlin",
        "plans of Parisot", "utm 33 north", "",
    ):  # fmt: skip
        assert find_city(query) == (query, None)


def test_every_city_is_on_earth_and_normalised():
    for name, (x, y) in read("cities.toml")["cities"].items():
        assert find_city(name)[1] is not None, name
        assert abs(x) < 180
        assert abs(y) < 70
