"""The search for a CRS, in the container, against the image's own PROJ database."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.discovery import read
from gdal_mcp.toolboxes.gdal.discovery.cities import find_city
from tests.data.make import make_data
from tests.integration.worker_kit import Box
from tests.oracle.container import Oracle
from tests.oracle.fixtures import grounds

__all__ = ["grounds"]

pytestmark = pytest.mark.engine

DATA = Path(__file__).parents[1] / "data"
QUESTIONS = tomllib.loads((DATA / "crs_questions.toml").read_text(encoding="utf-8"))
# for each group, how many have the usual answer first, and among the first three
REACHED = {
    "tuned": (60, 60),
    "seen": (25, 28),
    "fresh": (26, 28),
    "later": (26, 29),
    "last": (25, 28),
    "tasks": (21, 29),
    "countries": (27, 30),
    "datums": (68, 68),
}
OFFICIAL = read("crs.toml")["official"]
FEW = 5  # every so many of the questions that the search was tuned with


def ask(box: Box, *questions: dict[str, Any]) -> list[dict[str, Any]]:
    jobs = (
        {"program": "find_crs", "query": "", "bbox": None, "limit": 5, "official": OFFICIAL, **question}
        for question in questions
    )
    return [done.parsed for done in box.run(*jobs)]


def first(answer: dict[str, Any]) -> dict[str, Any]:
    return answer["matches"][0]


def test_usual_answer_to_a_plain_question_is_first(box: Box):
    questions = QUESTIONS["tuned"][::FEW]
    assert [
        question["ask"] for question, codes in answers(box, questions) if codes[0] not in question["first"]
    ] == []


@pytest.mark.nightly
@pytest.mark.parametrize("group", REACHED)
def test_plain_questions_are_answered_as_often_as_measured(box: Box, group: str):
    answered = answers(box, QUESTIONS[group])
    at_first, at_three = REACHED[group]
    missed = [question["ask"] for question, codes in answered if not {*codes[:1]} & {*question["first"]}]
    absent = [question["ask"] for question, codes in answered if not {*codes} & {*question["first"]}]
    assert len(answered) - len(missed) >= at_first, missed
    assert len(answered) - len(absent) >= at_three, absent


def answers(box: Box, questions: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[str]]]:
    places = (
        (question["ask"], question["bbox"]) if "bbox" in question else find_city(question["ask"])
        for question in questions
    )
    queries = ({"query": query, "bbox": box, "limit": 3} for query, box in places)
    codes = [[row["code"] for row in result["matches"]] for result in ask(box, *queries)]
    return list(zip(questions, codes, strict=True))


def test_a_code_finds_itself_and_what_replaces_it(box: Box):
    texts = ("EPSG:27700", "4326", "epsg 3785", "ESRI:54030")
    own, number, old, other = ask(box, *({"query": text} for text in texts))
    west, south, east, north = first(own)["bbox"]
    assert first(own)["code"] == "EPSG:27700"
    assert west < -5 < 1 < east
    assert 49 < south < 55 < north < 62
    assert first(number)["code"] == "EPSG:4326"
    assert (first(old)["deprecated"], first(old)["replaced_by"]) == (True, ["EPSG:3857"])
    assert old["matches"][1]["code"] == "EPSG:3857"
    assert first(other)["code"] == "ESRI:54030"


def test_former_name_leads_to_its_code(box: Box):
    names = ("JGD2011 / Japan Plane Rectangular CS IX", "Amersfoort / RD New", "ETRS89 / LAEA Europe")
    results = ask(box, *({"query": name} for name in names))
    assert [first(result)["code"] for result in results] == ["EPSG:6677", "EPSG:28992", "EPSG:3035"]


def test_states_and_cities_lead_to_their_zone(box: Box):
    krovak, bavaria, catalonia, york = ask(
        box,
        {"query": "S-JTSK Krovak Czech Republic"},
        {"query": "Bavaria"},
        {"query": "Catalonia UTM"},
        dict(zip(("query", "bbox"), find_city("New York City state plane feet"), strict=True)),
    )
    assert {row["code"] for row in krovak["matches"][:2]} == {"EPSG:5513", "EPSG:5514"}
    assert "EPSG:4647" in [row["code"] for row in bavaria["matches"]]
    assert "EPSG:25831" in [row["code"] for row in catalonia["matches"]]
    assert first(york)["code"] == "EPSG:2263"


def test_entries_with_the_requested_property_come_first(box: Box):
    cases = [
        (what, {"query": f"{what.replace('-', ' ')} {where}"})
        for what in ("equal-area", "conformal", "equidistant")
        for where in ("antarctica", "africa", "world", "asia")
    ]
    for (what, query), result in zip(cases, ask(box, *(query for _, query in cases)), strict=True):
        assert first(result)["property"] == what, query


def test_antimeridian_box_point_and_pole_have_a_place(box: Box):
    fiji, point, pole = ask(
        box,
        {"query": "grid", "bbox": [176.9, -19.2, -178.2, -16.1]},
        {"query": "utm", "bbox": [13.4, 52.5, 13.4, 52.5]},
        {"query": "polar stereographic", "bbox": [-180, 85, 180, 90]},
    )
    assert "Fiji" in first(fiji)["area"]
    assert first(point)["code"] in ("EPSG:32633", "EPSG:25833")
    assert first(pole)["bbox"][3] == 90


def test_accuracy_is_that_of_transformation_to_wgs_84(box: Box):
    results = ask(box, *({"query": f"EPSG:{code}"} for code in (32633, 25833, 28992, 26712, 5773)))
    wgs84, etrs89, rd, nad27, height = (first(result).get("accuracy_m") for result in results)
    assert wgs84 == 0
    assert etrs89 == 1
    assert 0 < rd <= 2
    assert nad27 > 2
    assert height is None


def test_dataset_gives_place_and_route_to_its_crs(box: Box, oracle: Oracle):
    folder = oracle.folder("crs")
    make_data(oracle, folder)
    table = folder / "table.csv"
    table.write_text("a,b\n1,2\n", encoding="utf-8")
    job = {"program": "find_crs", "query": "utm", "limit": 5}
    own, from_table, absent = box.run(
        *({**job, "inputs": [str(path)]} for path in (folder / "dem.tif", table, folder / "absent.tif"))
    )
    rows = {row["code"]: row for row in own.parsed["matches"]}
    assert rows["EPSG:32611"]["accuracy_m"] == 0
    assert all(row["matched"][-1] == "area of use" for row in rows.values())
    for done in (from_table, absent):
        assert done.final["code"] == 1
        assert not done.printed


def test_unmatched_words_are_reported_and_signs_are_literal(box: Box):
    texts = ("(%*", "'; drop table crs; --", "é\u202e", "_" * 50, "%", "\\", "the of and")
    unmatched, partly, *signs = ask(box, *({"query": text} for text in ("qwxyz", "utm qwxyz", *texts)))
    assert (unmatched["matches"], unmatched["unknown_words"]) == ([], ["qwxyz"])
    assert partly["matches"]
    assert partly["unknown_words"] == ["qwxyz"]
    assert all(isinstance(result["matches"], list) for result in signs)


def test_a_misspelled_word_is_corrected_and_named(box: Box):
    name, place, right = ask(
        box, *({"query": text} for text in ("robinsn projection", "Switzerlnd official grid", "krovak"))
    )
    assert (first(name)["code"], name["corrected_words"]) == ("ESRI:54030", {"robinsn": "robinson"})
    assert (first(place)["code"], place["corrected_words"]) == ("EPSG:2056", {"switzerlnd": "switzerland"})
    assert name["unknown_words"] == place["unknown_words"] == []
    assert right["corrected_words"] == {}


def test_unit_alone_matches_no_crs_elsewhere(box: Box):
    by_name, by_box = ask(
        box, {"query": "Chukotka metres"}, {"query": "metres", "bbox": [172.0, 62.5, -170.0, 70.0]}
    )
    assert (by_name["matches"], by_name["unknown_words"]) == ([], ["chukotka"])
    assert "EPSG:3995" in [row["code"] for row in by_box["matches"][:3]]
    assert {row["unit"] for row in by_box["matches"]} == {"metre"}


def test_zones_of_large_and_small_areas_are_found(box: Box):
    wide, small = ask(box, {"query": "utm indonesia"}, {"query": "svalbard utm"})
    assert all("UTM zone" in row["name"] and "Indonesia" in row["area"] for row in wide["matches"])
    assert first(small)["code"] in ("EPSG:25833", "EPSG:32633", "EPSG:25835")


def test_a_unit_is_that_of_the_axes(box: Box):
    texts = (
        "trinidad in links",
        "NTF paris in grads",
        "texas south central us-ft",
        "oregon lambert international feet",
    )
    results = ask(box, *({"query": text} for text in texts))
    units = ["Clarke's link", "grad", "US survey foot", "foot"]
    assert [first(result)["unit"] for result in results] == units


def test_deprecated_entries_come_after_their_replacements(box: Box):
    [result] = ask(box, {"query": "wgs 84 pdc mercator", "limit": 50})
    rows = [row for row in result["matches"] if row["name"] == "WGS 84 / PDC Mercator"]
    assert [row.get("deprecated", False) for row in rows] == [False, True]
