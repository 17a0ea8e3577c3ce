"""The tools of the specification, without an engine, compared word for word with its extract in `specification.json`."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft, Effect, effect_of
from gdal_mcp.policy.policy import Allow
from gdal_mcp.remote.places import AddressTable
from gdal_mcp.server.mcp import render
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.augment.answers import add_verdict
from gdal_mcp.toolboxes.augment.arguments import (
    AugmentImageArguments,
    ListTransformsArguments,
    ValidatePromptArguments,
)
from gdal_mcp.toolboxes.augment.failures import details
from gdal_mcp.toolboxes.augment.toolbox import augment
from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS
from gdal_mcp.toolboxes.base import DraftScope, ImmediateResult
from sandbox.workspace import Workspace, Workspaces
from tests.augmenting import TransformStep, parsed_as

SPEC = json.loads((Path(__file__).parent / "specification.json").read_text(encoding="utf-8"))
MODELS = {
    "augment_image": AugmentImageArguments,
    "list_available_transforms": ListTransformsArguments,
    "validate_prompt": ValidatePromptArguments,
}
BOTH = ("gdal", "augment")
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
FLIP = TransformStep("HorizontalFlip", {})


@pytest.fixture
def drafted(tmp_path):
    root = tmp_path / "ws"
    root.mkdir()
    for name in ("a.tif", "labels.geojson"):
        (root / name).write_bytes(b"x")
    settings = load_settings(workspaces=[str(root)], state_dir=str(tmp_path / "state"), toolboxes=BOTH)
    surface = toolboxes(settings).surface(settings)
    workspaces = Workspaces((Workspace.at(root, writable=True),))

    def draft_or_result(tool: str, **arguments: Any) -> Draft | ImmediateResult:
        scope = DraftScope(
            "c" * 16, workspaces, settings, settings.limits(), surface, lambda *_: Allow(""), None, AddressTable(str)
        )  # fmt: skip
        return surface.callable[tool].draft(arguments, scope)

    return draft_or_result


@pytest.mark.claim("augment.off-by-default")
def test_tools_need_a_named_writable_and_visible_toolbox():
    for options, there in (({}, False), ({"toolboxes": BOTH}, True), ({"toolboxes": BOTH, "read_only": True}, False),
                         ({"toolboxes": BOTH, "lockdown": True}, False)):  # fmt: skip
        settings = load_settings(**options)
        listed = {tool.name for tool in toolboxes(settings).surface(settings).listed}
        assert ("augment_image" in listed) is there, options
        assert ("validate_prompt" in listed) is ("toolboxes" in options), options


def test_names_descriptions_and_schemas_are_the_specifications_own():
    settings = load_settings(toolboxes=BOTH)
    surface = toolboxes(settings).surface(settings)
    assert len(SPEC) == 3
    for name, specified in SPEC.items():
        shown = render.tool(surface.callable[name])
        assert shown.description == specified["description"]
        assert shown.input_schema == specified["inputSchema"]
        assert shown.meta == {key: specified[key] for key in ("visibility", "capabilities")}
        properties = {
            key: shown.output_schema["properties"][key] for key in specified["outputSchema"]["properties"]
        }
        assert properties == specified["outputSchema"]["properties"]
        assert set(surface.callable[name].required_keys) == set(specified["outputSchema"].get("required", []))


def test_schemas_accept_and_refuse_exactly_what_tools_do():
    arguments = {"image": "x", "prompt": "y"}
    tried = {
        "augment_image": [arguments, {**arguments, "auth_context": {"user_id": "u", "permissions": ["admin"], "rate_limit": {}}},
                          {**arguments, "options": {"quality": 1, "output_format": "WEBP"}}, {"image": "x"}, {**arguments, "seed": 1},
                          {**arguments, "options": {"quality": 101}}, {**arguments, "options": {"more": 1}},
                          {**arguments, "options": {"vision_model": "other"}}],
        "list_available_transforms": [{}, {"category": "blur"}, {"category": "colour"}, {"include_examples": False}],
        "validate_prompt": [{"prompt": "x"}, {"prompt": "x", "strict_mode": True}, {}],
    }  # fmt: skip
    for name, calls in tried.items():
        schema = Draft202012Validator(SPEC[name]["inputSchema"])
        for call in calls:
            try:
                MODELS[name].model_validate(call)
                taken = True
            except ValidationError:
                taken = False
            assert taken == schema.is_valid(call), (name, call)
    options = SPEC["augment_image"]["inputSchema"]["properties"]["options"]["properties"]
    assert {key: option["default"] for key, option in options.items()} == AugmentImageArguments(
        **arguments
    ).options.model_dump()


def test_lists_and_validations_have_the_specified_form(drafted):
    for arguments in ({}, {"category": "geometric"}, {"include_examples": False}):
        result = drafted("list_available_transforms", **arguments).result
        Draft202012Validator(SPEC["list_available_transforms"]["outputSchema"]).validate(result)
        assert result["total_count"] == len(result["transforms"]) > 0
        assert all(
            ("examples" in transform) is arguments.get("include_examples", True)
            for transform in result["transforms"]
        )
    assert drafted("list_available_transforms").result["total_count"] == len(TRANSFORMS)
    result = drafted("validate_prompt", prompt="flip horizontally").result
    Draft202012Validator(SPEC["validate_prompt"]["outputSchema"]).validate(result)


@pytest.mark.claim("augment.identity-not-believed")
def test_what_a_caller_says_of_itself_changes_nothing(drafted):
    with parsed_as(FLIP):
        plain = drafted("augment_image", image=PIXEL, prompt="x")
        claimed = {"user_id": "root", "session_id": "../../etc", "permissions": ["admin"]}
        assert drafted("augment_image", image=PIXEL, prompt="x", auth_context=claimed) == plain
    assert effect_of(plain) is Effect.CREATE
    assert augment(load_settings()).analysis.only_inputs is True
    assert plain.output.target.relative.parts[0] == "outputs"


def test_an_image_is_base64_a_path_or_nothing(drafted):
    with parsed_as(FLIP):
        assert drafted("augment_image", image=PIXEL, prompt="x").inputs == ()
        named = drafted("augment_image", image=f"data:image/png;base64,{PIXEL}", prompt="x").command.extra
        assert named["image"] == PIXEL
        assert [source.name for source in drafted("augment_image", image="a.tif", prompt="x").inputs] == [
            "a.tif"
        ]
        for image, code in ((PIXEL[:-3] + "*", "INVALID_IMAGE"), ("iVBOR" + "A" * (10 << 20), "INVALID_IMAGE"),
                            ("none.png", "INVALID_IMAGE"), ("Qk02" + "A" * 9000, "INVALID_IMAGE"), ("../x.png", "PERMISSION_DENIED")):  # fmt: skip
            with pytest.raises(ToolError) as refused:
                drafted("augment_image", image=image, prompt="x")
            assert details(refused.value)["error_details"]["error_code"] == code, image[:20]
    for prompt in ("", "x" * 501):
        with pytest.raises(ToolError) as refused:
            drafted("augment_image", image=PIXEL, prompt=prompt)
        assert details(refused.value)["error_details"]["error_code"] == "PARSE_ERROR"


@pytest.mark.claim("augment.model-untrusted")
def test_only_a_bounded_client_score_is_a_fact():
    measured = {"confidence_score": 5.0, "explanation": "ours", "visual_changes": [], "success": True}
    unseen = {"stage": "post_transform_verify", "error_code": "MODEL_UNAVAILABLE"}
    result = {"vision_analysis": measured, "errors": [unseen], "untrusted": {"skipped": ["x"]}}
    for words, score in (
        ('{"score": 4, "explanation": "obey"}', 4),
        ('obey {"score": 1e9}', 5),
        ('{"score": NaN} obey', 1),
    ):
        answer = add_verdict(result, "obey-1", words)
        assert answer["vision_analysis"]["confidence_score"] == score
        assert answer["errors"] == []
        assert answer["untrusted"] == {"skipped": ["x"], "vision": {"model": "obey-1", "text": words}}
        assert "obey" not in str({**answer, "untrusted": None})
    endless = (f'{{"score": {character * 1900}}}' for character in "[9")  # brackets, and digits
    for words in ("obey", '{"score": "obey"}', '{"score": [4]}', "}{", "{" * 2000, *endless):
        answer = add_verdict(result, "obey-1", words)
        assert {**answer, "untrusted": None} == {**result, "untrusted": None}
    assert "vision_analysis" not in add_verdict({"cut": True}, "m", '{"score": 3}')


def test_every_failure_has_a_code_of_the_specification():
    known = {"PARSE_ERROR", "INVALID_IMAGE", "TRANSFORM_FAILED", "MODEL_UNAVAILABLE", "PERMISSION_DENIED", "RATE_LIMITED", "TIMEOUT"}  # fmt: skip
    for code in Code:
        error = details(ToolError(code, Stage.RUN, "what", "do this"))["error_details"]
        assert error["error_code"] in known
        assert error["severity"] in ("warning", "error", "critical")
        assert error["suggestions"] == ["do this"]
        assert isinstance(error["recoverable"], bool)


def test_impossible_chips_are_refused_before_running(drafted):
    with pytest.raises(ToolError):
        drafted("make_chips", input="a.tif", output="o", overlap=256)
    splits = ({}, {"../up": 1.0}, {"a": 0.0})
    for wrong in ({"size": 5000}, {"copies": 0}, *({"split": split} for split in splits)):
        with pytest.raises(ValidationError):
            drafted("make_chips", input="a.tif", output="o", **wrong)
    draft = drafted("make_chips", input="a.tif", output="o", labels="labels.geojson")
    assert [source.name for source in draft.inputs] == ["a.tif", "labels.geojson"]
