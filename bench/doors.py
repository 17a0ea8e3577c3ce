"""The ways to reach a server: starting it, listing its tools, HTTP, the console, and approvals by many at once."""

import json
import secrets
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench.calls import INFO
from bench.clients import HANDSHAKE, MODERN, BareClient, served
from bench.place import NotMeasurable, Place
from bench.report import GOALS, Effort, Finding, Section, Series, in_turn, milliseconds, timed
from gdal_mcp.approvals.model import Approval, Decision
from gdal_mcp.approvals.store import Approvals

RECORDS = 10_000
CLIENTS = (1, 4, 16)
QUESTIONS, THREADS = 100, 8
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PAUSE = 1.0  # seconds before each number of clients, so that the pool is full


def start(place: Place, effort: Effort) -> list[Section]:
    """Measures from the start of the process to the first answers, and `tools/list`."""
    sdk = "Python that imports only the MCP SDK"
    series = in_turn(
        {
            f"{HANDSHAKE}: until `initialize` and `tools/list` are answered": partial(
                _first_answers, place, modern=False
            ),
            f"{MODERN}: until `server/discover` and `tools/list` are answered": partial(
                _first_answers, place, modern=True
            ),
            sdk: lambda: _python(place, "import mcp.server, mcp.server.stdio, mcp_types"),
            "Python that imports nothing": lambda: _python(place, "pass"),
        },
        effort,
    )
    rows = [(name, milliseconds(times.p50), milliseconds(times.p95)) for name, times in series.items()]
    slowest = max(times.p50 for times in list(series.values())[:2])
    finding = Finding(
        "start", slowest, f"importing the SDK alone takes {milliseconds(series[sdk].p50)} ms here"
    )
    note = "Each with a new process on a state folder that knows this host."
    return [
        Section("Start to first answer", note, ("process", "p50 ms", "p95 ms"), rows, (finding,)),
        _listed(place),
    ]


def _first_answers(place: Place, *, modern: bool) -> float:
    started = time.perf_counter()
    with BareClient(place, modern=modern) as client:
        client.ask("tools/list", {})
        return time.perf_counter() - started


def _python(place: Place, code: str) -> float:
    environment = place.python_environment()
    return timed(lambda: subprocess.run([sys.executable, "-c", code], env=environment, check=True))


def _listed(place: Place) -> Section:
    rows, sizes = [], []
    for toolset in ("core", "all"):
        with BareClient(place, "--toolsets", toolset) as client:
            ask = partial(client.ask, "tools/list", {})
            first = timed(ask)
            tools = ask()["tools"]
            again = timed(ask)
        sizes.append(len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode()))
        rows.append(
            (f"`{toolset}`", str(len(tools)), f"{sizes[-1]:,}", milliseconds(first), milliseconds(again))
        )
    note = "Over stdio, from a server that is running; `first` makes the schemas."
    finding = Finding("tools-list", sizes[0] / 1000)
    return Section(
        "`tools/list`", note, ("toolset", "tools", "bytes", "first ms", "again ms"), rows, (finding,)
    )


def http(place: Place, seconds: float) -> Section:
    """Calls over HTTP by the official client, with several clients at once."""
    with served(place) as (url, token, _):
        rows = [anyio.run(_clients, url, token, seconds, clients) for clients in CLIENTS]
    note = (
        f"`info` for {seconds:g} s with each number of clients, all of one process, each sending its next call when the last is "
        "answered. The last column is the share of calls for which a started container waited."
    )
    return Section("Calls over HTTP", note, ("clients", "calls / s", "p50 ms", "p95 ms", "warm"), rows)


async def _clients(url: str, token: str, seconds: float, clients: int) -> tuple[str, ...]:
    taken: list[float] = []
    warm: list[bool] = []
    headers = {"Authorization": f"Bearer {token}"}
    ready = anyio.Event()

    async def one() -> None:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as connection,
            Client(streamable_http_client(url, http_client=connection)) as client,
        ):
            await client.call_tool(INFO.tool, dict(INFO.arguments))
            await ready.wait()
            end = time.perf_counter() + seconds
            while (started := time.perf_counter()) < end:
                reply = await client.call_tool(INFO.tool, dict(INFO.arguments))
                if reply.is_error or reply.structured_content is None:
                    raise NotMeasurable(f"info failed: {str(reply.structured_content)[:500]}")
                taken.append(time.perf_counter() - started)
                warm.append(reply.structured_content["receipt"]["pool"] == "warm")

    async with anyio.create_task_group() as group:
        for _ in range(clients):
            group.start_soon(one)
        await anyio.sleep(_PAUSE * clients)
        ready.set()
    calls = Series(tuple(taken))
    rate, share = len(taken) / seconds, sum(warm) / len(warm)
    return str(clients), f"{rate:.1f}", milliseconds(calls.p50), milliseconds(calls.p95), f"{share:.0%}"


