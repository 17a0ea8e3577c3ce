"""Every view at the width of a phone and of a desktop, light and dark: stored as pictures, and measured."""

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.console import screens
from tests.e2e.console.kit import ARTEFACTS

pytestmark = pytest.mark.nightly

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESK: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
SIZES = {"390": PHONE, "1440": DESK}
# a view, and an element that exists once it is complete
VIEWS = {
    "approvals": ".danger .picture[data-state=shown]",
    "running": "#running article",
    "history": "#calls tbody tr",
    "call/failed": ".reported",
    "call/waiting": "a.button",
    "call/undone": "h1 .badge.going",
    "call/done": ".places",
    "workflow/w1": ".came.wrong",
    "files": "#main a",
    "files/%2Fsrv%2Fmaps": ".tile >> nth=1",
    "outputs": "#map img.leaflet-image-layer >> nth=1",
    "server": "#figures table",
}
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# words of a table that are broken over lines, although no word of these columns is long
BROKEN = """() => [...document.querySelectorAll("#calls td:not(:last-child)")].flatMap((cell) => {
  const text = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode();
  return [...text.data.matchAll(/\\S+/g)].filter((word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length > 1;
  }).map((word) => word[0]);
})"""


@pytest.mark.parametrize("width", SIZES)
def test_every_view_fits_the_screen(browser: Browser, width: str):
    for scheme in ("light", "dark"):
        with screens.shown(browser, color_scheme=scheme, **SIZES[width]) as opened:
            assert opened.page.locator("header").bounding_box()["height"] < 64
            for view, selector in VIEWS.items():
                opened.go(f"#/{view}")
                expect(opened.page.locator(selector).first).to_be_visible()
                expect(opened.page.locator("[data-act=deny]:disabled")).to_have_count(0)
                opened.shot(f"{view.replace('/', '-').replace('%2F', '_')}-{width}-{scheme}")
                assert opened.page.evaluate(WIDER) <= 0, view
                if view == "history":
                    assert opened.page.evaluate(BROKEN) == []
        with screens.shown(browser, signed_in=False, color_scheme=scheme, **SIZES[width]) as opened:
            expect(opened.page.locator(".way-in")).to_be_visible()
            opened.shot(f"sign-in-{width}-{scheme}")


def test_phone_shows_approval_buttons_without_covering_them(browser: Browser):
    with screens.shown(browser, **PHONE) as opened:
        opened.page.evaluate("window.tell(%r)" % screens.event("trouble", {"reason": "x " * 60}))
        expect(opened.page.locator(".toast")).to_be_visible()
        low = opened.page.locator(".toasts").bounding_box()
        for act in ("approve", "deny"):
            button = opened.page.locator(f"[data-id=q1] [data-act={act}]")
            expect(button).to_be_in_viewport(ratio=1)
            assert button.bounding_box()["y"] > low["y"] + low["height"]
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        opened.page.screenshot(path=ARTEFACTS / "approvals-390-screen.png")


def test_map_fits_and_names_its_data(browser: Browser):
    with screens.shown(browser, **DESK) as opened:
        page = opened.page
        opened.go("#/outputs")
        expect(page.locator("#map img.leaflet-image-layer")).to_have_count(2)
        width = page.locator("#map").bounding_box()["width"]
        boxes = [shape.bounding_box() for shape in page.locator("#map path.box").all()]
        assert max(box["x"] + box["width"] for box in boxes) - min(box["x"] for box in boxes) > width / 4
        # the picture of features is wider than their extent, because it has a margin; the picture of a raster is not
        raster, features = (
            page.locator("#map img.leaflet-image-layer").nth(at).bounding_box() for at in (0, 1)
        )
        assert abs(raster["width"] - boxes[0]["width"]) < 4 < features["width"] - boxes[1]["width"]
        page.locator("#map").hover(position={"x": 300, "y": 200})
        expect(page.locator("#position")).to_contain_text("48.")
        assert page.locator("#scale").bounding_box()["width"] > 20
        page.locator("#map path.box").nth(0).hover()
        expect(page.locator(".leaflet-tooltip")).to_have_text("warped.tif")
        page.locator(".tile .picture").first.click()
        expect(page.locator("dialog img")).to_be_visible()
        opened.shot("outputs-large-1440")
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)
        expect(page.locator(".tile .picture").first).to_be_focused()


