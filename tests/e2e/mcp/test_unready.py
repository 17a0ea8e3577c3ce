"""If something that a server needs is missing, each call reports it, and service resumes when it is back."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.mcp.pipes import piped
from tests.e2e.mcp.talk import EITHER_ERA, SERVE, Place

pytestmark = pytest.mark.engine


def test_vanished_workspace_is_reported_and_can_return(make_place: Callable[..., Place], grounds: Path):
    place = make_place("rgb.tif")
    with piped(place.command("--approval", "never"), grounds / "unready.log") as pipes:
        pipes.hello()
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")
        away = place.workspace.with_name("away")
        shutil.move(place.workspace, away)
        for tool, arguments in (
            ("info", {"path": "rgb.tif"}),
            ("gdal_translate", {"src_dataset": "rgb.tif"}),
        ):
            assert pipes.call(tool, arguments)["structuredContent"]["error"]["code"] == "NOT_FOUND"
        shutil.move(away, place.workspace)
        assert not pipes.call("info", {"path": "rgb.tif"}).get("isError")


@pytest.mark.parametrize("era", EITHER_ERA)
def test_server_that_cannot_start_explains_why(grounds: Path, era: str):
    gone, state = str(grounds / "gone"), ["--state-dir", str(grounds / "state")]
    for words, named in (
        (["--workspace", gone], gone),
        ([], "--workspace"),
        (["--memory", "none"], "memory"),
    ):
        with piped([*SERVE, *state, *words], grounds / "unready.log", era=era) as pipes:
            assert named in pipes.hello().get("instructions", named)
            assert any(tool["name"] == "info" for tool in pipes.ask("tools/list")["result"]["tools"])
            error = pipes.call("info", {"path": "rgb.tif"})["structuredContent"]["error"]
            assert named in error["message"]
    assert not Path(gone).exists()
