"""The panel of a result in a chat, in a real browser, within a page that implements MCP Apps like a host."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.extension import advertise
from playwright.sync_api import Browser, Frame, Page, expect

from gdal_mcp.server.app import running
from gdal_mcp.server.mcp import panel
from gdal_mcp.server.mcp.server import build
from tests.e2e.console.conftest import sampled
from tests.e2e.console.kit import ARTEFACTS, WATCH
from tests.e2e.mcp.talk import ERAS, Person, Talk, settings_for

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

PUBLISHED = Path(__file__).parents[2] / "repo/distribution/schemas/ext-apps-2.0.4.json"
SCHEMAS = json.loads(PUBLISHED.read_text())["$defs"]
SENT = {
    "ui/initialize": "McpUiInitializeRequest",
    "ui/notifications/initialized": "McpUiInitializedNotification",
    "ui/notifications/size-changed": "McpUiSizeChangedNotification",
}
# what MCP Apps requires hosts to allow a panel that declares no origin
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'none'"
HOST = """<!doctype html><body><iframe sandbox="allow-scripts" style="width: 700px; height: 900px"></iframe><script>
const frame = document.querySelector("iframe");
window.heard = [];
window.tell = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
addEventListener("message", ({ source, data }) => {
  if (source !== frame.contentWindow) return;
  window.heard.push(data);
  if (data.method === "ui/initialize") window.tell({ id: data.id, result: { protocolVersion: "2026-01-26",
    hostInfo: { name: "tests", version: "1" }, hostCapabilities: {}, hostContext: { theme: "dark" } } });
});
</script>"""
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'><b>bold</b>"

CHECK = {"code": MARKUP, "message": MARKUP, "suggestion": MARKUP}


class Panel:
    """The panel in its host, and records of everything that must not happen."""

    def __init__(self, page: Page, frame: Frame) -> None:
        self.page, self.frame = page, frame

    def tell(self, method: str, **params: Any) -> None:
        message = {"method": f"ui/notifications/{method}", "params": params}
        name = "".join(part.title() for part in method.split("-"))
        jsonschema.validate(message, SCHEMAS[f"McpUi{name}Notification"])
        self.page.evaluate("(message) => tell(message)", message)

    def ask(self, method: str) -> dict[str, Any]:
        """The answer to a request of the host."""
        self.page.evaluate("(method) => tell({ id: `host-${method}`, method, params: {} })", method)
        got = self.page.wait_for_function("(id) => heard.find((one) => one.id === id)", arg=f"host-{method}")
        return got.json_value()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.page.evaluate("heard")

    def text(self) -> str:
        return self.frame.locator("main").inner_text()


@contextmanager
def hosted(browser: Browser, html: str) -> Iterator[Panel]:
    wrong: list[str] = []
    with browser.new_context() as context:
        context.add_init_script(WATCH)
        page = context.new_page()
        page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: wrong.append(f"error {error}"))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.route("**/*", lambda route: route.fulfill(body=HOST, headers={"Content-Type": "text/html", "Content-Security-Policy": POLICY}))  # fmt: skip
        requested: list[str] = []
        page.on(
            "request",
            lambda request: requested.append(request.url) if not request.url.startswith("data:") else None,
        )
        page.goto("http://host.test/")
        page.evaluate("(html) => { document.querySelector('iframe').srcdoc = html; }", html)
        page.wait_for_function("() => heard.some((one) => one.method === 'ui/notifications/initialized')")
        frame = page.frames[1]
        shown = Panel(page, frame)
        yield shown
        for message in shown.messages:
            if "method" in message:
                body = {name: message[name] for name in ("method", "params") if name in message}
                jsonschema.validate(body, SCHEMAS[SENT[message["method"]]])
        assert [*wrong, *frame.evaluate("window.violations")] == []
        assert [url for url in requested if url != "http://host.test/"] == []


@contextmanager
def client_of(app: Any, era: str, *, shows: bool) -> Iterator[Talk]:
    extensions = [advertise(panel.EXTENSION, {"mimeTypes": [panel.MEDIA_TYPE]})] if shows else None
    person = Person()
    with start_blocking_portal() as portal:
        client = Client(build(app), mode=era, elicitation_callback=person, extensions=extensions)
        with portal.wrap_async_context_manager(client):
            yield Talk(portal, client, person, app.settings.state_dir)


@pytest.fixture(scope="module")
def app(grounds: Path) -> Iterator[Any]:
    with running(settings_for(sampled(grounds / "panel").command())) as panel_app:
        yield panel_app


@pytest.fixture(scope="module")
def html(app: Any) -> str:
    with client_of(app, ERAS[1], shows=True) as talk:
        return talk.ask("read_resource", panel.URI).contents[0].text


def result_of(call: Any) -> dict[str, Any]:
    return call.model_dump(mode="json", by_alias=True, exclude_none=True)


def test_only_panel_clients_get_a_panel_others_pictures(app: Any):
    for era in ERAS:
        listed = {}
        for shows in (False, True):
            with client_of(app, era, shows=shows) as talk:
                tools = talk.ask("list_tools").tools
                listed[shows] = {tool.name: (tool.meta or {}).get("ui") for tool in tools}
                # what a model reads is the same
                plain = [tool.model_copy(update={"meta": None}) for tool in tools]
                assert plain == listed.setdefault("plain", plain)
                result = talk.call("preview", path="dem.tif")
                assert [part.mime_type for part in result.content if part.type == "image"] == ["image/png"]
        assert set(listed[False].values()) == {None}
        assert all(listed[True][name] for name in ("preview", "convert", "pipeline", "gdal_write"))
        assert not listed[True]["gdal_search"]
        for ui in filter(None, listed[True].values()):
            jsonschema.validate(ui, SCHEMAS["McpUiToolMeta"])
            with client_of(app, era, shows=True) as talk:
                [content] = talk.ask("read_resource", ui["resourceUri"]).contents
            assert content.mime_type == panel.MEDIA_TYPE
            jsonschema.validate(content.meta["ui"], SCHEMAS["McpUiResourceMeta"])
            assert not any(content.meta["ui"]["csp"].values())
            break


def test_panel_map_shows_result_extent_checks_and_approval(browser, app, html):
    with client_of(app, ERAS[1], shows=True) as talk, hosted(browser, html) as shown:
        arguments = {"input": "dem.tif", "output": "panel.tif", "dst_crs": "EPSG:3857"}
        arguments |= {"resampling": "nearest"}  # which a check concerns
        result = result_of(talk.call("reproject", **arguments))
        content = result["structuredContent"]
        shown.tell("tool-input", arguments=arguments)
        shown.tell("tool-result", **result)
        expect(shown.frame.locator("#map path.box")).to_have_count(1)
        expect(shown.frame.locator("#map img.leaflet-image-layer")).to_have_count(1)
        picture = shown.frame.locator(".picture img")
        assert picture.evaluate("async (image) => { await image.decode(); return image.naturalWidth; }") > 0
        [box] = [output["description"]["wgs84"] for output in content["outputs"]]
        text, place = shown.text(), ", ".join(f"{number:.4f}" for number in box)
        for expected in ("panel.tif", "EPSG:3857", place, content["receipt"]["approval"]):
            assert expected in text, expected
        codes = {check["code"] for check in (*content.get("checks", ()), *content["outputs"][0]["checks"])}
        assert codes
        assert {
            element.get_attribute("data-code") for element in shown.frame.locator(".check").all()
        } == codes
        assert shown.frame.evaluate("document.documentElement.dataset.theme") == "dark"
        sizes = [message for message in shown.messages if message.get("method", "").endswith("size-changed")]
        assert sizes[-1]["params"]["height"] > 500
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        shown.page.screenshot(path=ARTEFACTS / "panel.png", full_page=True)

        for path in ("dem.tif", "places.geojson"):
            shown.tell("tool-input", arguments={"path": path})
            shown.tell("tool-result", **result_of(talk.call("preview", path=path)))
            expect(shown.frame.locator(f"[data-output='{path}']")).to_be_visible()
            expect(shown.frame.locator("#map path.box")).to_have_count(1)

        talk.person.action = "decline"
        refused = result_of(talk.call("reproject", **{**arguments, "output": "never.tif"}))
        shown.tell("tool-result", **refused)
        expect(shown.frame.locator("#state")).to_contain_text(refused["structuredContent"]["error"]["code"])
        expect(shown.frame.locator("#map")).to_have_count(0)


def hostile() -> dict[str, Any]:
    crs = {"code": MARKUP, "kind": MARKUP}
    facts = {"driver": MARKUP, "size": [MARKUP, 2], "crs": crs, "wgs84": [15, 42, 16, 43], "layers": [None, MARKUP, {"features": MARKUP}]}  # fmt: skip
    row = {"path": f"/maps/{MARKUP}", "description": facts, "checks": [CHECK, None, MARKUP]}
    content = {
        "outputs": [row, None, 7],
        "checks": [CHECK],
        "receipt": {"approval": MARKUP, "call_id": MARKUP, "tier": MARKUP, "seconds": MARKUP},
        "untrusted": {"names": "SECRET-NAME"},
        "__proto__": {"polluted": True},
    }
    pictures = [
        {"type": "image", "mimeType": "image/png", "data": data}
        for data in ('"><script>alert(3)</script>', "x,y")
    ]
    return {"content": [{"type": "text", "text": MARKUP}, *pictures], "structuredContent": content}


@pytest.mark.claim("console.panel-reaches-nothing")
def test_result_texts_never_become_markup_in_panel(browser: Browser, html: str):
    with hosted(browser, html) as shown:
        shown.tell("tool-result", **hostile())
        expect(shown.frame.locator(".check")).to_have_count(2)
        assert shown.text().count("<b>bold</b>") > 5
        assert shown.frame.locator("main b, main script, .picture img").count() == 0
        assert "SECRET-NAME" not in shown.text()
        error = {**CHECK, "requiresConfirmation": {"x": MARKUP}}
        for odd in ({"error": error}, {"outputs": MARKUP}, {"outputs": [{"description": {"wgs84": [1, 2, 3, "4"]}}]}, {"shown": MARKUP}, {"receipt": 3}, {}):  # fmt: skip
            shown.tell("tool-result", content=[], structuredContent=odd)
        shown.tell("tool-result", content=[])
        shown.tell("tool-cancelled", reason=MARKUP)
        expect(shown.frame.locator("main")).to_contain_text("cancelled")
        assert shown.frame.locator("main b").count() == 0


@pytest.mark.claim("console.panel-reaches-nothing")
def test_panel_communicates_only_with_its_host(browser: Browser, html: str):
    with hosted(browser, html) as shown:
        assert shown.ask("ui/resource-teardown")["result"] == {}
        assert shown.ask("ping")["result"] == {}
        assert shown.ask("tools/call")["error"]["code"] == -32601
        before = shown.text()
        message = {"jsonrpc": "2.0", "method": "ui/notifications/tool-cancelled", "params": {}}
        done = "(message) => new Promise((done) => { addEventListener('message', () => done()); postMessage(message, '*'); })"
        shown.frame.evaluate(done, message)
        assert shown.text() == before


@pytest.mark.claim("console.panel-reaches-nothing")
def test_page_policy_is_stricter_than_its_host(browser: Browser, html: str):
    injected = html.replace(
        "</body>", "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'></body>"
    )
    assert injected != html
    markup = "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done'; } catch { return 'refused'; } })()"
    outcomes = []
    stopped = pytest.raises(AssertionError, match="script-src")  # the violation was also reported
    with stopped, hosted(browser, injected) as shown:
        outcomes += [shown.frame.evaluate("window.broken"), shown.frame.evaluate(markup)]
    assert outcomes == [None, "refused"]
