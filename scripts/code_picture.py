"""Draws docs/pictures/code.jpg from a real run of `run_python`: the question about a changed cell, and the cell's
figure.

Needs an engine, the image of the toolbox `python` and Chromium.
"""

import base64
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import mcp_types as t
from mcp import Client, StdioServerParameters
from playwright.async_api import Browser

from scripts.pictures import STYLE, card_of, drawn, link_of, write_terrain

TARGET: Final = Path(__file__).parents[1] / "docs/pictures/code.jpg"
FIRST: Final = """import numpy as np, rasterio
from gdal_mcp_job import inputs

with rasterio.open(inputs["dem.asc"]) as dem:
    heights = dem.read(1)
np.percentile(heights, [5, 50, 95]).round().tolist()
"""
CHANGED: Final = FIRST.replace("np, rasterio", "np, rasterio, matplotlib.pyplot as plt").replace(
    "np.percentile",
    'plt.hist(heights.ravel(), bins=60)\nplt.xlabel("metres"); plt.title("Heights in dem.asc")\nnp.percentile',
)


async def run(folder: Path, browser: Browser) -> str:
    maps, state = folder / "maps", folder / "state"
    maps.mkdir()
    write_terrain(maps)
    options = ["--workspace", str(maps), "--state-dir", str(state), "--toolboxes", "gdal,python"]
    options += ["--console", "on", "--approval-wait", "60"]
    server = StdioServerParameters(command=sys.executable, args=["-m", "gdal_mcp", "serve", *options])
    answers: list[t.CallToolResult] = []
    async with Client(server, client_info=t.Implementation(name="your assistant", version="1")) as client:

        async def ask(code: str) -> None:
            arguments: dict[str, Any] = {"code": code, "inputs": ["dem.asc"]}
            answers.append(await client.call_tool("run_python", arguments))

        for code in (FIRST, CHANGED):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, code)
                link = await anyio.to_thread.run_sync(partial(link_of, state))
                card = base64.b64encode(await card_of(browser, link, says="approve")).decode()
    figure = next(part.data for part in answers[-1].content if isinstance(part, t.ImageContent))
    value = (answers[-1].structured_content or {})["untrusted"]["value"]
    return (
        f"<style>{STYLE} main {{ grid-template-columns: 600px 560px }} .figure {{ width: 520px }}</style><main>"
        f"<div><small>What the person saw of the changed code</small><img class=card src='data:image/png;base64,{card}'></div>"
        f"<div><small>What came back</small><pre>{value}</pre><img class=figure src='data:image/png;base64,{figure}'></div></main>"
    )


async def main() -> None:
    async with drawn(run, TARGET):
        pass


if __name__ == "__main__":
    anyio.run(main)
