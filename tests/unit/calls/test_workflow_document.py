"""The workflow document: what is accepted, where each error points, and in which order steps run."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.calls.workflows.document import (
    Workflow,
    WorkflowDocument,
    WorkflowInvalid,
    bind,
    load,
    parse,
    read_value,
)

SLOPE = {
    "workflow": 1,
    "name": "slope_by_zone",
    "parameters": {"dem": {"type": "path"}, "scale": {"type": "number", "default": 1.5}},
    "steps": [
        {
            "id": "stats",
            "tool": "raster_zonal_stats",
            "arguments": {"input": "${steps.slope}", "output": "s.gpkg"},
        },
        {
            "id": "slope",
            "tool": "raster_slope",
            "arguments": {
                "input": "${parameters.dem}",
                "output": "slope.tif",
                "zfactor": "${parameters.scale}",
            },
        },
    ],
    "outputs": {"stats": {"from": "${steps.stats}", "to": "result/${parameters.scale}.gpkg"}},
}


def bound(document, **values) -> Workflow:
    return bind(parse(document), {"dem": "dem.tif", **values})


def problems(document, **values):
    with pytest.raises(WorkflowInvalid) as caught:
        bound(document, **values)
    return caught.value.problems


def test_steps_run_after_their_references_in_any_order():
    assert bound(SLOPE).waves == (("slope",), ("stats",))


def test_whole_reference_keeps_type_and_embedded_becomes_text():
    workflow = bound(SLOPE, scale=2)
    assert workflow.arguments("slope", {}) == {"input": "dem.tif", "output": "slope.tif", "zfactor": 2}
    assert [target for _, target, _ in workflow.published] == ["result/2.gpkg"]


def test_step_gets_paths_that_earlier_steps_wrote():
    arguments = bound(SLOPE).arguments("stats", {"slope": ("/private/slope.tif",)})
    assert arguments["input"] == "/private/slope.tif"


def test_unwritten_output_fails_the_step_that_uses_it():
    with pytest.raises(WorkflowInvalid) as caught:
        bound(SLOPE).arguments("stats", {"slope": ()})
    assert caught.value.problems[0].step == "stats"


def changed(**keys):
    return {**SLOPE, **keys}


def with_step(**keys):
    return changed(steps=[SLOPE["steps"][0], {**SLOPE["steps"][1], **keys}])


@pytest.mark.parametrize(
    ("document", "step", "argument"),
    [
        (with_step(arguments={"input": "${steps.nothing}"}), "slope", "input"),
        (with_step(arguments={"input": "${parameters.nothing}"}), "slope", "input"),
        (with_step(arguments={"input": {"deep": ["${parameters.}"]}}), "slope", "input"),
        (with_step(after=["nothing"]), "slope", "after"),
        (with_step(surprise=1), "slope", "surprise"),
        (with_step(id="stats"), "stats", ""),
    ],
)
def test_an_error_names_its_step_and_argument(document, step, argument):
    first = problems(document)[0]
    assert (first.step, first.argument) == (step, argument)


@pytest.mark.parametrize(
    ("document", "places"),
    [
        (with_step(id="my-step"), ["my-step"]),
        (with_step(arguments=[], surprise=1), ["slope", "slope"]),
        (changed(outputs=["slope.tif"]), [""]),
        (changed(parameters={"dem": "dem.tif"}), [""]),
        ({**SLOPE, "steps": [1]}, ["0"]),
    ],
)
def test_each_mistake_is_one_problem(document, places):
    assert [problem.step for problem in problems(document)] == places


@pytest.mark.parametrize(
    "document",
    [
        changed(workflow=2),
        changed(steps=[]),
        with_step(after=["stats"]),
        changed(outputs={"a": {"from": "${parameters.dem}", "to": "a.tif"}}),
        changed(outputs={"a": {"from": "x${steps.slope}", "to": "a.tif"}}),
        changed(outputs={"a": {"from": "${steps.slope}", "to": "${steps.stats}"}}),
        changed(outputs={n: {"from": "${steps.slope}", "to": "a.tif"} for n in "ab"}),
        changed(parameters={**SLOPE["parameters"], "scale": {"type": "integer", "default": 1.5}}),
        [],
        None,
    ],
)
def test_an_invalid_document_is_refused(document):
    assert problems(document)


@pytest.mark.parametrize(
    "values", [{"dem": 3}, {"scale": "wide"}, {"scale": True}, {"other": 1}, {"dem": None}]
)
def test_values_of_the_wrong_type_are_refused(values):
    assert problems(SLOPE, **values)


def test_yaml_and_json_give_the_same_document():
    text = """
