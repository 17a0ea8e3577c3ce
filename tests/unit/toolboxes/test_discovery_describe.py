"""The description of one algorithm, and the worked examples of all."""

import json

from gdal_mcp.toolboxes.gdal.catalogue.binding import bind
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm, Role
from gdal_mcp.toolboxes.gdal.catalogue.schema import json_name
from gdal_mcp.toolboxes.gdal.datasets.operations import ALWAYS_ASKED
from gdal_mcp.toolboxes.gdal.discovery import read
from gdal_mcp.toolboxes.gdal.discovery.describe import describe, describe_step, examples
from gdal_mcp.toolboxes.gdal.discovery.entries import effects

PIPELINES = frozenset({"pipeline", "raster pipeline", "vector pipeline"})
PATHS = sorted(packaged().algorithms)


def algorithm(path: str) -> Algorithm:
    return packaged().algorithms[path]


def test_every_algorithm_has_a_worked_example():
    assert {example["algorithm"] for example in examples()} >= set(PATHS)


def test_every_example_may_be_called():
    for example in examples():
        assert example["does"].strip()
        if example["algorithm"] in PIPELINES:
            assert isinstance(example["arguments"]["steps"], str)
            continue
        bound = bind(
            algorithm(example["algorithm"]), example["arguments"], Context(packaged(), allow_sql=True)
        )
        assert {json_name(argument.name) for argument in bound.arguments} >= {
            name for name, value in example["arguments"].items() if value is not False
        }


def test_examples_name_relative_files_only():
    texts = json.dumps([dict(example["arguments"]) for example in examples()])
    assert not any(sign in texts for sign in ('"/', "..", "://", "/vsi"))


def test_related_algorithms_exist_and_are_others():
    for path, others in read("examples.toml")["related"].items():
        assert {path, *others} <= set(packaged().algorithms)
        assert path not in others


def test_a_description_is_json_with_the_schema():
    for path in PATHS:
        description = json.loads(json.dumps(describe(packaged(), algorithm(path))))
        assert description["algorithm"] == path
        assert description["url"].startswith("https://gdal.org/") or path == "driver"
        assert description["input_schema"]["type"] == "object"
        assert description["examples"]


def test_steps_of_a_pipeline_are_told_as_such():
    assert describe(packaged(), algorithm("raster hillshade"))["pipeline_step"]["takes"] == "raster"
    assert describe(packaged(), algorithm("raster polygonize"))["pipeline_step"]["gives"] == "vector"
    assert describe(packaged(), algorithm("vsi list"))["pipeline_step"] is None


EFFECTS = {
    "raster info": ("no", False, False), "raster hillshade": ("always", False, False),
    "raster pixel-info": ("optional", False, False), "raster overview add": ("no", True, False),
    "raster edit": ("no", True, False), "vsi sync": ("always", True, False),
    "raster clean-collar": ("optional", True, False), "dataset delete": ("no", False, True),
    "vsi delete": ("no", False, True),
}  # fmt: skip


def test_effects_follow_from_the_roles():
    for path in EFFECTS:
        stated = effects(algorithm(path))
        assert (stated["creates"], stated["updates"], stated["removes"]) == EFFECTS[path]
        assert (stated["needs_approval"] == "no") is (path == "raster info")


def test_changing_algorithm_never_claims_to_be_read_only():
    for path in PATHS:
        writing = {Role.OUTPUT, Role.UPDATE}
        if any(argument.role in writing and not argument.hidden for argument in algorithm(path).arguments):
            assert effects(algorithm(path))["needs_approval"] != "no"


def test_sql_is_named_where_it_may_be_given():
    for path, named in (("vector sql", ["sql"]), ("raster clip", ["like-sql"]), ("vector filter", [])):
        assert effects(algorithm(path))["sql"] == named


def test_arguments_without_role_exist_and_have_reasons():
    for table in read("effects.toml").values():
        assert set(table) <= set(packaged().algorithms)
        assert all(table.values())


def test_described_approval_matches_the_policy():
    approvals = {path: describe(packaged(), algorithm(path))["effects"]["needs_approval"] for path in PATHS}
    assert {path for path, word in approvals.items() if word == "always"} == ALWAYS_ASKED
    assert approvals["raster info"] == "no"
    assert approvals["raster hillshade"] not in ("no", "always")


def test_pipeline_names_its_steps_and_each_is_described() -> None:
    steps = describe(packaged(), algorithm("pipeline"))["steps"]
    named = {key for keys in steps.values() for key in keys}
    assert named == {key for key, step in packaged().steps.items() if "pipeline" in step.pipelines}
    description = describe_step(packaged(), "vector limit")
    assert (description["takes"], description["gives"]) == ("vector", "vector")
    assert "limit" in description["input_schema"]["properties"]
