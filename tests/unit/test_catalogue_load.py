"""The data of a whole GDAL loads complete or not at all, and one process goes by one catalogue."""

import copy
import json
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from gdal_mcp.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.gdal.catalogue.load import build, catalogue_of, packaged, packaged_text, patched
from gdal_mcp.gdal.catalogue.model import Argument, Role

Parts = dict[str, dict[str, Any]]


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads(files("gdal_mcp.gdal.catalogue").joinpath("data", f"{name}.toml").read_text())


PATCHES = toml("patches")
PATCHED = [(path, patch) for patch in PATCHES["patch"] for path in patch["algorithms"]]


@pytest.fixture
def facts() -> dict[str, Any]:
    return dict(json.loads(packaged_text()))


@pytest.fixture
def parts(facts: dict[str, Any]) -> Parts:
    rules = {name: toml(name) for name in ("roles", "options", "formats")}
    return copy.deepcopy({"facts": facts, **rules})


def entry(facts: dict[str, Any], path: str, name: str) -> dict[str, Any]:
    found = next(one for one in facts["algorithms"] if one["path"] == path)
    return next(one for one in found["arguments"] if one["name"] == name)


def every_argument() -> list[Argument]:
    found = [*packaged().algorithms.values(), *(step.algorithm for step in packaged().steps.values())]
    return [argument for algorithm in found for argument in algorithm.arguments]


def test_all_of_gdal_is_there() -> None:
    paths = set(packaged().algorithms)
    assert len(paths) == 120
    assert {
        "convert", "info", "pipeline", "raster calc", "vector grid invdist", "driver gpkg repack",
    } <= paths  # fmt: skip
    assert {"dataset delete", "vsi sozip create", "mdim mosaic", "raster overview refresh"} <= paths


@pytest.mark.claim("args.pipelines-parsed")
def test_no_step_runs_a_shell_command() -> None:
    assert len(packaged().steps) == 92
    assert not [path for path in (*packaged().steps, *packaged().algorithms) if "external" in path]


def test_what_a_step_shares_with_its_algorithm_cannot_be_ruled_otherwise() -> None:
    shared = 0
    for path, step in packaged().steps.items():
        leaf = packaged().algorithms.get(path)
        for argument in step.algorithm.arguments if leaf else ():
            assert leaf is not None
            assert argument.rule == leaf.long_names[argument.name].rule
            assert argument.type == leaf.long_names[argument.name].type
            shared += 1
    assert shared > 1_000


def test_a_step_may_be_written_otherwise_than_its_algorithm() -> None:
    """`gdal pipeline ... ! sql 'SELECT ...'` needs no --sql; `gdal vector sql` does."""
    assert packaged().steps["vector sql"].algorithm.long_names["sql"].positional
    assert not packaged().algorithms["vector sql"].long_names["sql"].positional


def test_a_step_says_what_goes_through_it() -> None:
    for path, takes, gives, places in [
        ("raster read", None, "raster", ("first",)),
        ("vector write", "vector", None, ("last",)),
        ("raster polygonize", "raster", "vector", ("middle",)),
        ("vector rasterize", "vector", "raster", ("middle",)),
        ("vector grid count", "vector", "raster", ("middle",)),
        ("raster zonal-stats", "raster", "vector", ("middle",)),
        ("raster mosaic", None, "raster", ("first",)),
        ("vector limit", "vector", "vector", ("middle",)),
        ("raster tee", "raster", "raster", ("middle", "last")),
        ("vector partition", "vector", None, ("last",)),
    ]:
        step = packaged().steps[path]
        assert (step.takes, step.gives, step.places) == (takes, gives, places)


def test_a_step_without_an_algorithm_knows_how_its_arguments_are_written() -> None:
    write = packaged().steps["vector write"].algorithm
    assert write.long_names["output"].positional
    assert write.long_names["lco"] is write.long_names["layer-creation-option"]
    assert write.short_names["l"].name == "output-layer"
    limit = packaged().steps["vector limit"].algorithm
    assert [one.name for one in limit.arguments if one.positional] == ["limit"]