def console(place: Place, rounds: int) -> Section:
    """The page with as many records as after a year, in a real browser. Raises NotMeasurable without a browser."""
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise NotMeasurable("there is no Chromium; scripts/browser.sh installs it")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the other sections need none
    except ImportError as error:
        raise NotMeasurable("the browser's driver is not installed") from error
    opened: list[float] = []
    with BareClient(place, "--console", "on", modern=True, name="console") as server:
        server.ask("tools/call", {"name": INFO.tool, "arguments": INFO.arguments})
        _fill(place.state / "console" / "registry.sqlite")
        words, environment = place.program("console", name="console"), place.python_environment()
        link = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        with sync_playwright() as driver:
            chromium = driver.chromium.launch(
                executable_path=browser, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            page = chromium.new_page()
            page.goto(link)
            page.locator("#link-state", has_text="live").wait_for()
            for _ in range(rounds):
                page.goto("about:blank")
                started = time.perf_counter()
                page.goto(f"{link.partition('#')[0]}#/history")
                page.locator("#calls[data-loaded] tbody tr").first.wait_for()
                opened.append(time.perf_counter() - started)
            chromium.close()
    median = statistics.median(opened)
    rows = [
        ("opening the history, from the address to its rows", milliseconds(median), milliseconds(max(opened)))
    ]
    note = f"{RECORDS:,} records; {rounds} rounds in a headless Chromium, with the browser's cache as any visit has it."
    return Section("Console", note, ("what", "p50 ms", "slowest ms"), rows, (Finding("console", median),))


def _fill(registry: Path) -> None:
    """Adds copies of the only call, as many as after a year."""
    with closing(sqlite3.connect(registry)) as database, database:
        database.row_factory = sqlite3.Row
        call = dict(database.execute("SELECT * FROM calls LIMIT 1").fetchone())
        columns = ", ".join(call)
        marks = ", ".join(f":{name}" for name in call)
        copies = (
            {**call, "id": secrets.token_hex(8), "started": call["started"] - number}
            for number in range(RECORDS)
        )
        database.executemany(f"INSERT INTO calls ({columns}) VALUES ({marks})", copies)


def approvals() -> Section:
    """A hundred questions, each decided by eight threads of each of two processes at the same time."""
    with tempfile.TemporaryDirectory(prefix="gdal-mcp-bench-") as folder:
        path = Path(folder) / "registry.sqlite"
        with closing(Approvals(path)) as store:
            questions = [
                store.request(
                    Approval(plan_digest=f"d{number}", principal="bench", tool="t", summary="?"), 600
                )
                for number in range(QUESTIONS)
            ]
            ids = [question.id for question in questions]
            with ProcessPoolExecutor(2) as processes:
                started = time.monotonic()
                both = [processes.submit(_decide_all, path, ids, by) for by in ("one", "two")]
                decisions = [pair for process in both for pair in process.result()]
                seconds = time.monotonic() - started
            once = sum(
                len({who for row, who in decisions if row == question.id}) == 1
                and store.reclaim(question.plan_digest, "bench", "bench:call") is not None
                and store.consume(question.id, "bench:call") is not None
                and store.consume(question.id, "bench:call") is None
                for question in questions
            )
    rows = [
        ("decided once, and used once", f"{once} of {QUESTIONS}"),
        ("decisions a second, each on disk", f"{len(decisions) / seconds:.0f}"),
    ]
    note = f"{2 * THREADS} threads of two processes decide every question."
    finding = Finding("approvals", once * GOALS["approvals"].limit / QUESTIONS)
    return Section("Approvals under contention", note, ("", ""), rows, (finding,))


def _decide_all(path: Path, rows: list[str], by: str) -> list[tuple[str, str]]:
    """Lets every thread decide every question, and returns the reported decider for each."""
    with closing(Approvals(path)) as store, ThreadPoolExecutor(THREADS) as threads:

        def decide(number: int) -> tuple[str, str]:
            row, who = rows[number % len(rows)], f"{by}-{number // len(rows)}"
            after = store.decide(row, Decision(approved=True, by=who, how="bench", way="console"))
            return row, (after.decided_by if after else "")

        return list(threads.map(decide, range(THREADS * len(rows))))
