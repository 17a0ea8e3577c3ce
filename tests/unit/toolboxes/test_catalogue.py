"""The catalogue of a complete GDAL is complete and closed: it loads unchanged or not at all."""

import copy
import json
import re
import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from gdal_mcp.errors import Code
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused, CatalogueBroken
from gdal_mcp.toolboxes.gdal.catalogue.formats import driver_for, drivers_for, input_format, output_format
from gdal_mcp.toolboxes.gdal.catalogue.load import apply_patches, build, catalogue_of, packaged, packaged_text
from gdal_mcp.toolboxes.gdal.catalogue.model import Argument, Role, Scope
from gdal_mcp.toolboxes.gdal.environment import SKIPPED_DRIVERS

Parts = dict[str, dict[str, Any]]


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads(
        files("gdal_mcp.toolboxes.gdal.catalogue").joinpath("data", f"{name}.toml").read_text()
    )


RULES = {name: toml(name) for name in ("roles", "options", "formats")}
PATCHES = toml("patches")
PATCHED = [(path, patch) for patch in PATCHES["patch"] for path in patch["algorithms"]]


@pytest.fixture
def facts() -> dict[str, Any]:
    """The packaged data."""
    return dict(json.loads(packaged_text()))


def entry(facts: dict[str, Any], path: str, name: str) -> dict[str, Any]:
    algorithm = next(row for row in facts["algorithms"] if row["path"] == path)
    return next(argument for argument in algorithm["arguments"] if argument["name"] == name)


def every_argument() -> list[Argument]:
    algorithms = [*packaged().algorithms.values(), *(step.algorithm for step in packaged().steps.values())]
    return [argument for algorithm in algorithms for argument in algorithm.arguments]


# --- contents


def test_the_catalogue_is_small_and_lacks_disabled_drivers():
    assert json.loads(packaged_text())["generator"].startswith("gdal-mcp catalogue build")
    assert len(packaged_text()) < 1_200_000
    assert set(packaged().skipped) == set(SKIPPED_DRIVERS)
    assert not {driver.name for driver in packaged().drivers} & set(SKIPPED_DRIVERS)


def test_all_of_gdal_is_there() -> None:
    paths = set(packaged().algorithms)
    assert len(paths) == 120
    assert {"convert", "pipeline", "vector grid invdist", "driver gpkg repack", "vsi sozip create"} <= paths


@pytest.mark.claim("args.pipelines-parsed")
def test_no_step_runs_a_shell_command() -> None:
    assert len(packaged().steps) == 92
    assert not [path for path in (*packaged().steps, *packaged().algorithms) if "external" in path]


def test_step_arguments_share_the_rules_of_their_algorithm() -> None:
    shared = 0
    for path, step in packaged().steps.items():
        leaf = packaged().algorithms.get(path)
        for argument in step.algorithm.arguments if leaf else ():
            assert leaf is not None
            assert argument.rule == leaf.long_names[argument.name].rule
            assert argument.type == leaf.long_names[argument.name].type
            shared += 1
    assert shared > 1_000


def test_a_name_means_one_argument() -> None:
    for algorithm in packaged().algorithms.values():
        names = [name for argument in algorithm.arguments for name in (argument.name, *argument.aliases)]
        assert len(names) == len(set(names))


def test_a_step_says_what_goes_through_it() -> None:
    for path, takes, gives, places in [
        ("raster read", None, "raster", ("first",)), ("vector write", "vector", None, ("last",)),
        ("raster polygonize", "raster", "vector", ("middle",)),
        ("vector rasterize", "vector", "raster", ("middle",)),
        ("vector grid count", "vector", "raster", ("middle",)),
        ("raster zonal-stats", "raster", "vector", ("middle",)),
        ("raster mosaic", None, "raster", ("first",)), ("vector limit", "vector", "vector", ("middle",)),
        ("raster tee", "raster", "raster", ("middle", "last")),
        ("vector partition", "vector", None, ("last",)),
    ]:  # fmt: skip
        step = packaged().steps[path]
        assert (step.takes, step.gives, step.places) == (takes, gives, places)


def test_step_knows_its_own_positional_arguments() -> None:
    """`gdal pipeline ... ! sql 'SELECT ...'` needs no --sql; `gdal vector sql` does."""
    assert packaged().steps["vector sql"].algorithm.long_names["sql"].positional
    assert not packaged().algorithms["vector sql"].long_names["sql"].positional
    write = packaged().steps["vector write"].algorithm
    assert write.long_names["output"].positional
    assert write.long_names["lco"] is write.long_names["layer-creation-option"]
    assert [argument.name for argument in write.arguments if argument.short_name == "l"] == ["output-layer"]
    limit = packaged().steps["vector limit"].algorithm
    assert [argument.name for argument in limit.arguments if argument.positional] == ["limit"]


