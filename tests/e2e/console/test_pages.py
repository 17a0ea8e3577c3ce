"""A person with a real browser: decisions on the page take effect, and the page shows texts only as text."""

import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from gdal_mcp.approvals.code import describe_code
from gdal_mcp.errors import Code
from gdal_mcp.records.registry import Artifact, Call, Registry
from gdal_mcp.server.app import local_user
from tests.e2e.console.kit import Stage, Window, approvals, open_question, published, window
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'><b>bold</b>"
SLOW = {"dst_crs": "EPSG:3857", "size": [20_000, 20_000], "resampling": "lanczos"}


def card(shown: Window, approval_id: str) -> Locator:
    return shown.page.locator(f'article.question[data-id="{approval_id}"]')


def act(shown: Window, approval_id: str, what: str) -> None:
    card(shown, approval_id).locator(f"[data-act={what}]").click()


def at_once(buttons: list[Locator]) -> None:
    """Clicks them at one moment, a second from now."""
    for button in buttons:
        expect(button).to_be_enabled()
    moment = time.time() * 1000 + 1000
    for button in buttons:
        button.evaluate("(button, at) => { setTimeout(() => button.click(), at - Date.now()); }", moment)


@pytest.fixture
def second(browser: Browser, stage: Stage) -> Iterator[Window]:
    """Another window of the same person."""
    with window(browser, stage.link()) as other_window:
        yield other_window


def test_approved_call_runs_and_its_output_is_undoable(stage, opened):
    call = stage.talk.start("convert", input="dem.tif", output="yes.tif")
    row = stage.pending()
    expect(card(opened, row.id)).to_contain_text(str(stage.place.path("yes.tif")))
    opened.shot("question")
    act(opened, row.id, "approve")
    result = call.result(60)
    assert not result.is_error, result.structured_content
    receipt = result.structured_content["receipt"]
    assert local_user().id in receipt["approval"]
    check_map_and_download(stage, opened)
    undone(stage, opened, receipt["call_id"])


def check_map_and_download(stage: Stage, opened: Window) -> None:
    opened.go("#/outputs")
    tile = opened.page.locator(".tile", has_text="yes.tif")
    expect(tile.locator("img")).to_be_visible()
    assert tile.locator("img").evaluate("(image) => image.naturalWidth") > 0
    tile.get_by_text("Show on map").click()
    assert opened.page.locator("#map path.box").count() > 0
    outputs = stage.enter().get("api/outputs").json()["outputs"]
    (box,) = next(output["wgs84"] for output in outputs if output["name"] == "yes.tif")
    assert box == pytest.approx([15.0, 41.9957, 15.0087, 42.0], abs=0.001)  # as the call described its output
    opened.shot("outputs")
    with opened.page.expect_download() as fetched:
        tile.locator("[data-act=download]").click()
    assert Path(fetched.value.path()).read_bytes() == stage.place.path("yes.tif").read_bytes()
    assert fetched.value.suggested_filename == "yes.tif"


def undone(stage: Stage, opened: Window, call_id: str) -> None:
    opened.go(f"#/call/{call_id}")
    button = opened.page.locator("button.careful")
    button.click()
    opened.shot("call")
    assert stage.place.path("yes.tif").exists()
    button.click()
    until(lambda: not stage.place.path("yes.tif").exists())
    expect(opened.page.locator("button.careful")).to_have_count(0)
    events = [event["type"] for event in stage.place.audited if event.get("call") == call_id]
    assert events[-2:] == ["undo.started", "undo.finished"]


def test_denied_call_never_runs_and_replacements_are_highlighted(stage: Stage, opened: Window):
    target = stage.place.path("kept.tif")
    target.write_bytes(stage.place.path("dem.tif").read_bytes())
    before = target.read_bytes()
    replacing = {"output": "kept.tif", "overwrite": True, "output_format": "COG"}
    call = stage.talk.start("convert", input="dem.tif", **replacing)
    row = stage.pending()
    expect(card(opened, row.id).locator(".danger")).to_contain_text(str(target))
    opened.shot("replaces")
    act(opened, row.id, "deny")
    assert call.result(60).structured_content["error"]["code"] == "DENIED"
    assert target.read_bytes() == before


