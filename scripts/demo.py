"""A demonstration: a real MCP client, a real server, a real container for each call, in a new temporary folder.

The exit code is 1 as soon as a result is not as expected. `--keep` keeps the folder for inspection.
"""

import argparse
import base64
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from sandbox.engines.opening import open_engine
from sandbox.labels import CALL
from scripts.demo_session import CLIENT_INFO, Demo, Session, Surprise, expect, say, step, temporary

SIDE = 200  # rows and columns of the hill
SECRET = 271828182  # the value of every cell of a file that lies outside the workspace
WKT = (
    'PROJCS["WGS_1984_UTM_Zone_33N",GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],'
    'PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",15.0],'
    'PARAMETER["Scale_Factor",0.9996],PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]'
)
VRT = """<VRTDataset rasterXSize="4" rasterYSize="4"><VRTRasterBand dataType="Int16" band="1"><SimpleSource>
<SourceFilename relativeToVRT="0">{outside}</SourceFilename><SourceBand>1</SourceBand>
</SimpleSource></VRTRasterBand></VRTDataset>"""


NEXT = """
What to try next, with a folder of your own in place of ~/maps:
  1. Add the server to your client:  .venv/bin/gdal-mcp clients install claude-code --workspace ~/maps
     (or claude-desktop, vscode, cursor, codex, cline, windsurf, gemini, zed)
  2. Make a call from here:          .venv/bin/gdal-mcp call list_workspace '{}' --workspace ~/maps
  3. See what this host gives calls: .venv/bin/gdal-mcp doctor --workspace ~/maps"""


def write_hill(demo: Demo) -> None:
    """An ESRI ASCII grid with a round hill of 800 m, and its CRS beside it."""
    middle = (SIDE - 1) / 2
    rows = (
        " ".join(
            str(round(800 * math.exp(-((row - middle) ** 2 + (column - middle) ** 2) / (2 * 40**2))))
            for column in range(SIDE)
        )
        for row in range(SIDE)
    )
    head = f"ncols {SIDE}\nnrows {SIDE}\nxllcorner 500000\nyllcorner 5200000\ncellsize 30\n"
    (demo.workspace / "hill.asc").write_text(head + "\n".join(rows) + "\n", encoding="ascii")
    (demo.workspace / "hill.prj").write_text(WKT, encoding="ascii")
    say(f"wrote {demo.workspace / 'hill.asc'}: a hill as text, {SIDE} x {SIDE} cells of 30 m")


def write_outside(demo: Demo) -> Path:
    """A readable raster that the server must not read, and a VRT in the workspace that names it."""
    outside = demo.folder / "outside.asc"
    head = "ncols 4\nnrows 4\nxllcorner 0\nyllcorner 0\ncellsize 1\n"
    outside.write_text(head + f"{SECRET} {SECRET} {SECRET} {SECRET}\n" * 4, encoding="ascii")
    (demo.workspace / "innocent.vrt").write_text(VRT.format(outside=outside), encoding="utf-8")
    return outside


async def make(session: Session) -> Mapping[str, Any]:
    step("A GeoTIFF from text: the call writes, so a person is asked first")
    converted = await session.call("convert", input="hill.asc", output="hill.tif")
    expect(len(session.demo.questions) == 1, "a call that writes was not put to a person")
    expect(
        converted["output"] == str(session.demo.workspace / "hill.tif"),
        f"the output is elsewhere: {converted['output']}",
    )

    step("What is in it")
    info = await session.call("info", path="hill.tif")
    expect(info["size"] == [SIDE, SIDE], f"wrong size: {info['size']}")
    texts = info["untrusted"]["report"]
    expect("UTM" in json.dumps(texts["crs"]), "the CRS was lost")
    expect("UTM" not in json.dumps(info["coordinateSystem"]), "text of a file is a fact")
    say(
        f"facts: {info['driverShortName']}, {info['size'][0]} x {info['size'][1]}, band type {info['bands'][0]['type']}\n"
        f"under `untrusted`, texts of the file: {json.dumps(texts)}"
    )

    step("A Cloud Optimized GeoTIFF")
    return await session.call("convert", input="hill.tif", output="hill_cog.tif", output_format="COG")