def test_every_step_belongs_to_a_pipeline_position() -> None:
    for path, step in packaged().steps.items():
        assert "pipeline" in step.pipelines
        assert step.places
        assert (step.takes is None) == (step.places == ("first",)), path
        assert (step.gives is None) == (step.places == ("last",)), path


def test_alternatives_are_needed_together_and_none_by_itself() -> None:
    resize = packaged().algorithms["raster resize"]
    assert resize.one_of == (("resolution", "size"),)
    assert not resize.long_names["size"].required
    assert resize.long_names["output"].required
    assert packaged().algorithms["raster convert"].one_of == ()


def test_algorithm_output_kind_may_differ_from_input_kind() -> None:
    makes = {"raster contour": "vector", "vector rasterize": "raster", "mdim convert": "multidim"}
    makes |= {"raster info": None}
    assert {path: packaged().algorithms[path].makes for path in makes} == makes


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


def test_choices_have_the_argument_type_without_duplicates() -> None:
    for argument in every_argument():
        listed = argument.usage.get("choices", [])
        assert isinstance(listed, list)
        assert len(listed) == len(set(listed)), argument
        wanted = int if argument.element_type == "integer" else str
        assert all(isinstance(choice, wanted) for choice in listed), argument


def test_options_are_read_whole() -> None:
    gtiff = packaged().driver_names["gtiff"]
    zlevel = next(spec for spec in gtiff.options[Scope.CREATION] if spec.name == "ZLEVEL")
    assert (zlevel.minimum, zlevel.maximum) == (1, 12)
    nitf = packaged().driver_names["nitf"]
    assert next(spec for spec in nitf.options[Scope.CREATION] if spec.name == "FSCLAS").max_letters == 1


def test_option_rules_have_reasons_and_patterns_exclude_paths() -> None:
    rules = packaged().option_rules.values()
    assert all(rule.reason for rule in rules)
    patterns = {rule.shape.pattern for rule in rules if rule.shape and rule.shape.pattern}
    assert patterns
    assert not any(re.fullmatch(pattern, text) for pattern in patterns for text in ("/etc/passwd", "@x"))


# --- errors that stop it


Spoil = Callable[[Parts], object]


def shared(name: str, role: str, reason: str, types: str, **more: object) -> Spoil:
    """Adds another rule for an argument of many algorithms."""

    def spoil(parts: Parts) -> None:
        rules = parts["roles"]["shared"]
        for reasons in rules.values():
            for group in (
                entry
                for groups in reasons.values()
                for entry in (groups if isinstance(groups, list) else [groups])
            ):
                for key, names in group.items():
                    if isinstance(names, str):
                        group[key] = " ".join(word for word in names.split() if word != name)
        rules.setdefault(role, {})[reason] = {types: name, **more}

    return spoil


def second_rule(parts: Parts) -> None:
    parts["roles"]["shared"]["value"]["a second rule"] = {"boolean": "overwrite"}


def of_its_own(parts: Parts, **rule: object) -> None:
    """Adds a rule for one argument of one algorithm."""
    parts["roles"].setdefault("algorithm", {}).setdefault("raster reproject", {})["like"] = rule


def another_type(parts: Parts) -> None:
    every = [argument for algorithm in parts["facts"]["algorithms"] for argument in algorithm["arguments"]]
    next(argument for argument in every if argument["name"] == "append")["type"] = "dataset"


def type_that_nothing_knows(parts: Parts) -> None:
    entry(parts["facts"], "raster reproject", "like")["type"] = "function"
    of_its_own(parts, role="value", check="choice", reason="a rule of its own holds whatever the type")


def two_rules(parts: Parts) -> None:
    parts["options"]["permit"]["label"]["a second rule"] = ["open *: OGR_SCHEMA"]


def unknown_argument_of_a_step(parts: Parts) -> None:
    next(step for step in parts["facts"]["steps"] if step["path"] == "raster clip")["arguments"].append(
        "none"
    )


SPOILT: dict[str, Spoil] = {
    "a known name has another type": another_type,
    "a type that nothing knows": type_that_nothing_knows,
    "a rule without a check": shared("input-crs", "value", "no check", "string"),
    "a rule without a reason": shared("input-crs", "value", "", "string", check="crs"),
    "a role that is none": shared("input-crs", "harmless", "x", "string", check="crs"),
    "a broken rule that no argument has": shared("of-nothing", "value", "", "string", check="crs"),
    "a dataset as a plain value": shared("like", "value", "x", "dataset string_list", check="choice"),
    "two rules for one argument": second_rule,
    "two rules for one option": two_rules,
    "a step that names what its algorithm lacks": unknown_argument_of_a_step,
}