def test_expired_question_cannot_be_answered(stage: Stage, opened: Window):
    row = open_question(stage.place, local_user().id, ttl=6)
    buttons = card(opened, row.id).locator("[data-act]")
    expect(buttons).to_have_count(2)
    expect(buttons).to_have_count(0, timeout=20_000)
    late = stage.enter().post(f"api/decide/{row.id}", {"approved": True}).json()
    assert (late["state"], late["yours"]) == ("expired", False)


def test_first_of_two_simultaneous_windows_decides(stage, opened, second):
    row = open_question(stage.place, local_user().id)
    windows = (opened, second)
    at_once([card(view, row.id).locator("[data-act=approve]") for view in windows])
    for view in windows:
        expect(card(view, row.id).locator(".verdict")).to_be_visible()
    with approvals(stage.place) as store:
        after = store.get(row.id)
        store.end(row.id, store.get(row.id).holder)
    assert after.state == "released"  # no call waits for the approval
    assert [view.page.locator(".verdict").text_content().count(after.decided_how) for view in windows] == [
        1,
        1,
    ]
    until(lambda: sum(view.page.locator(".toast.bad").count() for view in windows) == 1)


def test_temporary_grant_admits_calls_until_revoked(stage: Stage, opened: Window):
    first = stage.talk.start("convert", input="dem.tif", output="granted-1.tif")
    row = stage.pending()
    expect(card(opened, row.id).locator("[data-act=approve]")).to_be_enabled()
    card(opened, row.id).locator(".grant summary").click()
    card(opened, row.id).locator("[data-minutes='15']").click()
    assert not first.result(60).is_error
    assert not stage.talk.call("convert", input="dem.tif", output="granted-2.tif").is_error
    opened.go("#/server")
    revoke = opened.page.locator("#grants button")
    revoke.click()
    revoke.click()
    expect(opened.page.locator("#grants")).to_contain_text("revoked")
    third = stage.talk.start("convert", input="dem.tif", output="granted-3.tif")
    row = stage.pending()
    opened.go("#/approvals")
    act(opened, row.id, "deny")
    assert third.result(60).is_error


def test_cancelled_running_call_leaves_no_container(stage, opened, containers):
    call = stage.talk.start("reproject", input="dem.tif", output="long.tif", **SLOW)
    row = stage.pending()
    act(opened, row.id, "approve")
    until(lambda: containers.of_owners(stage.place.owners) == [row.call_id])
    opened.go("#/running")
    running = opened.page.locator(f'#running [data-id="{row.call_id}"]')
    expect(running).to_contain_text("running")
    opened.shot("running")
    running.locator("[data-act=cancel]").click()
    assert call.result(60).structured_content["error"]["code"] == "CANCELLED"
    assert containers.none_of(stage.place.owners)
    expect(running).to_have_count(0)
    assert not stage.place.path("long.tif").exists()
    assert stage.place.staged == []


def listed(**row: object) -> dict[str, object]:
    """A list of one row, in the form that a question contains."""
    return {"shown": [row], "more": 0}


@pytest.mark.claim("console.text-is-text")
def test_call_and_file_texts_are_displayed_as_text(stage: Stage, opened: Window):
    path = stage.place.path(MARKUP.replace("/", "\u2215"))
    path.write_bytes(b"x")
    user = local_user().id
    call, _ = published(stage.place, user, path)
    parts = listed(path=MARKUP, bytes=1, modified=0, kind=MARKUP)
    details = {
        "sentence": MARKUP,
        "reason": MARKUP,
        "tool": MARKUP,
        "command": ["gdal", MARKUP],
        "reads": listed(path=MARKUP, bytes=1),
        "writes": listed(path=MARKUP, changes=False, replaces=parts, may_replace=parts),
        "removes": parts,
        "moves": listed(**{"from": MARKUP, "to": MARKUP}),
    }
    row = open_question(stage.place, user, details=details, tool=MARKUP)
    expect(card(opened, row.id).locator("h2")).to_have_text(MARKUP)
    expect(card(opened, row.id).locator(".danger")).to_contain_text(MARKUP)
    nothing_injected(opened)
    opened.shot("hostile")
    assert stage.talk.call("convert", input=MARKUP, output=MARKUP).is_error
    views = {
        "history": "<img src=x",
        "outputs": "<script>",
        f"call/{call.id}": "<script>",
        "server": "Figures",
    }
    for view, text in views.items():
        opened.go(f"#/{view}")
        expect(opened.page.locator("main")).to_contain_text(text)
        nothing_injected(opened)
    with approvals(stage.place) as store:
        store.end(row.id, store.get(row.id).holder)