def test_activity_shows_duration_and_links_its_question(browser: Browser):
    with screens.shown(browser, **DESK) as opened:
        opened.go("#/running")
        first = opened.page.locator("[data-id=r1] .left")
        expect(first).to_contain_text("20 %")
        assert "left" not in first.text_content()
        update = {"now": screens.NOW, "running": [screens.running("r1", fraction=0.6), screens.RUNNING[1]]}
        opened.page.evaluate("window.tell(%r)" % screens.event("running", update))
        expect(first).to_contain_text("left")
        expect(opened.page.locator("[data-id=r1]")).to_contain_text("warped.tif")
        opened.page.get_by_role("link", name="Decide").click()
        expect(opened.page.locator("article[data-id=q2]")).to_be_focused()


def test_approval_needs_command_and_warnings_seen(browser: Browser):
    with screens.shown(browser, viewport={"width": 390, "height": 420}) as opened:
        card = opened.page.locator("[data-id=q1]")
        approve, deny = card.locator("[data-act=approve]"), card.locator("[data-act=deny]")
        expect(deny).to_be_enabled()
        expect(card.locator("pre")).not_to_be_in_viewport(ratio=1)
        assert approve.is_disabled()
        assert all(button.is_disabled() for button in card.locator("[data-minutes]").all())
        card.get_by_role("button", name="Scroll down").click()
        expect(approve).to_be_enabled()
        expect(card.locator("pre")).to_be_in_viewport()
        expect(card.get_by_role("button", name="Scroll down")).to_be_hidden()
        assert all(button.is_enabled() for button in card.locator("[data-minutes]").all())
    with screens.shown(browser, **DESK) as opened:  # all of it fits
        expect(opened.page.locator("[data-id=q1] [data-act=approve]")).to_be_enabled()


def test_card_shows_effect_program_and_principal(browser: Browser):
    with screens.shown(browser, **DESK) as opened:
        destroys = opened.page.locator("[data-id=q2]")
        expect(destroys.locator("h2")).to_contain_text("Delete longlong")
        expect(destroys.locator("h2")).to_contain_text("2 files")
        expect(destroys.locator(".reason").first).to_contain_text(f"Claude Desktop 1.2, for {screens.WRITER}")
        red, plain = (
            opened.page.locator(f"[data-id={question}] [data-act=approve]").evaluate(
                "(one) => getComputedStyle(one).backgroundColor"
            )
            for question in ("q2", "q1")
        )
        assert red == destroys.locator("h2").evaluate("(one) => getComputedStyle(one).color") != plain


def test_history_is_grouped_filtered_and_explains_failed_code(browser: Browser):
    with screens.shown(browser, **DESK) as opened:
        opened.go("#/history")
        expect(opened.page.locator("#calls section h2")).to_have_count(1)
        offered = opened.page.locator("#outcome option").evaluate_all("(all) => all.map((one) => one.value)")
        assert set(offered) == {"", *screens.OUTCOMES}
        requested: list[str] = []
        opened.page.on(
            "request", lambda request: requested.append(request.url) if "api/calls" in request.url else None
        )
        with opened.page.expect_request(lambda request: "checks=1" in request.url):
            opened.page.locator("#checks").check()
        for name, text in (("code", "ZeroDivisionError"), ("transform", "sigma must be odd")):
            opened.go(f"#/call/{name}")
            expect(opened.page.locator(".reported")).to_contain_text(text)


def test_layers_of_the_map_are_shown_and_hidden(browser: Browser):
    with screens.shown(browser, **DESK) as opened:
        opened.go("#/outputs")
        expect(opened.page.locator("#map img.leaflet-image-layer")).to_have_count(2)
        opened.page.locator(".layer-list summary").click()
        switch = opened.page.locator("[data-layer='1'] input")
        switch.uncheck()
        expect(opened.page.locator("#map img.leaflet-image-layer")).to_have_count(1)
        opened.shot("outputs-layers-1440")
        switch.check()
        expect(opened.page.locator("#map img.leaflet-image-layer")).to_have_count(2)


def test_escape_closes_menu_and_waiting_is_announced_once(browser: Browser):
    with screens.shown(browser, **DESK) as opened:
        menu = opened.page.locator("details.menu")
        menu.locator("summary").click()
        expect(opened.page.locator("#theme")).to_be_visible()
        opened.page.keyboard.press("Escape")
        expect(opened.page.locator("#theme")).to_be_hidden()
        expect(menu.locator("summary")).to_be_focused()
        opened.go("#/running")
        text = opened.page.locator("[data-id=r2]").text_content()
        assert text.count("waiting for approval") == 1


def test_server_page_shows_approvers_and_unchecked_image(browser: Browser):
    with screens.shown(browser, **DESK) as opened:
        opened.go("#/server")
        facts = opened.page.locator("dl.facts").first
        expect(facts).to_contain_text("calls that write ask a person")
        expect(facts).to_contain_text(screens.SETUP["image"])
