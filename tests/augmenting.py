"""The toolbox `augment` in a real server with its own image, which `gdal-mcp setup --toolbox augment` builds."""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from gdal_mcp.approvals.model import Terminal
from gdal_mcp.calls.pipeline import Reply, Request
from gdal_mcp.policy.identity import local
from gdal_mcp.server.app import App, running
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.augment import drafts
from gdal_mcp.toolboxes.augment.steps import Parsed, TransformStep
from gdal_mcp.toolboxes.augment.toolbox import IMAGE
from sandbox.engines.discovery import connect

ANN = local("ann")


def in_image(code: str, **volumes: str) -> Any:
    """The JSON that a program prints in a container of the toolbox's image, without network.

    `volumes` maps names of variables to folders of the host. In the program, each variable is the folder's path.
    """
    packages = "import json, sys\nsys.path.insert(0, '/opt/gdal-mcp/packages')\n"
    places = "".join(f"{name} = '/{name}'\n" for name in volumes)
    with closing(connect()) as client:
        output = client.containers.run(
            IMAGE.spec.reference,
            ["python3", "-c", packages + places + code],
            network_mode="none",
            remove=True,
            volumes={place: {"bind": f"/{name}", "mode": "rw"} for name, place in volumes.items()},
        )
    return json.loads(output or b"null")


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[App]:
    root = folder / "ws"
    root.mkdir(exist_ok=True)
    for path in (root, *root.parents[:4]):
        path.chmod(path.stat().st_mode | 0o055)
    image = os.environ.get("GDAL_MCP_IMAGE") or None
    options = {"toolboxes": ["gdal", "augment"], "pool_max": 0, "approval_wait": 0, **settings}
    loaded = load_settings(workspaces=[str(root)], state_dir=str(folder / "state"), image=image, **options)
    with running(loaded, boxes=toolboxes(loaded)) as app:
        yield app


def called(
    app: App, tool: str, *, who=ANN, on_progress=lambda _fraction, _message: None, **arguments: Any
) -> Reply:
    approver = Terminal("ann", assume_yes=True, how="a test")
    request = Request(tool, arguments, who, "test", approver, on_progress)
    reply: Reply = anyio.run(partial(app.pipeline.call, request))
    return reply


@contextmanager
def parsed_as(*steps: TransformStep) -> Iterator[None]:
    """Every prompt means these steps, so tests of the steps need no wording for them."""
    before = drafts.parse
    drafts.parse = lambda _prompt: Parsed(steps=steps)
    try:
        yield
    finally:
        drafts.parse = before
