"""Rows as calls leave them, for tests of who may see what; nothing runs for them."""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gdal_mcp.approval.model import Approval
from gdal_mcp.approval.store import Approvals
from gdal_mcp.ledger.registry import Artifact, Call, CallEnd, Registry
from tests.mcp.talk import Place


def asked(place: Place, principal: str, *, ttl: float = 600.0, **more: object) -> Approval:
    """An open question of this principal."""
    details = {"sentence": f"{principal} wants convert to write a.tif.", "command": ["gdal", "convert"]}
    given = {
        "plan_digest": secrets.token_hex(32),
        "principal": principal,
        "tool": "convert",
        "summary": "?",
        "effect": "create",
        "workspaces": (str(place.workspace),),
        "details": details,
        **more,
    }
    with approvals(place) as store:
        return store.request(Approval(**given), ttl)


@contextmanager
def approvals(place: Place) -> Iterator[Approvals]:
    with closing(Approvals(place.state / "registry.sqlite")) as store:
        yield store


def published(place: Place, principal: str, path: Path) -> tuple[Call, Artifact]:
    """A call of this principal that is over, and the output it made at `path`."""
    call = Call(
        secrets.token_hex(8), principal, "convert", {"output": path.name}, argv=("gdal", "convert", path.name)
    )
    made = Artifact(path.as_uri(), str(path), path.name, 1, "image/tiff", secrets.token_hex(32))
    with closing(Registry(place.state / "registry.sqlite")) as registry:
        registry.begin_call(call)
        row = {"path": str(path), "kind": "dataset", "wgs84": [[15.0, 41.9, 15.1, 42.0]]}
        registry.finish_call(call.id, CallEnd("OK", outputs=(row,), files=({"path": str(path), "bytes": 1},)))
        return call, registry.add_artifacts(call.id, [made])[0]
