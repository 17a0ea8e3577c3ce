"""Another GDAL: changes are reported, and only audited parts of it are served."""

import copy
import json
import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.changes import CatalogueChanges, unchanged
from gdal_mcp.toolboxes.gdal.catalogue.load import catalogue_of, packaged, packaged_text, servable
from gdal_mcp.toolboxes.gdal.catalogue.messages import literals, unrecognised
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue, Scope
from gdal_mcp.toolboxes.gdal.catalogue.report import report

Facts = dict[str, Any]
Doctor = Callable[[Facts], object]


def packaged_facts() -> Facts:
    return dict(json.loads(packaged_text()))


@pytest.fixture(scope="module")
def audited() -> Facts:
    return packaged_facts()


@pytest.fixture
def newer() -> Facts:
    """The packaged data as if GDAL 3.14 had produced it."""
    return {**packaged_facts(), "gdal": "3.14.0"}


def algorithm(facts: Facts, path: str) -> Facts:
    return next(entry for entry in facts["algorithms"] if entry["path"] == path)


def argument(facts: Facts, path: str, name: str) -> Facts:
    return next(entry for entry in algorithm(facts, path)["arguments"] if entry["name"] == name)


def driver(facts: Facts, name: str) -> Facts:
    return next(entry for entry in facts["drivers"] if entry["name"] == name)


def rename(facts: Facts, path: str, name: str) -> None:
    for entry in (*facts["algorithms"], *facts["steps"]):
        if entry["path"] == path:
            entry["path"] = name


def served(facts: Facts) -> Catalogue:
    return catalogue_of(servable(json.dumps(facts)))


def test_unchanged_catalogue_reports_one_line_and_serves_all(newer: Facts, audited: Facts) -> None:
    assert len(report(CatalogueChanges(audited, newer))) == 1
    assert served(newer).algorithms.keys() == packaged().algorithms.keys()
    assert served(newer).steps.keys() == packaged().steps.keys()
    assert len(served(newer).drivers) == len(packaged().drivers)
    assert not any(served(newer).left_out.values())


def test_new_driver_is_reported_but_not_served(newer: Facts, audited: Facts) -> None:
    new = {**driver(newer, "GTiff"), "name": "Fresh", "prefix": "FRESH:"}
    newer["drivers"].append({**new, "creation": [{"name": "SIDE_FILE", "type": "string"}]})
    changes = CatalogueChanges(audited, newer)
    assert changes.new("drivers") == ("Fresh",)
    assert {"  Fresh", "  Fresh SIDE_FILE", "  FRESH:"} <= {*report(changes)}
    assert "fresh" not in served(newer).driver_names
    assert served(newer).left_out["drivers"] == ["Fresh"]


def test_missing_driver_is_reported_and_not_served(newer: Facts, audited: Facts) -> None:
    newer["drivers"].remove(driver(newer, "KMZ" if "KMZ" in packaged().driver_names else "PNG"))
    changes = CatalogueChanges(audited, newer)
    assert len(changes.gone("drivers")) == 1
    assert len(served(newer).drivers) == len(packaged().drivers) - 1


def test_renamed_algorithm_is_reported_as_such_not_served(newer: Facts, audited: Facts) -> None:
    rename(newer, "raster hillshade", "raster shade")
    changes = CatalogueChanges(audited, newer)
    assert changes.renamed == {"raster hillshade": "raster shade"}
    assert changes.new("algorithms") == changes.new("steps") == ("raster shade",)
    catalogue = served(newer)
    assert not {"raster hillshade", "raster shade"} & catalogue.algorithms.keys()
    assert not {"raster hillshade", "raster shade"} & catalogue.steps.keys()


def test_another_default_is_reported_and_served(newer: Facts, audited: Facts) -> None:
    argument(newer, "raster hillshade", "zfactor")["default"] = 7.0
    (change,) = CatalogueChanges(audited, newer).arguments
    assert (change.owner, change.name, change.differing()) == ("raster hillshade", "zfactor", ("default",))
    assert served(newer).algorithms["raster hillshade"].long_names["zfactor"].usage["default"] == 7.0


def test_messages_with_other_words_are_reported_and_named(newer: Facts, audited: Facts) -> None:
    code, (text, *_) = next((code, texts) for code, texts in literals().items() if code == "field_name_cut")
    newer["messages"].remove(text)
    assert unrecognised(newer["messages"]) == {code: (text,)}
    assert any(text in line for line in report(CatalogueChanges(audited, newer)))
    assert code in served(newer).summary


def test_image_without_captured_messages_is_served(newer: Facts) -> None:
    del newer["messages"]
    assert served(newer).unrecognised == {}


def test_messages_behind_warning_rules_exist_in_captured_libraries() -> None:
    assert unrecognised(packaged_facts()["messages"]) == {}
    assert sum(map(len, literals().values())) > 60


