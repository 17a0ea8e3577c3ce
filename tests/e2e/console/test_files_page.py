"""Files of the workspaces on the console: a list with thumbnails, and the creation of a folder."""

import pytest
from playwright.sync_api import expect

from tests.e2e.console.kit import Stage, Window

pytestmark = [pytest.mark.nightly, pytest.mark.engine]


def test_a_person_browses_inputs_and_makes_a_folder(stage: Stage, opened: Window):
    root = stage.place.workspace
    (root / "inputs").mkdir()
    (root / "inputs" / "heights.tif").write_bytes(stage.place.path("dem.tif").read_bytes())
    opened.go("#/files")
    opened.page.locator("#main a", has_text=str(root)).click()
    opened.page.locator(".tile a", has_text="inputs").click()
    tile = opened.page.locator(f".tile[data-path='{root}/inputs/heights.tif']")
    expect(tile).to_contain_text("GTiff")
    expect(tile.locator("img")).to_be_visible()
    assert tile.locator("img").evaluate("(one) => one.naturalWidth") > 0
    opened.page.locator("#folder-name").fill("results")
    opened.page.get_by_role("button", name="Make").click()
    expect(opened.page.locator(".tile", has_text="results")).to_be_visible()
    opened.shot("files")
    assert (root / "inputs" / "results").is_dir()
    events = [event for event in stage.place.audited if event["type"] == "folder.started"]
    assert events[-1]["object"]["outputs"] == [f"{root}/inputs/results"]


def test_files_page_reaches_nothing_outside_the_workspaces(stage: Stage):
    person, outside = stage.enter(), stage.place.workspace.parent
    (stage.place.workspace / "way-out").symlink_to(outside)
    before = sorted(outside.iterdir())
    for path in (str(outside), "/etc", f"{stage.place.workspace}/..", f"{stage.place.workspace}/way-out"):
        assert person.get(f"api/files?path={path}").status_code == 409, path
        assert person.get(f"api/files/picture?path={path}/x.tif").status_code == 404, path
        assert person.post("api/folder", {"path": f"{path}/made"}).status_code == 409, path
    for path in (1, None, "", f"{stage.place.workspace}/dem.tif"):
        assert person.post("api/folder", {"path": path}).status_code in (400, 409), path
    assert sorted(outside.iterdir()) == before
    (stage.place.workspace / "way-out").unlink()