def test_every_step_is_in_a_pipeline_and_stands_somewhere() -> None:
    for path, step in packaged().steps.items():
        assert "pipeline" in step.pipelines
        assert step.places
        assert (step.takes is None) == (step.places == ("first",)), path
        assert (step.gives is None) == (step.places == ("last",)), path
        assert path.endswith(f" {step.name}")


def test_alternatives_are_needed_together_and_none_by_itself() -> None:
    resize = packaged().algorithms["raster resize"]
    assert resize.one_of == (("resolution", "size"),)
    assert not resize.long_names["size"].required
    assert resize.long_names["output"].required
    assert packaged().algorithms["raster convert"].one_of == ()


def test_what_an_algorithm_makes_may_differ_from_what_it_reads() -> None:
    made = {
        path: packaged().algorithms[path].makes
        for path in ("raster contour", "vector rasterize", "mdim convert")
    }
    assert made == {"raster contour": "vector", "vector rasterize": "raster", "mdim convert": "multidim"}
    assert packaged().algorithms["raster info"].makes is None


def test_defaults_are_values_that_the_argument_takes() -> None:
    types: dict[str, Any] = {"integer": int, "real": (int, float), "boolean": bool}
    for argument in every_argument():
        default = argument.usage.get("default")
        if default is None:
            continue
        assert isinstance(default, list) == argument.is_list, argument
        for value in default if isinstance(default, list) else [default]:
            assert isinstance(value, types.get(argument.element_type, str)), argument
            assert not argument.choices or str(value) in argument.choices, argument
            if argument.element_type in ("integer", "real"):
                assert argument.minimum is None or value >= argument.minimum, argument
                assert argument.maximum is None or value <= argument.maximum, argument
                assert abs(value) < 2**31 - 1, argument


def test_choices_are_of_the_argument_s_type_and_named_once() -> None:
    for argument in every_argument():
        listed = argument.usage.get("choices", [])
        assert isinstance(listed, list)
        assert len(listed) == len(set(listed)), argument
        wanted = int if argument.element_type == "integer" else str
        assert all(isinstance(choice, wanted) for choice in listed), argument


def test_a_fault_is_put_right_and_the_data_keeps_gdals_word(facts: dict[str, Any]) -> None:
    for path, patch in PATCHED:
        right = entry(patched(facts, PATCHES), path, patch["argument"])
        assert right.get(patch["key"]) == patch.get("now")
        assert entry(facts, path, patch["argument"])[patch["key"]] == patch["was"]


def test_a_fault_that_gdal_put_right_stops_the_catalogue(facts: dict[str, Any]) -> None:
    for path, patch in PATCHED:
        entry(facts, path, patch["argument"])[patch["key"]] = patch.get("now", 7)
        with pytest.raises(CatalogueBroken):
            patched(facts, PATCHES)


def test_a_patch_of_an_algorithm_that_is_gone_stops_the_catalogue(facts: dict[str, Any]) -> None:
    facts["algorithms"] = [one for one in facts["algorithms"] if one["path"] != PATCHED[0][0]]
    with pytest.raises(CatalogueBroken):
        patched(facts, PATCHES)


def test_another_release_may_be_without_the_faults_of_this_one(facts: dict[str, Any]) -> None:
    path, patch = PATCHED[0]
    fault = entry(facts, path, patch["argument"])
    fault[patch["key"]] = patch["now"]
    others = {**facts, "gdal": "3.130.0"}
    right = patched(others, PATCHES)
    assert entry(right, path, patch["argument"])[patch["key"]] == patch["now"]
    second, other = PATCHED[1]
    assert entry(right, second, other["argument"])[other["key"]] == other["now"]