async def look(session: Session, cog: Mapping[str, Any]) -> None:
    step("Web Mercator, for a map")
    reprojected = await session.call(
        "reproject", input="hill_cog.tif", output="hill_3857.tif", dst_crs="EPSG:3857", resampling="bilinear"
    )
    described = reprojected["outputs"][0]["description"]
    expect(described["crs"]["code"] == "EPSG:3857", f"wrong CRS: {described['crs']}")
    expect(described["wgs84"], "its place on earth is not told")
    say(f"re-opened in the same container: {json.dumps(described)[:300]} ...")

    step("The receipt of the Cloud Optimized GeoTIFF")
    receipt = (await session.record(cog))["receipt"]
    for name in (
        "image",
        "image_digest",
        "tool_version",
        "stand_in",
        "engine",
        "tier",
        "pool",
        "argv",
        "approval",
    ):
        say(f"{name:<13} {receipt[name]}")
    expect(receipt["image_digest"].startswith("sha256:"), "the receipt does not name the image")

    step("Outputs are resources")
    listed = await session.client.list_resources()
    names = {str(resource.name): resource for resource in listed.resources}
    expect(
        {"hill.tif", "hill_cog.tif", "hill_3857.tif"} <= set(names), f"outputs are missing: {sorted(names)}"
    )
    for name, resource in sorted(names.items()):
        say(f"{name:<14} {resource.size:>8} bytes  {resource.mime_type}")
    read = await session.client.read_resource(str(names["hill_3857.tif"].uri))
    say(f"read back: {len(read.contents)} part, {read.contents[0].mime_type}")


async def discover(session: Session) -> None:
    """All of GDAL without a list of all of it."""
    step("All of GDAL: find the algorithm")
    hits = (await session.answer("gdal_search", query="shade the mountains", limit=3))["hits"]
    say("\n".join(json.dumps(hit)[:150] for hit in hits))
    expect("raster hillshade" in json.dumps(hits), "the search does not find hillshade")

    step("Its arguments, as GDAL itself describes them")
    described = await session.answer("gdal_describe", algorithm="raster hillshade")
    say(f"{json.dumps(described)[:300]} ...")
    expect("zfactor" in json.dumps(described), "the description lacks an argument")

    step("What a pipeline would do, before it does: no container, nobody is asked")
    steps = [
        {"step": "read", "arguments": {"input": "hill.tif"}},
        {"step": "hillshade", "arguments": {"zfactor": 2}},
        {"step": "write", "arguments": {"output": "shade.tif"}},
    ]
    question_count = len(session.demo.questions)
    foreseen = await session.answer("validate_call", tool="pipeline", arguments={"steps": steps})
    say(
        f"{' '.join(foreseen['argv'])}\nneeds approval: {foreseen['needs_approval']}, estimate: {foreseen.get('estimate')}"
    )
    expect(foreseen["valid"] and foreseen["needs_approval"], "the pipeline should be valid, and ask")
    expect(len(session.demo.questions) == question_count, "a question was asked about a dry run")
    expect(not (session.demo.workspace / "shade.tif").exists(), "a dry run wrote its output")

    step("The pipeline, in one container without a file in between")
    result = await session.call("pipeline", steps=steps)
    ran = (await session.record(result))["argv"]
    expect(ran == foreseen["argv"], "what ran is not what was foreseen")
    for suggestion in result.get("next", ()):
        say(f"next: {suggestion['tool']} {json.dumps(suggestion['arguments'])}")


async def see(session: Session) -> None:
    step("See it")
    picture = await session.picture("preview", path="shade.tif", max_size=256)
    data = base64.b64decode(picture.data)
    expect(data.startswith(b"\x89PNG"), "the picture is no PNG")
    say(f"a picture for the client: {picture.mime_type}, {len(data)} bytes")

    step("What is in the workspace")
    listed = await session.call("list_workspace", pattern="*.tif")
    say("\n".join(json.dumps(row) for row in listed["entries"]))
    expect("shade.tif" in json.dumps(listed), "the list lacks an output")


