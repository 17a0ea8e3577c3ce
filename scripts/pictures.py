"""Draws docs/pictures/conversation.jpg from a real run: calls, answers, the map and the approval's card come from the
server.

The sentences of the person and of the model are in this file, because no model takes part. Needs an engine and
Chromium.
"""

import base64
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import anyio
import mcp_types as t
from mcp import Client, StdioServerParameters
from playwright.async_api import Browser, async_playwright, expect

from gdal_mcp.testing.samples import EPSG
from scripts.demo import WKT

Run: TypeAlias = Callable[[Path, Browser], Awaitable[str]]
ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / "docs/pictures/conversation.jpg"
ICON: Final = ROOT / "gdal_mcp/server/console/static/icon.svg"
SIDE: Final = 360  # rows and columns of the terrain
RELIEF: Final = {
    "steps": "read dem.tif ! reproject --dst-crs=EPSG:3857 -r bilinear ! hillshade --zfactor=2 ! write --overwrite relief.tif",
}
STYLE: Final = """
body { margin: 0; background: #f6f7f5; font: 15px/1.45 'DejaVu Sans', sans-serif; color: #1b211e; }
main { display: grid; grid-template-columns: 560px 600px; gap: 24px; padding: 24px; width: 1184px; }
p { margin: 0 0 12px; padding: 10px 14px; border-radius: 14px; } .me { background: #1a6a4f; color: #fff; margin-left: 90px; }
.it { background: #fff; border: 1px solid #d5dbd7; margin-right: 40px; }
pre { margin: 0 40px 12px 0; padding: 8px 12px; background: #e9edea; border-radius: 8px; font: 12px/1.4 'DejaVu Sans Mono', monospace; white-space: pre-wrap; }
.map { display: block; border-radius: 10px; margin: 0 0 12px; width: 300px; } .card { width: 600px; border-radius: 10px; }
small { color: #56605b; display: block; margin: 0 0 8px; }
"""


def write_terrain(folder: Path) -> None:
    """Mountains as an ASCII grid in UTM zone 33N, in metres: noise at five scales, the same each time."""
    random = Random(5)  # noqa: S311 - a landscape, no secret
    grids = [
        (step, [[random.random() for _ in range(SIDE)] for _ in range(SIDE)]) for step in (128, 64, 32, 16, 8)
    ]

    def height(x: int, y: int) -> float:
        return 200 + 9 * sum(step * abs(1 - 2 * between(grid, x / step, y / step)) for step, grid in grids)

    def between(grid: list[list[float]], x: float, y: float) -> float:
        column, row = int(x), int(y)
        across, down = (1 - math.cos(math.pi * (x - column))) / 2, (1 - math.cos(math.pi * (y - row))) / 2
        upper, lower = (
            grid[index][column] * (1 - across) + grid[index][column + 1] * across for index in (row, row + 1)
        )
        return upper * (1 - down) + lower * down

    head = f"ncols {SIDE}\nnrows {SIDE}\nxllcorner 500000\nyllcorner 4650000\ncellsize 30\n"
    rows = (" ".join(f"{height(x, y):.1f}" for x in range(SIDE)) for y in range(SIDE))
    (folder / "dem.asc").write_text(head + "\n".join(rows) + "\n")
    (folder / "dem.prj").write_text(WKT)
    assert EPSG == 32633


async def card_of(browser: Browser, link: str, *, says: str) -> bytes:
    """The waiting question, as the console shows it; then the person's answer."""
    page = await browser.new_page(viewport={"width": 900, "height": 1100}, device_scale_factor=1)
    await page.goto(link)
    card = page.locator("article.question").first
    await card.wait_for()
    await expect(card.locator("[data-state=loading]")).to_have_count(0, timeout=60_000)
    await expect(card.locator("[data-act=approve]")).to_be_enabled()
    picture = await card.screenshot()
    await card.locator(f"[data-act={says}]").click()
    await page.locator(".verdict").first.wait_for()
    await page.close()
    return picture


def link_of(state: Path) -> str:
    """The link that `gdal-mcp console` prints once the server has its page."""
    command = [sys.executable, "-m", "gdal_mcp", "console", "--state-dir", str(state)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]  # noqa: S603


