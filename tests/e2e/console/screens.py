"""The server's own answers with one example of everything that the page can show. No server runs for it."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Route

from gdal_mcp.approvals.model import Approval, Grant
from gdal_mcp.approvals.question import Forecast, parts
from gdal_mcp.calls.activity import RunningCall
from gdal_mcp.plan import Command, Draft, FileChanges, Output, Plan, Review
from gdal_mcp.policy.identity import local
from gdal_mcp.records.audit_record import time_text
from gdal_mcp.records.figures import OUTCOMES, figures
from gdal_mcp.records.registry import Artifact, Call, Registry
from gdal_mcp.records.statement import record
from gdal_mcp.server.console import serializers
from gdal_mcp.server.console.page import POLICY
from gdal_mcp.server.console.sessions import Viewer
from sandbox.template import Limits
from sandbox.workspace import Identity, Workspace, WorkspacePath
from tests.e2e.console.kit import WATCH, Window
from tests.png import png

STATIC = Path(__file__).parents[3] / "gdal_mcp" / "server" / "console" / "static"
BASE = "http://console.test/console/"
NOW = time.time()
ANN, WRITER = Viewer(local("ann"), "x"), "token:writer"
MEDIA = {
    ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
    ".json": "application/json",
}  # fmt: skip
# the live events are served here, because an answer that ends would look like a lost connection
LIVE = """
localStorage.setItem("gdal-mcp-console-key", "x");
const other = window.fetch;
window.fetch = (path, options) => path !== "api/live" ? other(path, options) : Promise.resolve(new Response(new ReadableStream({
  start(made) { window.tell = (text) => made.enqueue(new TextEncoder().encode(text)); window.tell(%s); } })));