async def attack(session: Session) -> None:
    outside = write_outside(session.demo)
    step("Attack: a file outside the workspace")
    first = await session.expect_refusal("PATH_NOT_ALLOWED", "info", path=str(outside))
    step("Attack: a file in the workspace that names one outside")
    second = await session.expect_refusal("GDAL_ERROR", "convert", input="innocent.vrt", output="loot.asc")
    expect(str(SECRET) not in first + second, "bytes of the file outside came back")
    expect(not (session.demo.workspace / "loot.asc").exists(), "the attack published an output")
    step("Attack: the network")
    await session.expect_refusal("NETWORK_BLOCKED", "info", path="/vsicurl/http://127.0.0.1/x.tif")

    step("The user says no")
    session.demo.says_yes = False
    await session.expect_refusal("DENIED", "convert", input="hill.tif", output="unwanted.tif")
    expect(not (session.demo.workspace / "unwanted.tif").exists(), "a call that was denied wrote its output")
    session.demo.says_yes = True


async def talk(demo: Demo) -> tuple[str, str]:
    """Everything that goes through the client. Returns the call that replaced an output, and the old output's digest."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "gdal_mcp", "serve", *demo.options()])
    with demo.log.open("w", encoding="utf-8") as log:
        transport = stdio_client(server, errlog=log)
        async with Client(transport, elicitation_callback=demo.ask, client_info=CLIENT_INFO) as client:
            return await _talk(demo, client)


async def _talk(demo: Demo, client: Client) -> tuple[str, str]:
    step(f"A client connected to `gdal-mcp serve` over stdio, protocol {client.protocol_version}")
    tools = (await client.list_tools()).tools
    expect({"info", "convert", "reproject"} <= {tool.name for tool in tools}, "tools are missing")
    say(f"{len(tools)} tools: {', '.join(tool.name for tool in tools)}")
    session = Session(demo, client)
    write_hill(demo)
    cog = await make(session)
    await look(session, cog)
    await discover(session)
    await see(session)
    await attack(session)
    step("The Cloud Optimized GeoTIFF is replaced; what it replaces is kept")
    before = _digest(demo.workspace / "hill_cog.tif")
    replaced = await session.call(
        "convert",
        input="hill_3857.tif",
        output="hill_cog.tif",
        output_format="COG",
        creation_options={"COMPRESS": "DEFLATE"},
    )
    expect(replaced["replaced"], "the result does not say what was replaced")
    return str(replaced["receipt"]["call_id"]), before


def after(demo: Demo, replacing: str, before: str) -> None:
    """Makes the checks that need no server."""
    cog = demo.workspace / "hill_cog.tif"
    step("Undo")
    expect(_digest(cog) != before, "the output was not replaced")
    say(demo.program("undo", replacing, *demo.options()))
    expect(_digest(cog) == before, "undo did not bring back the very bytes")
    say("the bytes are those of before")

    step("The audit log: a chain of hashes over everything that happened")
    say(demo.program("audit", "verify", "--state-dir", str(demo.folder / "state")))

    step("What is left of the containers")
    with closing(open_engine(os.environ.get("GDAL_MCP_ENGINE"))) as engine:
        left = [leftover for leftover in engine.leftovers() if leftover.labels.get(CALL) in demo.calls]
    expect(not left, f"containers were left behind: {left}")
    say(f"{len(demo.calls)} calls, no container left")
    names = sorted(path.name for path in demo.workspace.iterdir() if not path.name.startswith("."))
    say(f"the workspace: {', '.join(names)}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the main job, visibly.")
    parser.add_argument("--keep", action="store_true", help="leave the temporary folder")
    with temporary(keep=parser.parse_args().keep) as demo:
        as_expected = True
        try:
            after(demo, *anyio.run(talk, demo))
        except* Surprise as surprises:
            print(f"\nNOT AS EXPECTED: {_first(surprises)}")
            print(f"The server logged:\n{demo.log.read_text(encoding='utf-8')[-4000:]}")
            as_expected = False
    if as_expected:
        print(f"\nAll as expected{_elapsed()}.\n{NEXT}")
    return 0 if as_expected else 1


def _elapsed() -> str:
    """The time since `make` began, if it is known."""
    began = os.environ.get("SETUP_STARTED")
    seconds = int(time.time() - float(began)) if began else 0
    return f", {seconds // 60} min {seconds % 60} s after `make` began" if began else ""


def _first(group: BaseExceptionGroup[Surprise]) -> BaseException:
    """The first exception inside the groups in which the client's task groups wrap it."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


if __name__ == "__main__":
    sys.exit(main())
