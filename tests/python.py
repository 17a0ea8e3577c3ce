"""The toolbox `python` in a real server.

Tests that need none of its packages use the GDAL image, which every test has; the others need
`gdal-mcp setup --toolbox python`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from gdal_mcp.toolboxes.python.toolbox import environment, python, python_command
from gdal_mcp.toolboxes.surface import Toolboxes
from gdal_mcp.toolboxes.toolbox import ImageSpec
from sandbox.engines.discovery import connect
from sandbox.labels import OWNER
from sandbox.program import delivered
from sandbox.template import Limits, SandboxTemplate
from tests import calling
from tests.boxes import GDAL

ROOMY = Limits(memory_bytes=1 << 30, scratch_bytes=32 << 20, wall_seconds=60.0)


def like_run_python(template: SandboxTemplate, limits: Limits = ROOMY) -> SandboxTemplate:
    """The template of a container like that of `run_python`, but in the image of this template."""
    sent = delivered(python_command())
    return replace(
        template, command=sent.command, program=sent.program, limits=limits, environment=environment(limits)
    )


def request(code: str, seconds: float = 50.0, **more: Any) -> dict[str, Any]:
    """The request that such a container receives."""
    defaults = {"code": code, "arguments": {}, "named": {}, "written": {}, "inputs": [], "outputs": []}
    bounds = {"seconds": seconds, "preview_pixels": 512, "printed_bytes": 1 << 20, "result_bytes": 1 << 20}
    return {**defaults, **bounds, **more}


@contextmanager
def serving(folder: Path, spec: ImageSpec = GDAL_IMAGE, **settings: Any) -> Iterator[App]:
    """A server with both toolboxes and a workspace with two files, which must leave no containers."""
    root = folder / "ws"
    root.mkdir(exist_ok=True)
    for path in (root, *root.parents[:4]):
        path.chmod(path.stat().st_mode | 0o055)
    for name, text in {"in.txt": "one two", "other.txt": "canary"}.items():
        (root / name).write_text(text)
        (root / name).chmod(0o666)
    options = {"toolboxes": ["gdal", "python"], "pool_max": 0, "approval_wait": 0, **settings}
    image = os.environ.get("GDAL_MCP_IMAGE") or None
    loaded = load_settings(workspaces=[str(root)], state_dir=str(folder / "state"), image=image, **options)
    box = replace(python(loaded), image=spec)
    with running(loaded, boxes=Toolboxes((GDAL, box))) as app:
        owner = app.owner.id
        yield app
    with closing(connect()) as client:
        assert client.api.containers(all=True, filters={"label": f"{OWNER}={owner}"}) == []


def called(app: App, code: str, *, approve: bool = True, **arguments: Any) -> Reply:
    return calling.called(app, "run_python", {"code": code, **arguments}, calling.person(yes=approve))


def returned_texts(app: App, code: str, **arguments: Any) -> Mapping[str, Any]:
    """The untrusted part of the code's result. The call must succeed."""
    reply = called(app, code, **arguments)
    assert reply.error is None, reply.result
    texts: Mapping[str, Any] = reply.result["untrusted"]
    return texts
