"""A real server with its console, ways to sign in, browser windows and plain requests, and rows of recorded calls."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, Page

from gdal_mcp.approvals.model import Approval
from gdal_mcp.approvals.store import Approvals
from gdal_mcp.records.registry import Artifact, Call, Registry
from gdal_mcp.server.console import runtime_file
from gdal_mcp.server.console.sessions import new_login_token
from tests.e2e.cli.conftest import Ended, gdal_mcp
from tests.e2e.mcp.talk import Place, Talk
from tests.waiting import until

SECONDS = 60  # limit of waiting, far longer than any action takes
ARTEFACTS = Path(os.environ.get("TEST_ARTEFACTS", Path(__file__).parents[2] / ".artefacts"))
# the first thing that injected code would do
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@dataclass(frozen=True)
class Stage:
    """A server with a console, and a client that cannot ask its user, so its calls wait for the page."""

    place: Place
    talk: Talk

    def link(self) -> str:
        """An address that signs a person in, as printed by `gdal-mcp console`."""
        until(lambda: links(self.place.state))
        (link,) = links(self.place.state)
        return link

    @property
    def base(self) -> str:
        """The address of the console, without the code that signs in."""
        return self.link().partition("#")[0]

    def pending(self, tool: str = "") -> Approval:
        """The open question of this tool, as soon as there is one; questions that other tests left open are ignored."""
        with approvals(self.place) as store:

            def matching() -> list[Approval]:
                return [approval for approval in store.pending() if tool in ("", approval.tool)]

            until(lambda: len(matching()) == 1)
            return matching()[0]

    def enter(self) -> "Person":
        """A person who has signed in by a link."""
        return Person.by(self.base, {"ticket": self.link().partition("=")[2]})


def links(state: Path) -> list[str]:
    """Addresses that sign a person in, one for each console that has published its address."""
    consoles = runtime_file.running(state, lambda _server: True)
    return [
        f"{console.address}#ticket={new_login_token(console.secret, time.time())}" for console in consoles
    ]


def console(state: Path) -> Ended:
    """The output of `gdal-mcp console`: the link, as soon as there is a page."""
    return gdal_mcp("console", "--state-dir", str(state))


@dataclass(frozen=True)
class Person:
    """One session, by plain requests: both of its secrets."""

    base: str
    cookie: str
    key: str

    @classmethod
    def by(cls, base: str, credentials: dict[str, str]) -> "Person":
        response = plain("POST", f"{base}api/login", json=credentials, headers={"Origin": origin(base)})
        assert response.status_code == 200, response.text
        return cls(base, response.headers["set-cookie"].partition(";")[0], response.json()["key"])

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie, "X-Console-Key": self.key, "Origin": origin(self.base)}

    def get(self, path: str) -> httpx2.Response:
        return plain("GET", self.base + path, headers=self.headers)

    def post(self, path: str, body: Any = None) -> httpx2.Response:
        return plain("POST", self.base + path, json=body or {}, headers=self.headers)

    def first_event(self) -> str:
        """The data of the first event of the stream: the questions."""
        with (
            httpx2.Client(timeout=SECONDS, trust_env=False, verify=False) as http,
            http.stream("GET", f"{self.base}api/live", headers=self.headers) as reply,
        ):
            return next(line for line in reply.iter_lines() if line.startswith("data:"))


def plain(method: str, url: str, **options: Any) -> httpx2.Response:
    """One request with only the given headers. It loads no certificates, because it is plain HTTP on loopback."""
    with httpx2.Client(timeout=SECONDS, trust_env=False, verify=False) as client:
        return client.request(method, url, **options)


def origin(base: str) -> str:
    scheme, _, rest = base.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


@dataclass
class Window:
    """A browser window with the console, and records of everything that must not happen in it."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def go(self, hash_: str) -> None:
        self.page.evaluate("(hash) => { location.hash = hash; }", hash_)

    def shot(self, name: str) -> None:
        """Saves a screenshot."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        (ARTEFACTS / ".gitignore").write_text("*\n")
        before = self.page.viewport_size
        assert before is not None
        full_height = self.page.evaluate("document.documentElement.scrollHeight")
        # a window as high as the page: otherwise, parts that stick to its lower edge would cover the middle
        self.page.set_viewport_size({"width": before["width"], "height": max(before["height"], full_height)})
        self.page.screenshot(path=ARTEFACTS / f"{name}.png")
        self.page.set_viewport_size(before)

    def check(self) -> None:
        """Checks that no foreign script ran or tried to run."""
        assert [*self.wrong, *self.page.evaluate("window.violations")] == []


@contextmanager
def window(browser: Browser, link: str, **options: Any) -> Iterator[Window]:
    """A window with separate cookies and storage, in which the link was opened."""
    with browser.new_context(**options) as context:
        context.add_init_script(WATCH)
        page = context.new_page()
        opened = Window(page)
        page.on("dialog", lambda dialog: (opened.wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: opened.wrong.append(f"error {error}"))
        page.goto(link)
        page.locator("#link-state", has_text="live").wait_for()
        yield opened
        opened.check()


def open_question(place: Place, principal: str, *, ttl: float = 600.0, **more: object) -> Approval:
    """An open question of this principal."""
    details = {"sentence": f"{principal} wants convert to write a.tif.", "command": ["gdal", "convert"]}
    fields = {"tool": "convert", "summary": "?", "effect": "create", "details": details, **more}
    where = {"workspaces": (str(place.workspace),), "plan_digest": secrets.token_hex(32)}
    with approvals(place) as store:
        return store.request(Approval(principal=principal, **where, **fields), ttl)


@contextmanager
def approvals(place: Place) -> Iterator[Approvals]:
    with closing(Approvals(place.state / "registry.sqlite")) as store:
        yield store


def published(place: Place, principal: str, path: Path) -> tuple[Call, Artifact]:
    """A finished call of this principal, and its output at `path`."""
    argv = ("gdal", "convert", path.name)
    call = Call(secrets.token_hex(8), principal, "convert", {"output": path.name}, argv=argv)
    artifact = Artifact(path.as_uri(), str(path), path.name, 1, "image/tiff", secrets.token_hex(32))
    with closing(Registry(place.state / "registry.sqlite")) as registry:
        registry.begin_call(call)
        row = {"path": str(path), "kind": "dataset", "wgs84": [[15.0, 41.9, 15.1, 42.0]]}
        files = ({"path": str(path), "bytes": 1},)
        registry.finish_call(replace(call, outcome="OK", outputs=(row,), files=files))
        return call, registry.add_artifacts(call.id, [artifact])[0]