def test_a_step_that_describes_a_faulty_argument_again_is_put_right_too(facts: dict[str, Any]) -> None:
    path, patch = (
        "raster rgb-to-palette",
        next(one for one in PATCHES["patch"] if one["argument"] == "bit-depth"),
    )
    step = next(one for one in facts["steps"] if one["path"] == path)
    step["arguments"].remove("bit-depth")
    step["arguments"].append(dict(entry(facts, path, "bit-depth")))
    right = next(one for one in patched(facts, PATCHES)["steps"] if one["path"] == path)
    assert right["arguments"][-1]["choices"] == patch["now"]
    assert step["arguments"][-1]["choices"] == patch["was"]


def test_a_patch_has_a_reason(facts: dict[str, Any]) -> None:
    unexplained = copy.deepcopy(PATCHES)
    unexplained["patch"][0]["reason"] = ""
    with pytest.raises(CatalogueBroken):
        patched(facts, unexplained)


def test_a_patch_takes_no_number_for_a_text_or_a_truth(facts: dict[str, Any]) -> None:
    path, patch = PATCHED[0]
    strict = {"release": "3.13", "patch": [{**patch, "algorithms": [path], "was": 1}]}
    entry(facts, path, patch["argument"])[patch["key"]] = True
    with pytest.raises(CatalogueBroken):
        patched(facts, strict)


@pytest.mark.claim("args.total-roles")
def test_everything_without_a_role_is_named_at_once(parts: Parts) -> None:
    new = [("raster calc", "brand-new", "string"), ("vsi copy", "and-another", "dataset_list")]
    for path, name, kind in new:
        algorithm = next(one for one in parts["facts"]["algorithms"] if one["path"] == path)
        algorithm["arguments"].append({"name": name, "type": kind, "place": "input"})
    step = next(one for one in parts["facts"]["steps"] if one["path"] == "vector limit")
    step["arguments"].append({"name": "of-a-step", "type": "real"})
    with pytest.raises(CatalogueBroken) as broken:
        build(**parts)
    for words in (*new, ("vector limit", "of-a-step", "real")):
        assert all(word in str(broken.value) for word in words)


def test_a_step_that_names_what_its_algorithm_lacks_stops_the_catalogue(parts: Parts) -> None:
    next(one for one in parts["facts"]["steps"] if one["path"] == "raster clip")["arguments"].append(
        "no-such"
    )
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_a_type_that_nothing_knows_stops_the_catalogue(parts: Parts) -> None:
    like = entry(parts["facts"], "raster reproject", "like")
    like["type"] = "function"
    parts["roles"].setdefault("algorithm", {}).setdefault("raster reproject", {})["like"] = {
        "role": "value",
        "check": "choice",
        "reason": "a rule of its own holds whatever the type",
    }
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_a_rule_of_its_own_that_names_types_holds_for_no_other(parts: Parts) -> None:
    rule = {"role": "input", "types": ["dataset"], "reason": "a second dataset"}
    parts["roles"].setdefault("algorithm", {}).setdefault("raster reproject", {})["like"] = rule
    assert build(**parts).algorithms["raster reproject"].long_names["like"].role is Role.INPUT
    entry(parts["facts"], "raster reproject", "like")["type"] = "dataset_list"
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_a_broken_rule_stops_the_catalogue_even_if_no_argument_has_it(parts: Parts) -> None:
    parts["roles"]["shared"]["of-nothing"] = {"role": "value", "types": ["string"], "check": "crs"}
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_data_that_lacks_a_part_does_not_load(facts: dict[str, Any]) -> None:
    for part in ["gdal", "skipped", "algorithms", "steps", "drivers", "warp", "transform"]:
        del facts[part]
        with pytest.raises(CatalogueBroken):
            catalogue_of(json.dumps(facts))


def test_damaged_data_does_not_load() -> None:
    for text in ["", "{", "[]", "null", '{"gdal": 3}', packaged_text()[:-200]]:
        with pytest.raises(CatalogueBroken):
            catalogue_of(text)
