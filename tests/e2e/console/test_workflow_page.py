"""A workflow on the console in a real browser: the steps with prediction, result and picture, and a new run from a
step.
"""

from collections import Counter
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.console.kit import Stage, Window

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

STEPS = [
    {"id": "warped", "tool": "reproject", "arguments": {"input": "dem.tif", "output": "w.tif", "dst_crs": "EPSG:3857"}},
    {"id": "shade", "tool": "raster_hillshade", "arguments": {"input": "${steps.warped}", "output": "s.tif"}},
    {"id": "other", "tool": "convert", "after": ["shade"], "arguments": {"input": "late.tif", "output": "o.tif"}},
]  # fmt: skip
WORKFLOW = {
    "workflow": 1,
    "name": "relief",
    "title": "Relief of a terrain model",
    "steps": STEPS,
    "outputs": {
        "relief": {"from": "${steps.shade}", "to": "relief.tif", "overwrite": True},
        "other": {"from": "${steps.other}", "to": "other.tif", "overwrite": True},
    },
}


def approve(shown: Window, stage: Stage) -> None:
    row = stage.pending("workflow_run")
    shown.go(f"#approval={row.id}")
    card = shown.page.locator(f'article.question[data-id="{row.id}"]')
    expect(card.locator(".question-steps li")).to_have_count(len(STEPS))
    expect(card.locator("[data-act=deny]")).to_be_enabled()
    # Approval is possible once all commands were on the screen. The button that scrolls there hides itself when they
    # are, which can be before it is clicked.
    card.locator(".seen-end").evaluate("(end) => end.scrollIntoView({ block: 'center' })")
    card.locator("[data-act=approve]").click()


def step(shown: Window, name: str) -> Any:
    return shown.page.locator(f'li.step[data-step="{name}"]')


def stands(shown: Window) -> dict[str, str]:
    rows = shown.page.locator("li.step")
    return dict(rows.evaluate_all("(all) => all.map((one) => [one.dataset.step, one.dataset.stands])"))


def started_calls(stage: Stage) -> Counter[str]:
    """The calls that started, without those that draw pictures."""
    tools = (event["tool"] for event in stage.place.audited if event["type"] == "call.started")
    return Counter(tool for tool in tools if tool != "preview")


def test_failed_workflow_shows_steps_and_restarts_from_one(stage: Stage, opened: Window):
    late = stage.place.path("late.tif")
    late.write_bytes(stage.place.path("dem.tif").read_bytes()[:500])  # GDAL cannot read it
    call = stage.talk.start("workflow_run", workflow=WORKFLOW)
    approve(opened, stage)
    assert call.result(120).structured_content["error"]["check"]["step"] == "other"
    opened.go("#/history")
    opened.page.locator("#calls tr", has_text="workflow_run").first.get_by_text("Steps").click()
    expect(step(opened, "other")).to_have_attribute("data-stands", "failed")
    expect(step(opened, "shade")).to_have_attribute("data-stands", "done")
    expect(step(opened, "warped").locator(".predicted")).to_contain_text("EPSG:3857")
    expect(step(opened, "warped").locator(".came")).to_contain_text("EPSG:3857")
    for name in ("warped", "shade"):
        step(opened, name).locator(".picture").scroll_into_view_if_needed()  # drawn once it is visible
        image = step(opened, name).locator("img")
        expect(image).to_be_visible()
        assert image.evaluate("(one) => one.naturalWidth") > 0
    assert not stage.place.path("relief.tif").exists()
    opened.shot("workflow-failed")

    late.write_bytes(stage.place.path("dem.tif").read_bytes())
    before = started_calls(stage)
    retry(opened, stage, "other")
    expect(step(opened, "other")).to_have_attribute("data-stands", "done")
    assert stands(opened) == {"warped": "reused", "shade": "reused", "other": "done"}
    assert started_calls(stage) - before == Counter({"workflow_run": 1, "convert": 1})
    assert stage.place.path("relief.tif").exists()
    assert stage.place.path("other.tif").exists()

    before = started_calls(stage)
    retry(opened, stage, "shade")
    assert stands(opened) == {"warped": "reused", "shade": "done", "other": "done"}
    assert started_calls(stage) - before == Counter({"workflow_run": 1, "gdal_write": 1, "convert": 1})
    opened.go("#/outputs")
    expect(opened.page.locator("#tiles[data-loaded]")).to_be_visible()
    assert opened.page.locator(".tile", has_text="w.tif").count() == 0  # results of steps are not outputs


def retry(shown: Window, stage: Stage, name: str) -> None:
    """Runs the workflow again from a step, approves it, and waits for its end."""
    first = shown.page.url
    for _ in range(2):
        step(shown, name).get_by_role("button").last.click()
    shown.page.wait_for_url(lambda url: url != first and "#/workflow/" in url)
    there = shown.page.url.partition("#")[2]
    approve(shown, stage)
    shown.go(f"#{there}")
    expect(shown.page.locator("h1 .badge")).to_have_text("OK")