def nothing_injected(opened: Window) -> None:
    script = "document.querySelectorAll('main script, main b, main img[src=x], main [onerror], main iframe').length"
    assert opened.page.evaluate(script) == 0


ATTEMPTS = (
    "document.body.innerHTML = '<b>x</b>'",
    "document.body.setAttribute('onclick', 'window.broken = 1')",
    "document.createElement('script').src = 'https://evil.example/x.js'",
    "document.createElement('script').text = 'window.broken = 1'",
    "window.eval('window.broken = 1')",
    "new Function('window.broken = 1')()",
)
# later, because the driver's own evaluation may do what a page may not
LATER = "() => new Promise((done) => setTimeout(() => { try { %s; done('done'); } catch { done('refused'); } }, 0))"


@pytest.mark.claim("console.text-is-text")
def test_browser_policy_stops_script_despite_a_page_fault(browser: Browser, stage: Stage):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(stage.base)
        expect(page.locator("main")).to_contain_text("gdal-mcp console")
        assert {attempt: page.evaluate(LATER % attempt) for attempt in ATTEMPTS} == dict.fromkeys(
            ATTEMPTS, "refused"
        )
        assert page.evaluate("window.broken === undefined")


def test_everything_can_be_decided_with_the_keyboard_alone(stage: Stage, opened: Window):
    row = open_question(stage.place, local_user().id)
    expect(card(opened, row.id).locator("[data-act=approve]")).to_be_enabled()
    for _ in range(40):
        opened.page.keyboard.press("Tab")
        focused = "document.activeElement.dataset.act === 'approve'"
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert opened.page.evaluate(style) != "none"  # the focus is visible
        if opened.page.evaluate(focused):
            break
    opened.page.keyboard.press("Enter")
    expect(card(opened, row.id).locator(".verdict")).to_contain_text("Approved")
    with approvals(stage.place) as store:
        assert store.get(row.id).state == "released"
        store.end(row.id, store.get(row.id).holder)


def test_a_new_question_is_announced(stage: Stage, opened: Window):
    opened.go("#/history")
    row = open_question(stage.place, local_user().id)
    announcer = opened.page.locator("#announcer")
    expect(announcer).to_have_attribute("aria-live", "polite")
    expect(announcer).to_contain_text(row.details["sentence"])
    expect(opened.page).to_have_title("(1) GDAL console")
    opened.go(f"#approval={row.id}")
    expect(card(opened, row.id)).to_be_focused()
    with approvals(stage.place) as store:
        store.end(row.id, store.get(row.id).holder)


def test_colour_scheme_follows_system_and_switch(browser: Browser, stage: Stage):
    ground = "getComputedStyle(document.body).backgroundColor"
    colours = {}
    for scheme in ("light", "dark"):
        with window(browser, stage.link(), color_scheme=scheme) as shown:
            colours[scheme] = shown.page.evaluate(ground)
            shown.shot(f"approvals-{scheme}")
            shown.page.locator(".menu summary").click()
            switch = shown.page.locator("#theme")
            switch.click()
            light = shown.page.evaluate(ground)
            switch.click()
            assert light == colours["light"]
            assert shown.page.evaluate(ground) == colours.get("dark", shown.page.evaluate(ground))
            shown.page.reload()
            assert shown.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert colours["light"] != colours["dark"]