@pytest.fixture
def parts(facts: dict[str, Any]) -> Parts:
    return {"facts": facts, **copy.deepcopy(RULES)}


def test_what_is_not_decided_on_stops_the_catalogue(facts: dict[str, Any], subtests: pytest.Subtests) -> None:
    for name, spoil in SPOILT.items():
        with subtests.test(name):
            parts = copy.deepcopy({"facts": facts, **RULES})
            spoil(parts)
            with pytest.raises(CatalogueBroken):
                build(**parts)


@pytest.mark.claim("args.total-roles")
def test_everything_without_a_role_is_named_at_once(parts: Parts) -> None:
    new = [("raster calc", "brand-new", "string"), ("vsi copy", "and-another", "dataset_list")]
    for path, name, kind in new:
        algorithm = next(row for row in parts["facts"]["algorithms"] if row["path"] == path)
        algorithm["arguments"].append({"name": name, "type": kind, "place": "input"})
    step = next(row for row in parts["facts"]["steps"] if row["path"] == "vector limit")
    step["arguments"].append({"name": "of-a-step", "type": "real"})
    with pytest.raises(CatalogueBroken) as broken:
        build(**parts)
    for words in (*new, ("vector limit", "of-a-step", "real")):
        assert all(word in str(broken.value) for word in words)


def test_rule_limited_to_types_fails_for_others(parts: Parts) -> None:
    of_its_own(parts, role="input", types=["dataset"], reason="a second dataset")
    assert build(**parts).algorithms["raster reproject"].long_names["like"].role is Role.INPUT
    entry(parts["facts"], "raster reproject", "like")["type"] = "dataset_list"
    with pytest.raises(CatalogueBroken):
        build(**parts)


def test_damaged_data_does_not_load(facts: dict[str, Any]) -> None:
    for text in ["", "{", "[]", "null", '{"gdal": 3}', packaged_text()[:-200]]:
        with pytest.raises(CatalogueBroken):
            catalogue_of(text)
    for part in ["gdal", "skipped", "algorithms", "steps", "drivers", "warp", "transform"]:
        with pytest.raises(CatalogueBroken):
            catalogue_of(json.dumps({name: value for name, value in facts.items() if name != part}))


@pytest.mark.claim("args.catalogue-fits")
def test_a_catalogue_fits_its_release_and_no_other() -> None:
    for version in ["3.13.3", "3.13.0", "3.13.12", "3.13"]:
        assert not packaged().incompatible(version)
    for version in ["3.12.9", "3.14.0", "3.130.3", "3.1.3", "4.13.3", "13.3.1", "3", ""]:
        assert packaged().incompatible(version)


# --- patches


def test_patch_corrects_fault_without_changing_captured_data(facts: dict[str, Any]) -> None:
    for path, patch in PATCHED:
        right = entry(apply_patches(facts, PATCHES), path, patch["argument"])
        assert right.get(patch["key"]) == patch.get("now")
        assert entry(facts, path, patch["argument"])[patch["key"]] == patch["was"]


def test_patch_that_does_not_fit_stops_the_catalogue(facts: dict[str, Any]) -> None:
    """A patch for a fault that GDAL fixed itself, for a removed algorithm, without a reason, or for a value of
    another type.
    """
    path, patch = PATCHED[0]
    right, true, gone = (copy.deepcopy(facts) for _ in range(3))
    entry(right, path, patch["argument"])[patch["key"]] = patch.get("now", 7)
    gone["algorithms"] = [row for row in gone["algorithms"] if row["path"] != path]
    entry(true, path, patch["argument"])[patch["key"]] = True
    mismatched = {"patch": [{**patch, "algorithms": [path], "was": 1}]}
    unexplained = copy.deepcopy(PATCHES)
    unexplained["patch"][0]["reason"] = ""
    for data, patches in ((right, PATCHES), (gone, PATCHES), (true, mismatched), (facts, unexplained)):
        with pytest.raises(CatalogueBroken):
            apply_patches(data, patches, strict=True)


def test_image_without_the_fault_is_accepted(facts: dict[str, Any]) -> None:
    path, patch = PATCHED[0]
    fault = entry(facts, path, patch["argument"])
    fault[patch["key"]] = patch["now"]
    right = apply_patches(facts, PATCHES)
    assert entry(right, path, patch["argument"])[patch["key"]] == patch["now"]
    second, other = PATCHED[1]
    assert entry(right, second, other["argument"])[other["key"]] == other["now"]


