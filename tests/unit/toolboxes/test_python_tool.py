"""The toolbox `python` without an engine: when the tool exists, and how its arguments are used."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft, effect_of
from gdal_mcp.policy.policy import Allow, Policy, RequireApproval, case, decide
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import SettingsError, load_settings
from gdal_mcp.toolboxes.base import DraftScope
from gdal_mcp.toolboxes.python.tool import PYTHON_IMAGE, SHOWN
from sandbox.workspace import Workspace, Workspaces

BOTH = ("gdal", "python")


@pytest.fixture
def drafted(tmp_path):
    """`drafted(code, **arguments)` is the draft of a call."""
    root = tmp_path / "ws"
    root.mkdir()
    for name in ("in.txt", "old.csv"):
        (root / name).write_text("x")
    settings = load_settings(workspaces=[str(root)], state_dir=str(tmp_path / "state"), toolboxes=BOTH)
    surface = toolboxes(settings).surface(settings)
    workspaces = Workspaces((Workspace.at(root, writable=True),))

    def python_draft(code: str = "1", **arguments: Any) -> Draft:
        about = ("c" * 16, workspaces, settings, settings.limits(), surface)
        scope = DraftScope(*about, lambda *_: Allow(""), None, None)
        draft = surface.callable["run_python"].draft({"code": code, **arguments}, scope)
        assert isinstance(draft, Draft)
        return draft

    return python_draft


@pytest.mark.claim("python.off-by-default")
def test_code_tool_needs_its_toolbox_and_writable_server():
    for options, there in (({}, False), ({"toolboxes": BOTH}, True), ({"toolboxes": BOTH, "read_only": True}, False),
                         ({"toolsets": ["all"]}, False)):  # fmt: skip
        settings = load_settings(**options)
        surface = toolboxes(settings).surface(settings)
        assert ("run_python" in surface.callable) is there, options
        assert ("run_python" in {tool.name for tool in surface.listed}) is there, options


def test_missing_toolboxes_or_missing_gdal_are_refused():
    for names in (["gdal", "perl"], ["python"]):
        with pytest.raises(SettingsError):
            toolboxes(load_settings(toolboxes=names))


def test_approval_covers_code_arguments_and_files(drafted):
    first = drafted("1")
    assert drafted("2").command != first.command
    assert drafted("1", arguments={"a": 1}).command != first.command
    assert drafted("1", inputs=["in.txt"]).inputs != first.inputs
    assert drafted("1").command == first.command
    assert json.dumps(dict(first.command.extra))


def test_output_kind_follows_name_and_may_replace_files(drafted):
    draft = drafted(outputs=["a.tif", "old.csv", "folder/", "c.npy"])
    assert [output.kind for output in draft.outputs] == ["dataset", "table", "folder", "array"]
    assert [path.name for path in draft.outputs[1].replaces] == ["old.csv"]


def test_code_timeout_leaves_time_for_the_worker(drafted):
    assert drafted().command.extra["seconds"] < 120
    assert drafted(timeout=1e6).command.extra["seconds"] == drafted().command.extra["seconds"]
    assert drafted(timeout=2).command.extra["seconds"] == 2


def test_unrunnable_or_unpublishable_combination_is_refused(drafted):
    for code in ("", " \n", "a\0b", "x" * (65 << 10), "'\ud800'", "1\n" * 2000):
        with pytest.raises(ValidationError):
            drafted(code)
    for outputs, inputs in ((["a.tif", "sub/a.tif"], []), ([], ["../in.txt"]), (["in.txt"], ["in.txt"])):
        with pytest.raises(ToolError):
            drafted(outputs=outputs, inputs=inputs)


@pytest.mark.claim("approval.code-asked")
def test_code_needs_approval_in_every_mode(drafted):
    for draft in (drafted(), drafted(outputs=["a.tif"])):
        request = case(draft, "run_python", "ann")
        for mode in ("writes", "always", "never"):
            verdict = decide(request, Policy(mode))
            assert isinstance(verdict, RequireApproval)
            assert not verdict.grantable
        assert request.effects == {effect_of(draft), "code"}
        assert replace(request, code=False).effects == {effect_of(draft)}


def test_the_description_names_every_package_with_its_version():
    text = toolboxes(load_settings(toolboxes=BOTH)).items[1].tools["run_python"].description
    assert all(f"{name} {PYTHON_IMAGE.locked[name]}" in text for name in SHOWN)
