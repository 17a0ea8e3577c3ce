"""Finding an algorithm by plain words."""

import string
import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.discovery import read
from gdal_mcp.toolboxes.gdal.discovery.entries import of_algorithm, tool_name, words
from gdal_mcp.toolboxes.gdal.discovery.search import MAX_HITS, MAX_LETTERS, MAX_WORDS, Index, absent, search
from tests.boxes import GDAL

QUESTIONS = tomllib.loads((Path(__file__).parents[2] / "data" / "questions.toml").read_text(encoding="utf-8"))
FOUND = 3  # number of hits among which an expected one must be


def answered(group: str) -> list[str]:
    """The questions of a group that have an expected algorithm among the first hits."""
    return [
        question["ask"]
        for question in QUESTIONS[group]
        if {hit.path for hit in search(packaged(), question["ask"], FOUND)} & set(question["expected"])
    ]


def test_plain_questions_find_their_algorithm():
    for group, reached in [("tuned", 30), ("held_out", 30), ("fresh", 29)]:
        assert len(QUESTIONS[group]) == 30
        assert len(answered(group)) >= reached


def test_questions_of_analysts_find_their_algorithm():
    for group, reached in [("analysts", 50), ("further", 49)]:
        assert len(QUESTIONS[group]) == 50
        assert len(answered(group)) >= reached
    for group, count, reached in [("tasks", 61, 61), ("rounds", 289, 287), ("unseen", 60, 59)]:
        assert len(QUESTIONS[group]) == count
        assert len(answered(group)) >= reached
    assert "raster info" in [hit.path for hit in search(packaged(), "mean of a raster", FOUND)]


def test_only_work_gdal_cannot_do_is_named():
    for query in (
        "watershed delineation", "flow accumulation from a DEM", "least cost path",
        "service area within 10 minutes drive", "ordinary kriging of samples", "geocode addresses",
        "delineate a basin", "fill sinks in a DEM", "unsupervised classification of Sentinel bands",
    ):  # fmt: skip
        assert len(absent(query)) == 1, query
    assert not [
        question["ask"] for group in QUESTIONS.values() for question in group if absent(question["ask"])
    ]


def test_what_only_sql_does_leads_to_sql():
    for ask in (
        "spatial join", "area of polygons", "centroid", "nearest neighbour", "nearest hospital for each school",
        "remove duplicate features", "hexagon grid", "join csv to polygons by code",
        "regular expression replace in an attribute",
    ):  # fmt: skip
        assert "vector sql" in [hit.path for hit in search(packaged(), ask, FOUND)], ask


def test_names_of_tools_of_other_programs_find_their_algorithm():
    for name, path in (
        ("Extract by Mask", "raster clip"), ("Con", "raster calc"), ("Nibble", "raster fill-nodata"),
        ("Make XY Event Layer", "vector make-point"), ("Field calculator", "vector sql"),
        ("Feature to Raster", "vector rasterize"), ("Raster to Polygon", "raster polygonize"),
        ("ST_FlipCoordinates", "vector swap-xy"), ("ST_DWithin", "vector sql"), ("ST_Value", "raster pixel-info"),
        ("gdallocationinfo", "raster pixel-info"), ("gdaltindex", "raster index"), ("rgb2pct.py", "raster rgb-to-palette"),
    ):  # fmt: skip
        assert path in [hit.path for hit in search(packaged(), name, FOUND)], name


def test_compounds_and_spellings_are_the_same_question():
    for first, second in (
        ("hill shade", "hillshade"), ("convexhull", "convex hull"), ("vectorise", "vectorize"),
        ("nearest neighbour", "nearest neighbor"), ("greyscale", "grayscale"),
    ):  # fmt: skip
        assert search(packaged(), first, 1)[0].path == search(packaged(), second, 1)[0].path


def test_a_verb_is_not_the_name_of_an_algorithm():
    assert search(packaged(), "convert")[0].path == "convert"
    assert search(packaged(), "convert polygons to their centre points")[0].path != "convert"


def test_hits_far_behind_the_best_are_left_out():
    for group in QUESTIONS.values():
        for question in group:
            scores = [hit.score for hit in search(packaged(), question["ask"], MAX_HITS)]
            assert min(scores) >= max(scores) / 9