def test_patch_release_that_fixes_a_fault_is_served(facts: dict[str, Any]) -> None:
    path, patch = PATCHED[0]
    entry(facts, path, patch["argument"])[patch["key"]] = patch["now"]
    served = catalogue_of(json.dumps({**facts, "gdal": "3.13.4"}))
    assert served.algorithms[path].long_names[patch["argument"]].usage[patch["key"]] == patch["now"]


def test_patch_for_absent_fault_is_skipped(facts: dict[str, Any]) -> None:
    text = json.dumps(facts)
    for absent, offered in (((), False), (("zonal_median",), True)):
        stat = catalogue_of(text, absent).algorithms["raster zonal-stats"].long_names["stat"]
        assert ("median" in stat.choices) == offered


def test_step_repeating_a_faulty_argument_is_patched_too(facts: dict[str, Any]) -> None:
    path = "raster rgb-to-palette"
    patch = next(row for row in PATCHES["patch"] if row["argument"] == "bit-depth")
    step = next(row for row in facts["steps"] if row["path"] == path)
    step["arguments"].remove("bit-depth")
    step["arguments"].append(dict(entry(facts, path, "bit-depth")))
    right = next(row for row in apply_patches(facts, PATCHES)["steps"] if row["path"] == path)
    assert right["arguments"][-1]["choices"] == patch["now"]
    assert step["arguments"][-1]["choices"] == patch["was"]


# --- formats


def test_the_name_of_an_output_says_the_driver() -> None:
    for name, kind, driver in [
        ("a.tif", "raster", "GTiff"), ("A.TIFF", "raster", "GTiff"), ("a.b.png", "raster", "PNG"),
        ("a.jpg", "raster", "JPEG"), ("a.vrt", "raster", "VRT"), ("a.nc", "raster", "netCDF"),
        ("a.img", "raster", "HFA"), ("a.gpkg", "raster", "GPKG"), ("a.gpkg", "vector", "GPKG"),
        ("a.json", "vector", "GeoJSON"), ("a.geojson", "vector", "GeoJSON"),
        ("a.shp", "vector", "ESRI Shapefile"), ("a.csv", "vector", "CSV"),
        ("a.fgb", "vector", "FlatGeobuf"), ("a.shp.zip", "vector", "ESRI Shapefile"),
        ("a.gdalg.json", "raster", "GDALG"), ("a.gdalg.json", "vector", "GDALG"), ("a.tif", "vector", None),
        ("a.geojson", "raster", None), ("a", "raster", None), ("tif", "raster", None),
        (".tif/a", "raster", None), ("a.", "raster", None), ("", "raster", None),
    ]:  # fmt: skip
        assert driver_for(packaged(), name, kind) == driver


def test_extension_alone_names_every_writing_driver() -> None:
    expected = {"gpkg": ("GPKG",), "tif": ("GTiff",), "geojson": ("GeoJSON",), "unheard-of": ()}
    assert {name: drivers_for(packaged(), f"a.{name}", None) for name in expected} == expected
    assert driver_for(packaged(), "a.gpkg", None) == "GPKG"


def test_writable_format_gets_the_spelling_of_gdal() -> None:
    for name, kind, canonical in [
        ("cog", "raster", "COG"), ("geojson", "vector", "GeoJSON"), ("esri shapefile", None, "ESRI Shapefile"),
        ("VRT", "raster", "VRT"), ("GDALG", "raster", "GDALG"), ("GDALG", "vector", "GDALG"), ("netCDF", "multidim", "netCDF"),
    ]:  # fmt: skip
        assert output_format(packaged(), name, kind) == canonical
    for name, kind in [
        ("MEM", "raster"), ("memory", "vector"), ("stream", "raster"), ("stream", None), ("GeoJSON", "raster"), ("PNG", "vector"),
        ("LIBERTIFF", "raster"), ("GTI", "raster"), ("", "raster"), ("GTiff\n", "raster"), ("GTiff ", "raster"),
        ("/vsistdout/", "raster"), ("x" * 100, None),
    ]:  # fmt: skip
        with pytest.raises(ArgumentRefused):
            output_format(packaged(), name, kind)


def test_network_and_database_formats_are_network_refusals() -> None:
    for name in ["PostgreSQL", "postgisraster", "WFS", "ODBC", "Elasticsearch", "GPSBabel", "HTTP"]:
        for check in (output_format, input_format):
            with pytest.raises(ArgumentRefused) as caught:
                check(packaged(), name, None)
            assert caught.value.code == Code.NETWORK_BLOCKED


def test_input_format_must_read_that_kind() -> None:
    assert input_format(packaged(), "csv", "vector") == "CSV"
    assert input_format(packaged(), "libertiff", "raster") == "LIBERTIFF"
    with pytest.raises(ArgumentRefused):
        input_format(packaged(), "CSV", "raster")