async def run(folder: Path, browser: Browser) -> str:
    """Makes the calls, with a person who approves on the console. Returns the picture's page."""
    maps, state = folder / "maps", folder / "state"
    maps.mkdir()
    write_terrain(maps)
    options = [
        "--workspace",
        str(maps),
        "--state-dir",
        str(state),
        "--console",
        "on",
        "--approval-wait",
        "60",
    ]
    server = StdioServerParameters(command=sys.executable, args=["-m", "gdal_mcp", "serve", *options])
    async with Client(server, client_info=t.Implementation(name="your assistant", version="1")) as client:

        async def approved(tool: str, **arguments: Any) -> tuple[t.CallToolResult, bytes]:
            answers: list[t.CallToolResult] = []

            async def ask() -> None:
                answers.append(await client.call_tool(tool, arguments))

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                link = await anyio.to_thread.run_sync(link_of, state)
                card = await card_of(browser, link, says="approve")
            return answers[0], card

        await approved("convert", input="dem.asc", output="dem.tif")
        await approved(
            "pipeline", steps="read dem.tif ! hillshade ! write relief.tif"
        )  # the output that is replaced
        info = (await client.call_tool("info", {"path": "dem.tif"})).structured_content or {}
        result, card = await approved("pipeline", **RELIEF)
    answer = result.structured_content or {}
    picture = next(part.data for part in result.content if isinstance(part, t.ImageContent))
    return page_of(info, answer, picture, base64.b64encode(card).decode())


def page_of(info: Mapping[str, Any], result: Mapping[str, Any], picture: str, card: str) -> str:
    facts = {
        "driver": info["driverShortName"],
        "size": info["size"],
        "crs": info["coordinateSystem"].get("code"),
    }
    description = result["outputs"][0]["description"]
    answer = {key: description[key] for key in ("size", "crs", "wgs84") if key in description}
    answer["receipt"] = {key: result["receipt"][key] for key in ("tier", "seconds", "approval") if key in result["receipt"]}  # fmt: skip
    talk = [
        ("p class=me", "What is in dem.tif?"),
        ("pre", f'info {{"path": "dem.tif"}}\n→ {json.dumps(facts)}'),
        (
            "p class=it",
            f"Terrain heights, {info['size'][0]} by {info['size'][1]} pixels of 30 m, in UTM zone 33N.",
        ),
        ("p class=me", "Make a shaded relief of it for a web map, and show it to me."),
        ("pre", f"pipeline {json.dumps(RELIEF)}"),
        ("p class=it", "That would replace relief.tif, so you were asked first (on the right). Done:"),
        ("pre", f"→ {json.dumps(answer, ensure_ascii=False)}"),
    ]
    texts = "".join(f"<{tag}>{escape(text)}</{tag.split()[0]}>" for tag, text in talk)
    map_ = f'<img class=map src="data:image/png;base64,{picture}">'
    question = (
        f'<small>What the person saw, and decided</small><img class=card src="data:image/png;base64,{card}">'
    )
    return f"<style>{STYLE}</style><main><div>{texts}{map_}</div><div>{question}</div></main>"


async def draw_icon(browser: Browser, target: Path) -> None:
    """The console's icon as the square that plugins and bundles show."""
    page = await browser.new_page(viewport={"width": 512, "height": 512})
    await page.set_content(f"<style>body {{ margin: 0 }}</style>{ICON.read_text(encoding='utf-8')}")
    target.parent.mkdir(exist_ok=True)
    await page.screenshot(path=target, omit_background=True)


@asynccontextmanager
async def drawn(run: Run, target: Path) -> AsyncIterator[Browser]:
    """Draws the page that `run` makes, with a new folder and browser; the browser stays open."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    folder = Path(tempfile.mkdtemp(prefix="gdal-mcp-pictures-"))
    try:
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = await browser.new_page(viewport={"width": 1232, "height": 400})
            await page.set_content(await run(folder, browser))
            target.parent.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=target, full_page=True, type="jpeg", quality=82)
            yield browser
            await browser.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def main(root: Path = ROOT) -> None:
    async with drawn(run, root / TARGET.relative_to(ROOT)) as browser:
        await draw_icon(browser, root / ".claude-plugin/icon.png")


if __name__ == "__main__":
    anyio.run(main)
