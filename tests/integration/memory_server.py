"""A complete server on the in-memory engine: real pipeline, stores, policy and pool, with a toolbox and a worker for
tests.

The toolbox `mem` has four tools. `look` reads a file, `make` reads one and writes another, `tell` answers without a
container, `reach` makes requests itself, like `stac_search`.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gdal_mcp.approvals.model import Approval, ApprovalQuestion, Approver, Decision, NullApprover
from gdal_mcp.calls.pipeline import Pipeline, Reply, Request
from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.policy.identity import Principal, local
from gdal_mcp.runtime.hosting import Host, Hosting
from gdal_mcp.runtime.image import Image
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.base import Arguments, ImmediateResult, Tool, schema_and_draft
from gdal_mcp.toolboxes.preflight import Preflight, Report
from gdal_mcp.toolboxes.surface import Toolboxes
from gdal_mcp.toolboxes.toolbox import Analysis, Answering, Execution, ImageSpec, Toolbox
from sandbox.pool.pool import WarmPool
from sandbox.pool.sizing import Sizes
from sandbox.program import Delivery
from sandbox.runner import Runner
from sandbox.template import STAGING_TARGET
from sandbox.workspace import WorkspacePath
from tests.engines.memory import Box, MemoryEngine
from tests.unit.sandbox.pool_kit import _exactly, frame

ANN, BEN = local("ann"), local("ben")
COUNT = {"length": 4}
_ANSWERING = Answering()


class In(Arguments):
    path: str


class Making(Arguments):
    path: str
    output: str
    overwrite: bool = False


@dataclass
class World:
    """State of the tools and the worker. While `gate` is closed, jobs that begin wait."""

    gate: threading.Event = field(default_factory=threading.Event)
    jobs: list[str] = field(default_factory=list)  # programs that have run
    failing: str = ""  # the program whose jobs fail
    reached: int = 0
    engine: threading.Event = field(default_factory=threading.Event)  # the engine answers while this is set
    waiting_for_engine: int = 0

    def worker(self, box: Box) -> int:
        if (request := request_to(box)) is None:
            return 0
        self.jobs.append(request["program"])
        if request["program"] != "describe":
            self.gate.wait(60)
        write_outputs(box, request, b"made")
        box.say(frame(b"F", {"code": int(request["program"] == self.failing)}))
        return 0

    def reach(self, _arguments: Arguments, _context: Any) -> ImmediateResult:
        def ask(_meter: object) -> dict[str, int]:
            self.reached += 1
            return {"reached": self.reached}

        return ImmediateResult(ask=ask)


def request_to(box: Box, **measured: Any) -> dict[str, Any] | None:
    """The request of the job that a worker receives after its measurements; None if the container ends without one."""
    box.say(frame(b"R", measured))
    head = _exactly(box, 4)
    request: dict[str, Any] | None = (
        json.loads(_exactly(box, int.from_bytes(head)))["request"] if head else None
    )
    return request


def write_outputs(box: Box, request: Mapping[str, Any], data: bytes) -> None:
    staging = [mount for mount in box.template.mounts if mount.target == STAGING_TARGET]
    for output in request["outputs"]:
        Path(staging[0].host_path, Path(output["path"]).name).write_bytes(data)


def _local(arguments: Making, context: Any) -> WorkspacePath:
    source: WorkspacePath = context.workspaces.input(arguments.path)
    return source


def _look(arguments: In, context: Any) -> Draft:
    source = context.workspaces.input(arguments.path)
    return Draft(Command("look", (), (str(source),)), (source,))


def _make(arguments: Making, context: Any) -> Draft:
    source = context.remote.place(arguments.path) if "://" in arguments.path else _local(arguments, context)
    target = context.workspaces.output(arguments.output)
    replaces = (target,) if target.identity is not None else ()
    output = Output(target, kind="file", replaces=replaces)
    return Draft(Command("make", (), (str(source),), output.inside), (source,), (output,))


class Knowing(Preflight):
    """Requests a description of every input once."""

    def __init__(self) -> None:
        self.known: set[Path] = set()

    def description(self, draft: Draft, /) -> Draft | None:
        unknown = tuple(place for place in draft.inputs if place.path not in self.known)
        looked = Draft(Command("describe", (), tuple(map(str, unknown))), (), looked_at=unknown)
        return looked if unknown else None

    def described(self, places: Any, _rows: object, /) -> None:
        self.known |= {place.path for place in places}

    def within(self, _limits: object, /) -> "Knowing":
        return self

    def check(self, _draft: Draft, /, *, described: bool = False) -> Report:  # noqa: ARG002
        return Report()


def _companions() -> Callable[[WorkspacePath], Iterator[Path]]:
    return lambda located: iter(
        path for path in located.path.parent.glob(f"{located.path.stem}.*") if path != located.path
    )


def toolbox(world: World) -> Toolbox:
    look = Tool("look", "Look", "Reads.", **schema_and_draft(In, _look), writes=False)
    make = Tool("make", "Make", "Writes.", **schema_and_draft(Making, _make), writes=True)
    answers = {"writes": False, "runs": False}
    tell = Tool(
        "tell",
        "Tell",
        "Tells.",
        **schema_and_draft(Arguments, lambda *_: ImmediateResult({"told": 1})),
        **answers,
    )
    reach = Tool(
        "reach", "Reach", "Asks.", **schema_and_draft(Arguments, world.reach), **answers, reaches_out=True
    )
    tools = (look, make, tell, reach)
    return memory_toolbox(
        tools,
        Analysis(validates="describe", preflight=lambda _limits: Knowing(), companions=_companions),
        operations=frozenset({"describe"}),
    )


def memory_toolbox(
    tools: tuple[Tool, ...],
    analysis: Analysis,
    answering: Answering = _ANSWERING,
    *,
    operations: frozenset[str],
) -> Toolbox:
    """A toolbox whose containers run the worker of a `World`."""
    return Toolbox(
        name="mem",
        title="Memory",
        version="1",
        image=ImageSpec({"mem": "sha256:a"}),
        toolsets={"core": lambda: tools},
        operations=operations,
        execution=Execution(
            environment=lambda _limits, _digest: {}, program=lambda _seconds: ("worker", "-c", "pass")
        ),
        analysis=analysis,
        answering=answering,
    )


class MemoryHosting(Hosting):
    """Needs no attestation, because nothing is isolated; `ready` hangs while the engine does not answer."""

    world: World
    host: Host

    def ready(self, _toolbox: Toolbox | None = None, *, fresh: bool = False) -> Host:  # noqa: ARG002 - as Hosting has it
        self.world.waiting_for_engine += 1
        self.world.engine.wait(60)
        self.world.waiting_for_engine -= 1
        return self.host

    def _hosts(self) -> tuple[Host, ...]:
        return (self.host,)


@dataclass
class Person(Approver):
    """The person whom the client asks. `says` is the answer; None stands for a client that asks nobody."""

    says: bool | None = True
    way: Any = "elicitation"
    asked: list[Approval] = field(default_factory=list)

    def asks(self, _ways: object) -> bool:
        return True

    async def ask(self, question: ApprovalQuestion) -> Decision | None:
        self.asked.append(question.row)
        return None if self.says is None else Decision(self.says, "ann", "a test", self.way)


@dataclass(frozen=True)
class Server:
    app: App
    world: World
    root: Path

    @property
    def pipeline(self) -> Pipeline:
        return self.app.pipeline

    async def call(
        self, tool: str, who: Principal = ANN, by: Approver | None = None, **arguments: Any
    ) -> Reply:
        return await self.pipeline.call(Request(tool, arguments, who, "test", by or NullApprover()))

    async def make(self, output: str = "out.bin", by: Approver | None = None, who: Principal = ANN) -> Reply:
        return await self.call("make", who, by, path="in.bin", output=output)

    def states(self) -> list[str]:
        rows = (*self.app.approvals.approvals.pending(), *self.app.approvals.approvals.decided())
        return sorted(approval.state for approval in rows)

    def decide(self, *, yes: bool = True, way: Any = "console") -> Approval | None:
        """Decides the newest question on the console."""
        row = self.app.approvals.approvals.pending()[-1]
        return self.app.approvals.decide(row.id, Decision(yes, "the person", "a page", way))

    def events(self) -> list[Mapping[str, Any]]:
        lines = self.app.audit.path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["event"] for line in lines]

    def history(self) -> list[str]:
        return [call.tool for call in self.app.registry.search().items]


def _hosted(hosting: Hosting, world: World, box: Toolbox, concurrent: int) -> MemoryHosting:
    hosted = MemoryHosting.__new__(MemoryHosting)
    hosted.__dict__ |= hosting.__dict__
    engine = MemoryEngine(world.worker)
    runner = Runner(engine, "me")
    pool = WarmPool(runner, Sizes(0, 0, 600.0), lambda: (), lambda: ())
    image = Image("mem", "sha256:a", "sha256:a", "1", standin=False)
    hosted.world = world
    hosted.host = Host(
        engine, engine.info(), runner, pool, concurrent, box, image, Delivery(("worker",), b"")
    )
    return hosted


@contextmanager
def server(
    folder: Path,
    policy: str = "",
    concurrent: int = 2,
    world: World | None = None,
    make_toolbox: Callable[[World], Toolbox] = toolbox,
    **settings: Any,
) -> Iterator[Server]:
    """A server on `folder/ws`, with the state that an earlier server left in `folder/state`."""
    root = folder / "ws"
    root.mkdir(exist_ok=True, mode=0o755)
    (root / "in.bin").write_bytes(b"input")
    world = world or World()
    if policy:
        (folder / "policy.toml").write_text(policy, encoding="utf-8")
        settings["policy"] = str(folder / "policy.toml")
    world.gate.set()
    world.engine.set()
    box = make_toolbox(world)
    options = {
        "workspaces": [str(root)],
        "state_dir": str(folder / "state"),
        "approval_wait": 0.0,
        "timeout_seconds": 20.0,
        **settings,
    }
    with running(load_settings(**options), boxes=Toolboxes((box,))) as app:
        hosting = _hosted(app.hosting, world, box, concurrent)
        pipeline = replace(
            app.pipeline,
            execution=replace(app.pipeline.execution, hosting=hosting),
            drafting=replace(app.pipeline.drafting, hosting=hosting),
        )
        try:
            yield Server(replace(app, pipeline=pipeline), world, root)
        finally:
            world.gate.set()
            world.engine.set()
            hosting.host.pool.close()
