"""The console with many records: from the address to a history that can be read and searched, in a real browser."""

import secrets
import shutil
import statistics
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from bench.arena import Arena, NotMeasurable
from bench.clients import BareClient
from bench.report import Goal, Section, milliseconds
from gdal_mcp.app import local_user
from gdal_mcp.console import runtime_file
from gdal_mcp.console.login_tokens import new_login_token
from gdal_mcp.ledger.registry import Call
from gdal_mcp.ledger.rows import insert
from gdal_mcp.ledger.schema import connect

GOAL = 1.0  # seconds
RECORDS = 10_000
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_TOOLS = ("convert", "info", "reproject", "raster_hillshade", "vector_filter")
_WAIT_SECONDS = 30.0


def measure(arena: Arena, rounds: int) -> tuple[Section, ...]:
    """Raises NotMeasurable without a browser or its driver."""
    own = replace(arena, state=arena.state / "console").serving("--console", "on")
    fill(own.state / "server" / "registry.sqlite", RECORDS)
    server = BareClient(own, modern=True)
    try:
        server.greet()
        opened, searched = _in_browser(_link(own.state / "server"), rounds)
    finally:
        server.close()
    rows = [
        ("opening the history page, from the address to its rows", *_spread(opened)),
        ("searching all of them for two words", *_spread(searched)),
    ]
    goal = Goal(f"console page with {RECORDS:,} records opens, p50", GOAL, statistics.median(opened), "s")
    note = f"{rounds} rounds in a headless Chromium; each opens the page anew, with the browser's cache as any visit has it."
    return (Section("Console", note, ("what", "p50 ms", "slowest ms"), rows, (goal,)),)


def fill(registry: Path, records: int) -> None:
    """A registry of as many calls as they are after a year."""
    who, now = local_user().id, time.time()
    with closing(connect(registry)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        for number in range(records):
            insert(database, "calls", _record(number, who, now - records + number))


def _record(number: int, who: str, started: float) -> Call:
    tool = _TOOLS[number % len(_TOOLS)]
    argv = ("gdal", tool, f"/data/scenes/{number:05}/B04.tif", f"/staging/scene-{number:05}.tif")
    return Call(
        secrets.token_hex(8),
        who,
        tool,
        {"input": argv[2], "output": argv[3]},
        arguments_digest=secrets.token_hex(32),
        plan_digest=secrets.token_hex(32),
        argv=argv,
        started=started,
        finished=started + 0.7,
        outcome="OK" if number % 7 else "GDAL_ERROR",
        message="" if number % 7 else "the file is no raster",
        durations={"run": 0.5, "publish": 0.01},
        receipt={"pool": "warm", "cpu_seconds": 0.4, "argv": list(argv)},
    )


def _link(state: Path) -> str:
    end = time.monotonic() + _WAIT_SECONDS
    while not (found := runtime_file.living(state, lambda _server: True)):
        if time.monotonic() > end:
            raise NotMeasurable("the console did not open")
        time.sleep(0.05)
    return f"{found[0].address}#ticket={new_login_token(found[0].secret, time.time())}"


def _in_browser(link: str, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds to open the history, and to find something in it."""
    program = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        raise NotMeasurable("there is no Chromium; scripts/browser.sh installs it")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the other sections need none
    except ImportError as error:
        raise NotMeasurable("its driver is not installed") from error
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page()
        page.goto(link)
        page.locator("#link-state", has_text="live").wait_for()
        home = link.partition("#")[0]
        opened, searched = [], []
        for number in range(rounds):
            page.goto("about:blank")
            begun = time.perf_counter()
            page.goto(f"{home}#/history")
            page.locator("#calls[data-loaded] tbody tr").first.wait_for()
            opened.append(time.perf_counter() - begun)
            searched.append(_search(page, f"reproject scene-{number:02}"))
        browser.close()
    return opened, searched


def _search(page: object, words: str) -> float:
    before = page.locator("#calls tbody tr").first.text_content()  # type: ignore[attr-defined]
    begun = time.perf_counter()
    page.locator("#words").fill(words)  # type: ignore[attr-defined]
    page.wait_for_function(  # type: ignore[attr-defined]
        "(before) => { const row = document.querySelector('#calls tbody tr'); return row && row.textContent !== before; }",
        arg=before,
    )
    return time.perf_counter() - begun


def _spread(times: list[float]) -> tuple[str, str]:
    return milliseconds(statistics.median(times)), milliseconds(max(times))
