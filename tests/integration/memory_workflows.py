"""Workflows on the in-memory engine: the tool `join` writes the digest of its inputs, and each run of a step is
counted.

`python -m tests.integration.memory_workflows FOLDER STEP` runs the workflow and kills itself when that step has
begun.
"""

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.calls.workflows.check import Checker
from gdal_mcp.calls.workflows.store import StepStore
from gdal_mcp.plan import Command, Draft, Output, Work
from gdal_mcp.toolboxes.base import Arguments, Tool, schema_and_draft
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.toolboxes.preflight import NoPreflight, Preflight
from gdal_mcp.toolboxes.toolbox import Analysis, Answering, Described, Toolbox
from gdal_mcp.tools.workflow import WORKFLOW_CHECK, WORKFLOW_RUN
from sandbox.template import Limits
from tests.engines.memory import Box
from tests.integration.memory_server import (
    Person,
    Server,
    World,
    memory_toolbox,
    request_to,
    server,
    write_outputs,
)
from tests.unit.sandbox.pool_kit import frame, measure_nothing

# two outputs of three steps; `b` depends on `a`, and `c` depends on neither
STEPS = {"a": ["one.bin"], "b": ["${steps.a}"], "c": ["two.bin"]}
MADE_CRS = "EPSG:3857"  # description of each output by the container
PUBLISHED = {"b": "b.bin", "c": "c.bin"}


def document(word: str = "") -> dict[str, Any]:
    """The workflow; `word` is an argument of the step `b`."""
    words = {"a": "", "b": word, "c": ""}
    steps = [
        {
            "id": name,
            "tool": "join",
            "arguments": {"input": inputs, "word": words[name], "output": f"{name}.bin"},
        }
        for name, inputs in STEPS.items()
    ]
    outputs = {
        name: {"from": f"${{steps.{name}}}", "to": to, "overwrite": True} for name, to in PUBLISHED.items()
    }
    return {"workflow": 1, "name": "model", "steps": steps, "outputs": outputs}


def joined(word: str, *inputs: bytes) -> bytes:
    """The content that a step writes."""
    return hashlib.sha256(b"|".join([word.encode(), *inputs])).hexdigest().encode()


class Joining(Arguments):
    input: list[str]
    output: str
    word: str = ""


def _join(arguments: Joining, context: Any) -> Draft:
    sources = tuple(context.workspaces.input(path) for path in arguments.input)
    target = context.workspaces.output(arguments.output)
    output = Output(target, kind="file", replaces=(target,) if target.identity else ())
    name = target.name.partition(".")[0]
    command = Command("join", (name, arguments.word), tuple(map(str, sources)), output.inside)
    return Draft(command, sources, (output,), work=Work("join"))


@dataclass
class Steps(World):
    """The steps that ran. `then` is called when step `at` has begun, before it reads, and `read` before it writes."""

    ran: list[str] = field(default_factory=list)
    at: str = ""
    then: Callable[[], int] = lambda: 0
    read: Callable[[], object] = lambda: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def worker(self, box: Box) -> int:
        if (request := request_to(box, mounts=list(map(_measured, box.template.mounts)))) is None:
            return 0
        code = 0
        if request["program"] == "join":
            name, word = request["argv"][1:3]
            with self.lock:
                self.ran.append(name)
            code = self.then() if name == self.at else 0
            if code == 0:
                data = joined(word, *(Path(path).read_bytes() for path in request["inputs"]))
                if name == self.at:
                    self.read()
                write_outputs(box, request, data)
        box.say(frame(b"F", {"code": code}))
        return code


def _measured(mount: Any) -> dict[str, Any]:
    status = os.stat(mount.host_path) if mount.host_path else None
    return {"target": str(mount.target), "identity": [status.st_dev, status.st_ino] if status else None}


def toolbox(
    _world: World, preflight: Callable[[Limits], Preflight] = lambda _limits: NoPreflight()
) -> Toolbox:
    join = Tool("join", "Join", "Writes.", **schema_and_draft(Joining, _join), writes=True)
    tools = (join, WORKFLOW_CHECK, WORKFLOW_RUN)

    def context(scope: Any) -> Any:
        paths = Paths(scope.workspaces, "outputs", scope.call_id, as_new=scope.as_new)
        return SimpleNamespace(paths=paths, workspaces=scope.workspaces)

    return memory_toolbox(
        tools,
        Analysis(context=context, preflight=preflight),
        Answering(describe=lambda _final, count: (Described({"crs": {"code": MADE_CRS}}),) * count),
        operations=frozenset({"join"}),
    )


@contextmanager
def workflows(folder: Path, world: Steps, box: Callable[[World], Toolbox] = toolbox) -> Iterator[Server]:
    """A server on `folder/ws` with these tools, whose containers measure nothing and have enough memory."""
    with pytest.MonkeyPatch.context() as patch, server(folder, world=world, make_toolbox=box) as served:
        measure_nothing(patch)
        pipeline, operations = served.app.pipeline, served.app.pipeline.operations
        checker = Checker(pipeline.drafting, StepStore(served.app.settings.state.workflows))
        operations["workflow_check"] = replace(operations["workflow_check"], checker=checker)  # type: ignore[type-var]
        operations["workflow_run"] = replace(  # type: ignore[type-var]
            operations["workflow_run"], checker=checker, pipeline=lambda: pipeline
        )
        yield served


async def run(
    memory_server: Server, *, word: str = "", fresh: bool = False, yes: bool | None = True
) -> Reply:
    return await memory_server.call("workflow_run", by=Person(yes), workflow=document(word), fresh=fresh)


def main(folder: Path, step: str, word: str) -> None:
    """Exits with 1 if the step did not run and the workflow still failed."""

    def end() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 1

    with workflows(folder, Steps(at=step, then=end)) as served:
        reply = anyio.run(lambda: run(served, word=word))
    if reply.error is not None:
        sys.exit(str(reply.error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