def test_each_captured_file_system_is_named() -> None:
    names = tomllib.loads(
        files("gdal_mcp.toolboxes.gdal.catalogue").joinpath("data", "names.toml").read_text(encoding="utf-8")
    )
    text = json.dumps(names)
    archives = {"/vsizip", "/vsitar", "/vsigzip"}  # datasets/names.py reads these
    assert not [
        name for name in packaged_facts()["file_systems"] if f'"{name}"' not in text and name not in archives
    ]


def test_a_file_system_that_is_new_is_reported(newer: Facts, audited: Facts) -> None:
    newer["file_systems"].append("/vsifresh")
    assert "  /vsifresh" in report(CatalogueChanges(audited, newer))


def _new_required(facts: Facts) -> None:
    algorithm(facts, "raster hillshade")["arguments"].append(
        {"name": "key", "type": "string", "required": True}
    )


def _other_type(facts: Facts) -> None:
    argument(facts, "raster hillshade", "input")["type"] = "string"


def _no_output(facts: Facts) -> None:
    algorithm(facts, "raster hillshade")["arguments"].remove(argument(facts, "raster hillshade", "output"))


@pytest.mark.parametrize("change", [_new_required, _other_type, _no_output])
def test_algorithm_with_changed_required_arguments_is_not_served(newer: Facts, change: Doctor) -> None:
    change(newer)
    assert "raster hillshade" not in served(newer).algorithms
    assert "raster hillshade" not in served(newer).steps


def test_new_argument_gets_a_proposed_role_unserved(newer: Facts, audited: Facts) -> None:
    new = {"name": "tool-path", "type": "string"}
    algorithm(newer, "raster hillshade")["arguments"].append(new)
    lines = report(CatalogueChanges(audited, newer))
    (proposed,) = [line for line in lines if "tool-path = " in line]
    assert 'role = "forbidden"' in proposed
    assert "tool-path" not in served(newer).algorithms["raster hillshade"].long_names


def test_proposed_role_is_a_valid_catalogue_rule(newer: Facts, audited: Facts) -> None:
    algorithm(newer, "raster hillshade")["arguments"].append({"name": "fresh", "type": "integer"})
    (proposed,) = [line for line in report(CatalogueChanges(audited, newer)) if "fresh = " in line]
    head, _, rule = proposed.strip().partition("] ")
    assert tomllib.loads(f"{head}]\n{rule}")["algorithm"]["raster hillshade"]["fresh"]["role"] == "value"


def test_of_choices_those_that_were_audited_are_served(newer: Facts) -> None:
    choices = argument(newer, "raster reproject", "resampling")["choices"]
    choices.append("guess")
    served_choices = served(newer).algorithms["raster reproject"].long_names["resampling"].choices
    assert "guess" not in served_choices
    assert "nearest" in served_choices


def test_option_with_changed_type_is_not_served(newer: Facts, audited: Facts) -> None:
    option = next(row for row in driver(newer, "GTiff")["creation"] if row["name"] == "COMPRESS")
    del option["choices"]
    option["type"] = "string"
    assert [spec.name for spec in CatalogueChanges(audited, newer).options] == ["COMPRESS"]
    assert "COMPRESS" not in {
        spec.name for spec in served(newer).driver_names["gtiff"].options[Scope.CREATION]
    }


def test_nothing_is_served_that_was_not_audited(newer: Facts, audited: Facts) -> None:
    """Each served argument of another release has the type and the flags of the audited one."""
    for number, entry in enumerate(newer["algorithms"]):
        for place, row in enumerate(entry["arguments"]):
            if (number + place) % 7 == 0:
                row["type"] = "string" if row["type"] != "string" else "dataset"
    unchanged_facts = unchanged(audited, newer)
    old = {entry["path"]: {row["name"]: row for row in entry["arguments"]} for entry in audited["algorithms"]}
    compared = 0
    for entry in unchanged_facts["algorithms"]:
        for row in entry["arguments"]:
            assert row == old[entry["path"]][row["name"]]
            compared += 1
    assert 0 < compared < 2_000
    catalogue_of(json.dumps(unchanged_facts))


def test_patch_release_with_known_roles_is_served_completely(newer: Facts) -> None:
    newer["gdal"] = "3.13.9"
    driver(newer, "GTiff")["creation"].append({"name": "FRESH", "type": "boolean"})
    assert "FRESH" in {spec.name for spec in served(newer).driver_names["gtiff"].options[Scope.CREATION]}
    assert not served(newer).left_out


def test_unknown_argument_does_not_block_a_patch_release(newer: Facts) -> None:
    newer["gdal"] = "3.13.9"
    algorithm(newer, "raster hillshade")["arguments"].append({"name": "tool-path", "type": "string"})
    catalogue = served(newer)
    assert not catalogue.incompatible("3.13.9")
    assert len(catalogue.algorithms) == len(packaged().algorithms)
    assert catalogue.left_out["arguments"] == 1


def test_comparison_does_not_change_its_data(newer: Facts, audited: Facts) -> None:
    before = copy.deepcopy((newer, audited))
    unchanged(audited, newer)
    assert (newer, audited) == before
