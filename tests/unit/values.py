"""Values that several unit tests need, made without a container."""

from pathlib import Path, PurePosixPath
from typing import Any

from gdal_mcp.plan import Command, Draft, Output, Plan
from sandbox.template import Limits
from sandbox.workspace import Identity, Workspace, WorkspacePath

SPACE = Workspace(Path("/data/ws"), writable=True)

RECEIPT = {
    **dict.fromkeys(("toolbox", "image", "engine", "tier", "pool", "plan_digest", "approval"), "told"),
    "call_id": "0123456789abcdef", "image_digest": "sha256:00", "tool_version": "3.13.3",
    "stand_in": False, "network": "none", "remote": [], "seconds": {},
}  # fmt: skip


def located(name: str, size: int | None = 10, inode: int = 1) -> WorkspacePath:
    """A file in a workspace; it does not exist if the size is None."""
    identity = None if size is None else Identity(1, inode, size, 1_000)
    return WorkspacePath(SPACE, PurePosixPath(name), identity)


def output(
    name: str = "out.tif", *, replaces: tuple[str, ...] = (), shared: tuple[str, ...] = (), **more: Any
) -> Output:
    old, also = (tuple(located(name) for name in names) for names in (replaces, shared))
    return Output(located(name, None), replaces=old, shared=also, **more)


def draft(
    target: Output | None = None,
    *,
    inputs: tuple[str, ...] = ("in.tif",),
    options: tuple[str, ...] = ("-of", "GTiff"),
) -> Draft:
    places = tuple(located(name) for name in inputs)
    inside = target.inside if target else None
    return Draft(
        Command("gdal_translate", options, tuple(map(str, places)), inside),
        places,
        (target,) if target else (),
    )


def plan(drafted: Draft | None = None, **more: Any) -> Plan:
    values: dict[str, Any] = {
        "call_id": "0123456789abcdef", "tool": "gdal_translate", "principal": "local:ann",
        "draft": drafted or draft(output()), "limits": Limits(), "image_id": "sha256:00", "runtime": "",
        "mounts": ("/data/ws:ro",), "arguments": {"src_dataset": "in.tif"},
    }  # fmt: skip
    return Plan(**{**values, **more})