"""
WIDE = "long" * 50
LONG = "/srv/maps/city-planning/2026/district-boundaries-with-population-and-income.gpkg"


def slope(width: int, height: int) -> bytes:
    """A slope, as a picture."""
    rows = (bytes((x * 255 // width + y) % 256 for x in range(width)) for y in range(height))
    return png(width, height, rows)


def file(name: str, size: int) -> WorkspacePath:
    maps = Workspace(Path("/srv/maps"), writable=True)
    return WorkspacePath(maps, PurePosixPath(name), Identity(1, 1, size, 10**18))


WHERE = {"image": "gdal:3.11", "digest": "sha256:00", "tier": "runc", "stand_in": False}


def question(name: str, effect: str, draft: Draft, **known: Any) -> Approval:
    mounts = ("/srv/maps/dem.tif:ro",)
    plan = Plan(f"call-{name}", "convert", WRITER, draft, Limits(), "sha256:00", "", mounts, {})
    return Approval(
        id=name,
        plan_digest=plan.digest,
        principal=WRITER,
        tool=plan.tool,
        summary="",
        created=NOW,
        expires=NOW + 600,
        call_id=plan.call_id,
        effect=effect,
        workspaces=("/srv/maps",),
        details=parts(plan, "it writes", WHERE, Forecast(client="Claude Desktop 1.2", **known)),
    )


CHECK = {
    "code": "nearest_on_continuous",
    "message": "Nearest neighbour on heights makes steps.",
    "suggestion": "Use `resampling: bilinear`.",
}
DEM, OLD = file("dem.tif", 5 << 20), file("slope.tif", 3 << 20)
ROADS = [file(f"{WIDE}.{end}", 80_000) for end in ("shp", "dbf")]
SLOPE = Output(replace(OLD, identity=None), replaces=(OLD,), shared=(file("slope.tif.aux.xml", 900),))
COMMAND = Command("gdal", ("raster", "reproject", "--dst-crs=EPSG:3857"), (str(DEM),))
QUESTIONS = [
    question("q1", "replace", Draft(COMMAND, (DEM,), (SLOPE,)), checks=(CHECK,),
        estimate={"output_bytes": 4 << 20}, kind_of=lambda _: "GTiff, 1024 x 768, 3 bands"),
    question("q2", "destroy", Draft(Command("delete", ()), (), files=FileChanges(removes=tuple(ROADS)), review=Review(True))),
]  # fmt: skip
DECIDED = replace(
    QUESTIONS[0], id="q0", state="denied", decided_by="local:ann", decided_how="console", decided_at=NOW - 900
)


def running(name: str, question_id: str | None = None, **more: Any) -> dict[str, Any]:
    outputs: Any = more.pop("outputs", ("/srv/maps/out/warped.tif",))
    caller = {"principal": WRITER, "client": "claude-desktop 1.2", "begun": NOW - 40, "outputs": outputs}
    fields = {"tool": "reproject", "stage": "running", "fraction": 0.2, "scope": None, **more}
    return serializers.running(RunningCall(name, **caller, **fields), ANN, question_id)


STEPS = {
    "id": "w1", "principal": WRITER, "name": "relief", "title": "Relief of a terrain model", "publishes": [LONG], "outcome": "GDAL_ERROR",
    "ended": True, "message": "step 'shade': GDAL failed.", "question": None, "undone": False, "retryable": True,
    "steps": [
        {"id": "warped", "tool": "reproject", "command": f"gdal raster reproject {LONG} w.tif", "after": [], "state": "fine",
         "crs": "EPSG:3857", "predicts": "GTiff, 24 x 16, EPSG:3857", "checks": [CHECK], "unknown": [], "error": None, "stands": "done",
         "message": "", "fraction": None, "seconds": 1.5, "call": "done",
         "came": {"driver": "GTiff", "size": [24, 16], "features": None, "crs": "EPSG:32632", "bytes": 900}, "reports": []},
        {"id": "shade", "tool": "raster_hillshade", "command": "gdal raster hillshade ${steps.warped} s.tif", "after": ["warped"],
         "state": "unknown", "crs": None, "predicts": "", "checks": [], "unknown": [f"the facts of {LONG}"], "error": None,
         "stands": "failed", "message": "GDAL failed.", "fraction": None, "seconds": 0.2, "call": "failed", "came": None, "reports": []},
    ],
}  # fmt: skip

RUNNING = [
    running("r1"),
    running(
        "r2",
        "q2",
        tool="delete",
        stage="waiting for approval",
        fraction=0.0,
        outputs=(LONG,),
        message="waiting for approval: in the console, or with gdal-mcp approve q2",
    ),
]


def call(name: str, outcome: str, message: str = "", **more: Any) -> Call:
    argv = ("gdal", "raster", "convert", "--output-format=COG", LONG, "/srv/maps/out/converted.tif")
    times = {"started": NOW - 90_000, "finished": NOW - 89_998.75}
    image = {
        "image_reference": "gdal:3.11", "tool_version": "3.11.0", "tier": "runc",
        "plan_digest": "ef" * 32,
    }  # fmt: skip
    ended = {"argv": argv, "outcome": outcome, "message": message}
    return replace(Call(name, WRITER, "convert", {}, **ended, **times, **image), **more)


ERROR = "ERROR 4: `dem.tif' not recognized as being in a supported file format."
WORDS = {"gdal": [ERROR, ERROR], "stderr": "raw"}
CALLS = [
    call("waiting", "WAITING", "the call needs a person's approval.", receipt={"question": "q1"}),
    call(
        "code",
        "CODE_ERROR",
        "the code failed.",
        receipt={"untrusted": {"stderr": "Traceback ...\nZeroDivisionError: division by zero"}},
    ),
    call(
        "transform",
        "TRANSFORM_FAILED",
        "a step failed.",
        receipt={"untrusted": {"library": ["sigma must be odd"]}},
    ),
    call("failed", "GDAL_ERROR", "GDAL could not do it.", receipt={"untrusted": WORDS}),
    call("undone", "OK", undone="local:ann", tool="raster_pipeline"),
    call("done", "OK", tool="delete", argv=("delete", *map(str, ROADS)), removed=tuple(map(str, ROADS))),
    call("denied", "DENIED", f"local:ann denied it. {WIDE}", argv=("gdal", WIDE)),
]


def output(number: int, name: str, *box: float, **facts: Any) -> dict[str, Any]:
    path, created = f"/srv/maps/{name}", NOW - number * 5000
    artifact = Artifact(
        path, path, name, 2 << 20, "image/tiff", "00", call_id="done", created=created, id=number
    )
    dataset = {"driver": "GTiff", "crs": "EPSG:32632", "wgs84": [box] if box else [], **facts}
    return {**serializers.artifact(artifact, dataset if box else None), "tool": "reproject"}


OUTPUTS = [
    output(1, "warped.tif", 11.2, 47.9, 11.9, 48.4, size=[1024, 768]),
    output(2, "zones.gpkg", 11.0, 48.1, 11.5, 48.6, driver="GPKG", crs="EPSG:4326", features=1),
    output(3, "table.csv"),
    output(4, "a-station-with-a-name-that-is-long.geojson", 11.6, 48.2, 11.6, 48.2, features=1),
]


def shown_call(recorded: Call) -> dict[str, Any]:
    """The answer of `ConsoleService.call`."""
    audit = [{"seq": 12, "time": time_text(NOW), "type": "call.finished", "hash": "12" * 32}]
    return {
        "principal": WRITER,
        "record": record(recorded),
        "statement": {},
        "artifacts": OUTPUTS[:1] if recorded.outcome == "OK" else [],
        "audit": audit,
        "undone": bool(recorded.undone),
        "undoable": recorded.outcome == "OK" and not recorded.undone,
    }


def counted() -> dict[str, Any]:
    """The figures of three calls."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Registry(Path(folder) / "registry.sqlite")) as registry,
    ):
        for number, seconds in enumerate((0.5, 1.2, 4.0)):
            new_call = registry.begin_call(Call(f"c{number}", WRITER, "convert", {}))
            receipt = {"pool": "warm", "cpu_seconds": seconds}
            registry.finish_call(replace(new_call, outcome="OK", durations={"run": seconds}, receipt=receipt))
        return figures(registry, {"convert"}, 0.0)


