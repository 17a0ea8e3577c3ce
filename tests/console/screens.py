"""Answers as a server would give them, with one of everything that the page can show. No server runs for it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Route

from gdal_mcp.console.headers import POLICY
from tests.console.kit import WATCH, Window
from tests.png import png

STATIC = Path(__file__).parents[2] / "gdal_mcp" / "console" / "static"
BASE = "http://console.test/console/"
NOW = time.time()
MEDIA = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
# the live events come from here, since an answer that ends would look like a lost connection
LIVE = """
localStorage.setItem("gdal-mcp-console-key", "x");
const other = window.fetch;
window.fetch = (path, options) => path !== "api/live" ? other(path, options) : Promise.resolve(new Response(new ReadableStream({
  start(made) { window.tell = (text) => made.enqueue(new TextEncoder().encode(text)); window.tell(%s); } })));
"""
LONG = "/srv/maps/city-planning/2026/district-boundaries-with-population-and-income.gpkg"


def slope(width: int, height: int) -> bytes:
    """A slope, as a picture."""
    rows = (bytes((x * 255 // width + y) % 256 for x in range(width)) for y in range(height))
    return png(width, height, rows)


def some(*values: Any) -> dict[str, Any]:
    return {"shown": list(values), "more": 0}


def file(path: str, size: int, kind: str) -> dict[str, Any]:
    return {"path": path, "bytes": size, "modified": NOW - 200_000, "kind": kind}


def question(identity: str, **details: Any) -> dict[str, Any]:
    told = {
        "sentence": "token:writer asks to write slope.tif and replace slope.tif in the workspace, with reproject.",
        "reason": "it replaces a file",
        "tool": "reproject",
        "command": [
            "gdal",
            "raster",
            "reproject",
            "--dst-crs=EPSG:3857",
            "/srv/maps/dem.tif",
            "/srv/maps/slope.tif",
        ],
        "writes": some(
            {
                "path": "/srv/maps/slope.tif",
                "changes": False,
                "replaces": some(file("/srv/maps/slope.tif", 3 << 20, "GTiff, 1024 x 768, 3 bands")),
                "may_replace": some(file("/srv/maps/slope.tif.aux.xml", 900, "")),
            }
        ),
        "reads": some({"path": "/srv/maps/dem.tif", "bytes": 5 << 20}),
        "moves": some(),
        "removes": some(),
        "checks": [
            {
                "code": "nearest_on_continuous",
                "message": "Nearest neighbour on heights makes steps.",
                "suggestion": "Use `resampling: bilinear`.",
            }
        ],
        "estimate": {"output_bytes": 4 << 20, "seconds": 3.2},
        "limits": {"memory_bytes": 1 << 30, "cpus": 2, "wall_seconds": 300},
        "where": {
            "image": "gdal:3.11",
            "digest": "sha256:" + "ab" * 32,
            "tier": "runc",
            "network": "none",
            "mounts": ["/srv/maps/dem.tif (read-only)"],
        },
        "plan": "cd" * 32,
        **details,
    }
    common = {
        "tool": told["tool"],
        "principal": "token:writer",
        "effect": "replace",
        "ways": ["console"],
        "workspaces": ["/srv/maps"],
    }
    return {
        **common,
        "id": identity,
        "call": f"call-{identity}",
        "created": NOW,
        "expires": NOW + 600,
        "details": told,
        "decidable": True,
        "deniable": True,
        "grantable": True,
    }


QUESTIONS = [
    question("q1"),
    {
        **question(
            "q2",
            sentence="token:writer asks to delete roads.shp and 3 more, with delete.",
            tool="delete",
            reason="it deletes files",
            command=["delete", *(f"/srv/maps/roads.{end}" for end in ("shp", "dbf", "shx", "prj"))],
            writes=some(),
            removes=some(
                file("/srv/maps/roads.shp", 80_000, "ESRI Shapefile, 1 layer"),
                file("/srv/maps/roads.dbf", 12_000, ""),
            ),
            checks=[],
        ),
        "effect": "destroy",
        "grantable": False,
    },
]
DECIDED = [
    {
        "id": "q0",
        "call": "call-0",
        "tool": "convert",
        "state": "denied",
        "sentence": "token:writer asks to write a.tif, with convert.",
        "by": "local:ann",
        "how": "console",
        "at": NOW - 900,
    }
]


def running(identity: str, **more: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "tool": "reproject",
        "principal": "token:writer",
        "client": "claude-desktop 1.2",
        "begun": NOW - 40,
        "stage": "running",
        "fraction": 0.2,
        "message": "",
        "outputs": ["/srv/maps/out/warped.tif"],
        "question": None,
        "cancellable": True,
        **more,
    }


RUNNING = [
    running("r1"),
    running("r2", tool="delete", stage="waiting for approval", fraction=0.0, question="q2", outputs=[LONG]),
]


def call(identity: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "tool": "convert",
        "principal": "token:writer",
        "started": NOW - 90_000,
        "outcome": outcome,
        "seconds": 1.25,
        "message": "",
        "command": f"gdal raster convert --output-format=COG {LONG} /srv/maps/out/converted.tif",
        "files": 1,
        "question": None,
        "undone": False,
        **more,
    }


CALLS = [
    call("waiting", "WAITING", question="q1", message="the call needs a person's approval.", seconds=0.0),
    call("failed", "GDAL_ERROR", message="GDAL could not do it."),
    call("undone", "OK", undone=True, tool="raster_pipeline"),
    call("done", "OK", tool="delete", command="delete /srv/maps/roads.shp /srv/maps/roads.dbf"),
    call("denied", "DENIED", message="local:ann denied it."),
]


def output(number: int, name: str, box: list[float], **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "call": "done",
        "path": f"/srv/maps/{name}",
        "name": name,
        "media_type": "image/tiff",
        "created": NOW - number * 5000,
        "state": "listed",
        "bytes": 2 << 20,
        "pictured": True,
        "folder": False,
        "tool": "reproject",
        "driver": "GTiff",
        "crs": "EPSG:32632",
        "wgs84": [box] if box else [],
        **more,
    }


OUTPUTS = [
    output(1, "warped.tif", [11.2, 47.9, 11.9, 48.4], size=[1024, 768]),
    output(2, "zones.gpkg", [11.0, 48.1, 11.5, 48.6], driver="GPKG", crs="EPSG:4326", features=1),
    output(3, "table.csv", [], driver="CSV", crs=None, features=12_345, pictured=False),
    output(4, "a-station-with-a-name-that-is-long.geojson", [11.6, 48.2, 11.6, 48.2], features=1),
]


def record(listed: dict[str, Any]) -> dict[str, Any]:
    receipt: dict[str, Any] = {"question": listed["question"]} if listed["question"] else {}
    if listed["outcome"] == "GDAL_ERROR":
        receipt["untrusted"] = {
            "gdal": ["ERROR 4: `dem.tif' not recognized as being in a supported file format."] * 2,
            "stderr": "raw",
        }
    told = {
        **listed,
        "argv": listed["command"].split(),
        "receipt": receipt,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW)),
        "duration": 1.25,
        "approval": "",
        "tier": "runc",
        "image": "gdal:3.11",
        "tool_version": "3.11.0",
        "plan": "ef" * 32,
        "removed": ["/srv/maps/roads.shp", "/srv/maps/roads.dbf"] if listed["tool"] == "delete" else [],
    }
    audit = [{"seq": 12, "time": told["started"], "type": "call.finished", "hash": "12" * 32}]
    return {
        "principal": "token:writer",
        "record": told,
        "statement": {},
        "artifacts": OUTPUTS[:1] if listed["outcome"] == "OK" else [],
        "audit": audit,
        "undone": listed["undone"],
        "undoable": listed["outcome"] == "OK" and not listed["undone"],
    }


TIMES = {"total": {"p50": 1.2, "p95": 4.0}}
FIGURES = {
    "calls": 12,
    "pool": {"hit_rate": 0.75},
    "seconds": TIMES,
    "cpu_seconds": 12.5,
    "output": {"bytes": 5 << 20, "files": 7},
    "by_tool_and_outcome": [{"tool": "convert", "outcome": "OK", "count": 12}],
}
GRANT = {
    "id": "g",
    "principal": "token:writer",
    "tool": "convert",
    "workspace": "/srv/maps",
    "expires": NOW + 900,
    "by": "local:ann",
    "state": "holds",
    "revocable": True,
}
ANSWERS: dict[str, Any] = {
    "me": {
        "principal": "local:ann",
        "decides": True,
        "admin": True,
        "version": "1.0",
        "minutes": [15],
        "workspaces": ["/srv/maps"],
    },
    "calls": {"calls": CALLS, "next": None},
    "outputs": {"outputs": OUTPUTS, "next": None},
    "grants": {"grants": [GRANT]},
    "audit": {"path": "/var/lib/gdal-mcp/audit.jsonl", "records": 40, "checkpoint": "40:" + "9a" * 32},
    "figures": {"lately": FIGURES, "total": FIGURES},
    **{f"calls/{one['id']}": record(one) for one in CALLS},
}
PICTURES = {
    "pictures/1": (320, 240),
    "pictures/2": (320, 320),
    "pictures/4": (64, 64),
    "questions/q1/picture/0": (320, 200),
}
EVENTS = [
    ("questions", {"now": NOW, "pending": QUESTIONS, "decided": DECIDED}),
    ("running", {"now": NOW, "running": RUNNING}),
]


def event(name: str, told: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(told)}\n\n"


def answer(route: Route) -> None:
    """One request: a file of the page, JSON or a picture."""
    path = urlsplit(route.request.url).path.removeprefix("/console/")
    asked = path.removeprefix("api/")
    if path == asked:
        found = STATIC / (path or "index.html")
        headers = {"Content-Security-Policy": POLICY, "Content-Type": MEDIA.get(found.suffix, "text/plain")}
        route.fulfill(body=found.read_bytes(), headers=headers)
    elif asked in PICTURES:
        route.fulfill(body=slope(*PICTURES[asked]), content_type="image/png")
    elif asked in ANSWERS:
        route.fulfill(json=ANSWERS[asked])
    else:
        route.fulfill(status=404, json={"error": "There is none."})


@contextmanager
def shown(browser: Browser, *, signed_in: bool = True, **options: Any) -> Iterator[Window]:
    """A window at the page, with these answers behind it."""
    with browser.new_context(**options) as context:
        context.add_init_script(WATCH)
        if signed_in:
            context.add_init_script(LIVE % json.dumps("".join(event(*one) for one in EVENTS)))
        context.route("**/*", answer)
        page = context.new_page()
        found = Window(page)
        page.on("pageerror", lambda error: found.wrong.append(f"error {error}"))
        page.goto(BASE)
        if signed_in:
            page.locator("#link-state", has_text="live").wait_for(state="attached")
        yield found
        found.check()
