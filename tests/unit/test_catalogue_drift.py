"""Two catalogues' data are compared to the last word, and a catalogue fits its own release only."""

import json
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from gdal_mcp.gdal.catalogue.drift import differences, unfit
from gdal_mcp.gdal.catalogue.load import packaged, packaged_text

SMALL = {
    "generator": "x",
    "gdal": "3.13.3",
    "skipped": ["HTTP"],
    "algorithms": [
        {
            "path": "raster clip",
            "description": "Clip.",
            "url": "u",
            "arguments": [
                {"name": "input", "type": "dataset", "positional": True},
                {"name": "like", "type": "dataset"},
                {"name": "size", "type": "integer", "default": 1},
            ],
        },
        {"path": "raster info", "description": "Info.", "url": "u", "arguments": []},
    ],
    "steps": [
        {"path": "raster clip", "name": "clip", "places": ["middle"], "arguments": ["like"]},
        {
            "path": "raster read",
            "name": "read",
            "places": ["first"],
            "arguments": [{"name": "input", "type": "dataset"}],
        },
    ],
    "drivers": [
        {"name": "GTiff", "capabilities": ["raster"], "creation": [{"name": "COMPRESS", "type": "string"}]},
        {
            "name": "PNG",
            "capabilities": ["raster"],
            "open": [{"name": "A", "type": "int"}, {"name": "A", "type": "float"}],
        },
    ],
    "warp": [{"name": "INIT_DEST", "type": "string"}],
    "transform": [],
}

Change = Callable[[dict[str, Any]], Any]


def small(change: Change = lambda _document: None) -> str:
    document = json.loads(json.dumps(SMALL))
    change(document)
    return json.dumps(document)


def found(change: Change) -> list[tuple[str, str, str]]:
    return [(one.change, one.kind, one.where) for one in differences(small(), small(change))]


def test_data_does_not_differ_from_itself() -> None:
    assert differences(packaged_text(), packaged_text()) == ()


def test_who_made_the_data_is_no_difference() -> None:
    assert found(lambda data: data.update(generator="y")) == []


CHANGES: list[tuple[Change, list[tuple[str, str, str]]]] = [
    (lambda data: data.update(gdal="3.14.0"), [("changed", "version", "GDAL")]),
    (lambda data: data["skipped"].append("WMS"), [("added", "skipped", "WMS")]),
    (
        lambda data: data["algorithms"].pop(),
        [("removed", "algorithm", "raster info")],
    ),
    (
        lambda data: data["algorithms"][0]["arguments"].append({"name": "new", "type": "string"}),
        [("added", "argument", "raster clip --new")],
    ),
    (
        lambda data: data["algorithms"][0]["arguments"][2].update(default="1"),
        [("changed", "argument", "raster clip --size")],
    ),
    (
        lambda data: data["algorithms"][0]["arguments"][2].update(default=True),
        [("changed", "argument", "raster clip --size")],
    ),
    (
        lambda data: data["algorithms"][0]["arguments"].reverse(),
        [("changed", "algorithm", "raster clip")],
    ),
    (lambda data: data["algorithms"].reverse(), [("changed", "algorithm", "*")]),
    (lambda data: data["algorithms"][1].update(description="!"), [("changed", "algorithm", "raster info")]),
    (lambda data: data["steps"][0].update(places=["last"]), [("changed", "step", "raster clip")]),
    (lambda data: data["steps"][0]["arguments"].pop(), [("removed", "argument", "step raster clip --like")]),
    (
        lambda data: data["steps"][1]["arguments"][0].update(type="string"),
        [("changed", "argument", "step raster read --input")],
    ),
    (lambda data: data["drivers"].reverse(), [("changed", "driver", "*")]),
    (
        lambda data: data["drivers"][0]["creation"][0].update(type="int"),
        [("changed", "option", "GTiff creation COMPRESS")],
    ),
    (lambda data: data["drivers"][1]["open"].pop(), [("removed", "option", "PNG open A (2)")]),
    (
        lambda data: data["transform"].append({"name": "RPC_DEM"}),
        [("added", "option", "* transform RPC_DEM")],
    ),
]


def test_a_change_is_found_where_it_was_made_and_nowhere_else() -> None:
    for change, expected in CHANGES:
        assert found(change) == expected


def leaves(value: Any, trail: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    here = [trail] if trail and trail[0] != "generator" else []
    return here + [way for key, one in inner for way in leaves(one, (*trail, key))]


SAYS = [way for way in leaves(json.loads(packaged_text())) if len(way) > 1]


@pytest.mark.claim("args.catalogue-fits")
@settings(max_examples=25)
@given(way=st.sampled_from(SAYS))
def test_no_word_of_the_data_can_be_taken_away_unseen(way: tuple[Any, ...]) -> None:
    document = json.loads(packaged_text())
    holder = document
    for key in way[:-1]:
        holder = holder[key]
    del holder[way[-1]]
    assert seen(json.dumps(document))


def seen(newer: str) -> bool:
    try:
        return differences(packaged_text(), newer) != ()
    except ValueError:
        return True


def test_what_is_no_catalogue_is_no_catalogue_without_differences() -> None:
    for text in ["", "[]", "{}", "null", '{"gdal": "3.13.3"}', small(lambda data: data.pop("steps"))]:
        with pytest.raises(ValueError):
            differences(small(), text)


def test_a_catalogue_fits_its_release() -> None:
    for version in ["3.13.3", "3.13.0", "3.13.12", "3.13"]:
        assert unfit(packaged(), version) is None


@pytest.mark.claim("args.catalogue-fits")
def test_a_catalogue_fits_no_other_release() -> None:
    for version in ["3.12.9", "3.14.0", "3.130.3", "3.1.3", "4.13.3", "13.3.1", "3", ""]:
        assert unfit(packaged(), version)
