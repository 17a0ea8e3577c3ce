"""Before a call, the question states what the arguments of an `augment` tool determine, and nothing else."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gdal_mcp.toolboxes.augment.arguments import AugmentDatasetArguments, MakeChipsArguments
from gdal_mcp.toolboxes.augment.drafts import augment_dataset, make_chips
from gdal_mcp.toolboxes.augment.expected import AugmentPreflight
from sandbox.workspace import Workspace, Workspaces


@pytest.fixture
def scope(tmp_path: Path) -> Any:
    (tmp_path / "ortho.tif").write_bytes(b"pixels")
    workspaces = Workspaces((Workspace.at(tmp_path, writable=True),))
    settings = SimpleNamespace(outputs_folder="outputs", result_size=100_000)
    parts = {"workspaces": workspaces, "settings": settings, "gateway": None, "remote": None}
    return cast("Any", SimpleNamespace(**parts, call_id="0123456789abcdef", as_new=""))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, {"GTiff", "256", "bands"}),
        ({"size": 16, "format": "PNG"}, {"PNG", "16"}),
        ({"size": 32, "prompt": "flip horizontally"}, {"GTiff", "32", "bands", "HorizontalFlip"}),
    ],
)
def test_chip_size_and_format_are_known_beforehand(scope: Any, arguments: dict[str, Any], words: set[str]):
    draft = make_chips(MakeChipsArguments(input="ortho.tif", output="chips", **arguments), scope)
    announced = set(AugmentPreflight().becomes(draft).replace(",", "").split())
    assert announced & {"GTiff", "PNG", "16", "32", "256", "bands", "HorizontalFlip"} == words


def test_nothing_is_predicted_of_what_a_prompt_decides(scope: Any):
    draft = augment_dataset(
        AugmentDatasetArguments(input="ortho.tif", output="more", prompt="flip horizontally"), scope
    )
    assert AugmentPreflight().becomes(draft) == ""
