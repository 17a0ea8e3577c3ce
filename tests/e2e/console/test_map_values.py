"""The console's map explains its colours, and shows the value of a raster at a click."""

import re

import pytest
from playwright.sync_api import expect

from gdal_mcp.testing.samples import elevation
from tests.e2e.console.kit import Stage, Window

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

COLUMNS, ROWS = 24, 16  # of `dem.tif`
# true after the output was at the same place of the window for twenty frames, because the map moves to it for a while
STILL = """() => {
    const box = document.querySelector("#map path.box").getBoundingClientRect();
    const place = [box.x, box.y, box.width, box.height].join();
    window.framesStill = window.lastPlace === place ? window.framesStill + 1 : 0;
    window.lastPlace = place;
    return window.framesStill > 20;
}"""


def publish(stage: Stage, name: str) -> int:
    """Converts `dem.tif`; the number of the output."""
    call, person = stage.talk.start("convert", input="dem.tif", output=name), stage.enter()
    assert person.post(f"api/decide/{stage.pending().id}", {"approved": True}).status_code == 200
    assert not call.result(60).is_error
    outputs = person.get("api/outputs").json()["outputs"]
    return next(output["id"] for output in outputs if output["name"] == name)


def test_map_has_legend_and_value_at_click(stage: Stage, opened: Window):
    number = publish(stage, "values.tif")
    opened.go("#/outputs")
    opened.page.locator(".layer-list summary").click()
    others = opened.page.locator(f"[data-layer]:not([data-layer='{number}']) input")
    for other in others.all():  # of other tests
        other.uncheck()
    tile = opened.page.locator(f".tile[data-number='{number}']")
    tile.get_by_role("button", name=re.compile("on the map")).click()
    expect(opened.page.locator("#map path.box.draped")).to_have_count(1)
    legend = opened.page.locator(".layer", has=opened.page.locator(f"[data-layer='{number}']")).locator(
        ".legend"
    )
    expect(legend).to_contain_text("Band 1")
    low, high = (float(legend.locator(selector).inner_text()) for selector in (".low", ".high"))
    values = [elevation(column, row) for column in range(COLUMNS) for row in range(ROWS)]
    assert 0 < low < high <= max(values)
    opened.page.locator("#identify").click()
    for column, row in ((5, 3), (20, 12)):
        opened.page.wait_for_function(STILL)
        box = opened.page.locator("#map path.box").bounding_box()
        at = (
            box["x"] + box["width"] * (column + 0.5) / COLUMNS,
            box["y"] + box["height"] * (row + 0.5) / ROWS,
        )
        opened.page.mouse.click(*at)
        expect(opened.page.locator("#values")).to_have_text(re.compile(rf": {elevation(column, row)}$"))
    opened.shot("map-values")


def test_invalid_or_empty_map_position_has_no_value(stage: Stage):
    number, person = publish(stage, "outside.tif"), stage.enter()
    for position, status in (([0, 0], 404), ([181, 0], 400), ("0,0", 400), ([1], 400), (None, 400)):
        assert person.post(f"api/values/{number}", {"position": position}).status_code == status, position
    assert person.post("api/values/999999", {"position": [0, 0]}).status_code == 404