def test_page_without_access_explains_how_to_get_it(browser: Browser, stage: Stage):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{stage.base}#approval=abc")
        expect(page.locator("main")).to_contain_text("gdal-mcp console")
        page.goto(f"{stage.base}#ticket=9999999999.{'a' * 22}.{'0' * 64}")
        expect(page.locator("main")).to_contain_text("gdal-mcp console")
        assert "ticket" not in page.url


def test_administrator_sees_verified_audit_log_and_host_check(opened: Window):
    opened.go("#/server")
    opened.page.locator("[data-act=verify]").click()
    expect(opened.page.locator("#audit-verdict")).to_have_class("good-text")
    opened.page.locator("[data-act=doctor]").click()
    expect(opened.page.locator("#doctor tbody tr").first).to_be_visible(timeout=60_000)
    assert "attestation" in opened.page.locator("#doctor").text_content()
    opened.shot("server")


def test_code_is_displayed_fully_with_colours_and_changes(stage, opened):
    code = f"import os  # {MARKUP}\nx = 1\n" + "\n".join(f"y{number} = {number}" for number in range(300))
    details = {
        "sentence": "ann asks to run code.",
        "code": describe_code(code, code.replace("x = 1", "x = 2")),
    }
    row = open_question(stage.place, local_user().id, details=details, tool="run_python")
    shown = card(opened, row.id)
    expect(shown.locator("ol.source li")).to_have_count(302)
    assert shown.locator("ol.source li").all_text_contents() == code.split("\n")
    expect(shown.locator(".code-keyword").first).to_have_text("import")
    expect(shown.locator(".code-comment")).to_have_text(f"# {MARKUP}")
    expect(shown.locator(".code-removed")).to_have_text("-x = 2\n")
    expect(shown.locator("details.grant")).to_have_count(0)
    opened.shot("code")


def test_outputs_with_one_stem_both_appear_in_gallery(
    stage,
):
    place, me = stage.place, stage.enter()
    paths = [place.workspace / name for name in ("same.tif", "same.gpkg")]
    for path in paths:
        path.write_bytes(b"x")
    call = Call(secrets.token_hex(8), "local:other", "convert", {})
    check = Call(secrets.token_hex(8), "local:other", "validate_call", {}, argv=("gdal", "same.tif"))
    with closing(Registry(place.state / "registry.sqlite")) as registry:
        for recorded in (call, check):
            registry.begin_call(recorded)
        rows = tuple({"path": str(path), "kind": "dataset"} for path in paths)
        registry.finish_call(replace(call, outcome="OK", outputs=rows))
        registry.finish_call(replace(check, outcome="OK"))
        artifacts = [
            Artifact(path.as_uri(), str(path), path.name, 1, "image/tiff", secrets.token_hex(32))
            for path in paths
        ]
        registry.add_artifacts(call.id, artifacts)
    shown = {output["path"] for output in me.get("api/outputs").json()["outputs"]}
    assert {str(path) for path in paths} <= shown
    plain = {row["id"] for row in me.get("api/calls").json()["calls"]}
    with_checks = {row["id"] for row in me.get("api/calls?checks=1").json()["calls"]}
    assert call.id in plain & with_checks
    assert check.id in with_checks - plain
    about = me.get("api/me").json()
    assert about["approval"] == "writes"
    assert about["image"]
    assert {"OK", "WAITING", *map(str, Code)} == set(about["outcomes"])


def test_history_search_continues_until_results_or_the_end(opened: Window):
    asked_for: list[str] = []
    pages = {
        "": {"calls": [], "next": "7"},
        "7": {"calls": [], "next": "3"},
        "3": {"calls": [], "next": None},
    }

    def answer(route: Route) -> None:
        cursor = parse_qs(urlsplit(route.request.url).query).get("cursor", [""])[0]
        asked_for.append(cursor)
        route.fulfill(json=pages[cursor])

    opened.page.route("**/api/calls?*", answer)
    opened.go("#/history")
    expect(opened.page.locator("#calls .empty")).to_be_visible()
    assert asked_for == ["", "7", "3"]