def test_search_by_task_finds_the_right_algorithm():
    for ask, path in (
        ("mask clouds by QA bit", "raster calc"), ("convert feet to metres", "raster calc"),
        ("change matrix between two land cover years", "raster zonal-stats"), ("moving average over bands", "raster calc"),
        ("vector tiles mbtiles pmtiles", "vector convert"), ("elevation profile along a line", "raster pixel-info"),
        ("line of sight between two points", "raster viewshed"), ("percentile of a raster", "raster info"),
    ):  # fmt: skip
        assert path in [hit.path for hit in search(packaged(), ask, FOUND)], ask


def test_an_algorithm_is_found_by_its_own_name():
    for path in packaged().algorithms:
        for name in (path.replace("-", " "), tool_name(path)):
            assert path in [hit.path for hit in search(packaged(), name, FOUND)], name


def test_a_mistyped_word_is_taken_for_the_nearest():
    for wrong, right in (
        ("hilshade", "raster hillshade"), ("contuor lines", "raster contour"),
        ("polygonise", "raster polygonize"), ("poligonize", "raster polygonize"),
        ("reprojct a shapefile", "vector reproject"), ("viewshd", "raster viewshed"),
    ):  # fmt: skip
        assert right in [hit.path for hit in search(packaged(), wrong, FOUND)], wrong


def test_what_nothing_is_near_to_finds_nothing():
    assert search(packaged(), "qqqqzzzz wwxxyy") == ()
    assert search(packaged(), "") == ()
    assert search(packaged(), "the of and !!! ???") == ()


def test_a_hit_says_what_it_is_and_why():
    hit = search(packaged(), "shade the mountains")[0].as_dict()
    names = ("raster hillshade", "raster_hillshade", "writes")
    assert (hit["algorithm"], hit["tool"], hit["effect"]) == names
    assert hit["line"] == packaged().algorithms["raster hillshade"].description
    assert "mountain" in str(hit["why"])


def test_selected_tools_are_found_with_their_write_effect():
    tools = [tool for tool in GDAL.tools.values() if tool.name in ("gdalwarp", "find_crs")]
    picked = [(tool.name, tool.title, tool.description, tool.writes) for tool in tools]
    hits = {hit.tool: hit for hit in search(packaged(), "warp reproject find_crs", 50, picked=picked)}
    assert (hits["gdalwarp"].effect, hits["find_crs"].effect) == ("writes", "reads")
    assert hits["find_crs"].path == ""
    assert "find_crs" not in {hit.tool for hit in search(packaged(), "warp reproject find_crs", 50)}


def test_first_hits_do_not_depend_on_the_limit():
    assert search(packaged(), "raster", 3) == search(packaged(), "raster", 50)[:3]
    assert len(search(packaged(), "raster vector input output", 10_000)) <= MAX_HITS
    assert search(packaged(), "raster", 0) == ()


@given(st.text(max_size=3000))
def test_any_text_is_a_question(text: str):
    hits = search(packaged(), text)
    assert hits == search(packaged(), text)
    assert all(hit.why and hit.score > 0 for hit in hits)


@given(st.text(alphabet=string.ascii_letters + " -_'.", max_size=200))
def test_case_and_signs_do_not_matter(text: str):
    assert words(text) == words(text.upper()) == words(f"!{text.replace(' ', '  ')}?")


def test_very_long_question_is_read_only_at_start():
    short = "shade the mountains"
    assert search(packaged(), f"{short}{' ' * MAX_LETTERS}contour") == search(packaged(), short)
    unknown = [f"zq{number}" for number in range(MAX_WORDS + 1)]
    assert search(packaged(), " ".join([*unknown, "contour"])) == ()


def test_vocabulary_covers_exactly_the_existing_algorithms():
    assert set(read("vocabulary.toml")["algorithms"]) == set(packaged().algorithms)
    assert set(read("vocabulary.toml")["quiet"]) <= set(packaged().algorithms)
    assert set(read("titles.toml")) <= set(packaged().algorithms)


def test_every_target_of_a_synonym_is_known():
    known = Index([of_algorithm(packaged(), algorithm) for algorithm in packaged().algorithms.values()])
    things = {kinds: kinds.split() for kinds in read("vocabulary.toml")["things"]}
    synonyms = read("vocabulary.toml")["words"] | things
    dead = [
        (word, other)
        for word, others in synonyms.items()
        for other in others
        if all("~" in reason for hit in known.search(other, 50) for reason in hit.why)
    ]
    assert dead == []