FIGURES = counted()
GRANT = Grant(WRITER, "convert", "/srv/maps", "local:ann", "console", "g", NOW, NOW + 900)
RIGHTS = {"decides": True, "admin": True, "minutes": [15]}
SETUP = {"approval": "writes", "policy": None, "image": "ghcr.io/osgeo/gdal:ubuntu-full-3.13.3"}
ME = {
    "principal": "local:ann",
    "version": "1.0",
    "workspaces": ["/srv/maps"],
    "outcomes": sorted(OUTCOMES),
    **SETUP,
    **RIGHTS,
}
ANSWERS: dict[str, Any] = {
    "me": ME,
    "calls": {"calls": list(map(serializers.listed, CALLS)), "next": None},
    "outputs": {"outputs": OUTPUTS, "next": None},
    "grants": {"grants": [serializers.grant(GRANT, NOW, ANN)]},
    "audit": {"path": "/var/lib/gdal-mcp/audit.jsonl", "records": 40, "checkpoint": "40:" + "9a" * 32},
    "figures": FIGURES,
    "workflows/w1": STEPS,
    "files": {
        "entries": [
            {"path": "/srv/maps/inputs", "kind": "folder", "modified": None},
            {
                "path": f"/srv/maps/{WIDE}.tif",
                "kind": "file",
                "driver": "GTiff",
                "bytes": 900,
                "modified": time_text(NOW),
                "files": ["a.aux.xml"],
            },
        ],
        "next": None,
    },
    **{f"calls/{call.id}": shown_call(call) for call in CALLS},
}
PICTURES = {
    "pictures/1": (320, 240), "pictures/2": (320, 320), "pictures/4": (64, 64),
    "questions/q1/picture/0": (320, 200), "workflows/w1/picture/warped": (320, 200),
}  # fmt: skip
ASKED = {
    "pending": [serializers.question(question, ANN) for question in QUESTIONS],
    "decided": [serializers.decision(DECIDED)],
}
EVENTS = [("questions", {"now": NOW, **ASKED}), ("running", {"now": NOW, "running": RUNNING})]


def event(name: str, content: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


def answer(route: Route) -> None:
    """One request: a file of the page, JSON or a picture."""
    path = urlsplit(route.request.url).path.removeprefix("/console/")
    resource = path.removeprefix("api/")
    if path == resource:
        file = STATIC / (path or "index.html")
        headers = {"Content-Security-Policy": POLICY, "Content-Type": MEDIA.get(file.suffix, "text/plain")}
        route.fulfill(body=file.read_bytes(), headers=headers)
    elif resource in PICTURES:
        route.fulfill(body=slope(*PICTURES[resource]), content_type="image/png")
    elif resource in ANSWERS:
        route.fulfill(json=ANSWERS[resource])
    else:
        route.fulfill(status=404, json={"error": "There is none."})


@contextmanager
def shown(browser: Browser, *, signed_in: bool = True, **options: Any) -> Iterator[Window]:
    """A window at the page, with these answers behind it."""
    with browser.new_context(**options) as context:
        context.add_init_script(WATCH)
        if signed_in:
            context.add_init_script(LIVE % json.dumps("".join(event(*arguments) for arguments in EVENTS)))
        context.route("**/*", answer)
        page = context.new_page()
        opened = Window(page)
        page.on("pageerror", lambda error: opened.wrong.append(f"error {error}"))
        page.goto(BASE)
        if signed_in:
            page.locator("#link-state", has_text="live").wait_for(state="attached")
        yield opened
        opened.check()
