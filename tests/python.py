"""The toolbox `python` for tests, in a real server. Its image has to be there: `gdal-mcp setup --toolbox python`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from gdal_mcp.access.identity import local
from gdal_mcp.app import App, running
from gdal_mcp.approval.terminal import Terminal
from gdal_mcp.pipeline import Reply, Request
from gdal_mcp.settings import load_settings
from sandbox.engines.discovery import connect
from sandbox.labels import OWNER

ANN = local("ann")


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[App]:
    """A server with both toolboxes and a workspace that holds one file; afterwards none of its containers is left."""
    root = folder / "ws"
    root.mkdir(exist_ok=True)
    for one in (root, *root.parents[:4]):
        one.chmod(one.stat().st_mode | 0o055)
    (root / "in.txt").write_text("one two")
    (root / "other.txt").write_text("canary")
    asked = {"toolboxes": ["gdal", "python"], "pool_max": 0, **settings}
    image = os.environ.get("GDAL_MCP_IMAGE") or None
    loaded = load_settings(workspaces=[str(root)], state_dir=str(folder / "state"), image=image, **asked)
    with running(loaded) as app:
        yield app
        owner = app.owner.id
    with connect() as client:
        assert client.api.containers(all=True, filters={"label": f"{OWNER}={owner}"}) == []


def called(app: App, code: str, *, approve: bool = True, **arguments: Any) -> Reply:
    approver = Terminal("ann", assume_yes=approve, how="a test")
    request = Request("run_python", {"code": code, **arguments}, ANN, "test", approver)
    reply: Reply = anyio.run(partial(app.pipeline.call, request))
    return reply


def said(app: App, code: str, **arguments: Any) -> Mapping[str, Any]:
    """What the code gave back. It has to succeed."""
    reply = called(app, code, **arguments)
    assert reply.error is None, reply.result
    texts: Mapping[str, Any] = reply.result["untrusted"]
    return texts