workflow: 1
name: one
parameters: {flag: {type: boolean, default: true}, day: {type: string, default: 2024-01-01}, word: {type: string, default: no}}
steps:
  - id: look
    tool: info
    arguments: {path: a.tif}
"""
    document = load(text)
    assert document == load(document.model_dump_json(by_alias=True))
    assert [parameter.default for parameter in document.parameters.values()] == [True, "2024-01-01", "no"]


def test_the_published_schema_is_that_of_the_document():
    published = Path(__file__).parents[3] / "docs" / "schemas" / "workflow-1.schema.json"
    assert json.loads(published.read_text()) == WorkflowDocument.model_json_schema(by_alias=True)


def test_yaml_aliases_are_not_expanded():
    with pytest.raises(WorkflowInvalid):
        load("a: &a [1, 1]\nb: [*a, *a]")


def test_canonical_text_depends_only_on_values_and_steps():
    again = json.loads(json.dumps(SLOPE))
    assert bound(SLOPE).canonical == bound(again).canonical
    assert bound(SLOPE).canonical != bound(SLOPE, scale=2).canonical
    assert bound(SLOPE).canonical != bound(with_step(tool="raster_aspect")).canonical


def test_command_line_text_is_read_by_parameter_type():
    assert read_value("3", "string") == "3"
    assert read_value("3", "number") == 3
    with pytest.raises(ValueError):
        read_value("3.5", "integer")


@given(
    st.recursive(
        st.text() | st.integers() | st.none() | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_document_or_is_refused(value):
    with pytest.raises(WorkflowInvalid):
        parse({"workflow": 1, "name": "a", "steps": value})


WHOLE = "workflow: 1\nname: a\nsteps:\n- {{id: a, tool: info, arguments: {{x: {}}}}}\n"


@pytest.mark.parametrize(
    "text",
    [
        *('!!int "x"', '!!float "x"', '!!bool "x"', '!!timestamp "x"', '!!binary "%"', "!!set {a}", "!x y"),
        *(
            "9" * 5000,
            "-" + "9" * 5000,
            "[" * 400 + "]" * 400,
            "[" * 9000,
            "*a",
            '"' + "x" * (64 << 10) + '"',
        ),
    ],
)
def test_text_outside_json_is_an_invalid_document(text: str):
    with pytest.raises(WorkflowInvalid):
        load(WHOLE.format(text))


@pytest.mark.parametrize("text", ["010", "0x1F", "1:30", ".nan", ".inf", "1_000", "2001-01-01", "no", "+1"])
def test_yaml_only_numbers_are_text(text: str):
    assert load(WHOLE.format(text)).steps[0].arguments == {"x": text}


def test_numbers_are_those_of_json():
    assert load(WHOLE.format("[1, -2, 0, 1.5, -0.5, 1e3, 2E-2, true, null]")).steps[0].arguments == {
        "x": [1, -2, 0, 1.5, -0.5, 1000.0, 0.02, True, None]
    }


def test_too_deep_or_long_values_are_invalid():
    deep = {"workflow": 1, "name": "a", "steps": [{"id": "a", "tool": "info", "arguments": {}}]}
    value = "x"
    for _ in range(5000):
        value = [value]
    deep["steps"][0]["arguments"] = {"x": value}
    long = {**deep, "steps": [{"id": "a", "tool": "info", "arguments": {"x": "y" * (64 << 10)}}]}
    for document in (deep, long):
        with pytest.raises(WorkflowInvalid):
            parse(document)


def test_references_stand_for_a_bounded_length():
    steps = [{"id": "a", "tool": "info", "arguments": {"x": "${parameters.p}" * 1000}}]
    outputs = {f"o{n}": {"from": "${steps.a}", "to": f"{n}" + "${parameters.p}" * 50} for n in range(30)}
    document = {
        "workflow": 1, "name": "a", "parameters": {"p": {"type": "string"}}, "steps": steps, "outputs": outputs
    }  # fmt: skip
    small, large = (bind(parse(document), {"p": "x" * length}) for length in (100, 10_000))
    assert len(small.arguments("a", {})["x"]) == 100_000
    assert len(small.published) == 30
    for wrong in (lambda: large.arguments("a", {}), lambda: large.published):
        with pytest.raises(WorkflowInvalid):
            wrong()
