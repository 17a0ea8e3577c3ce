"""Uploads: a file is received, checked in a container, and then published like any output.

Invariants:
* The received file is stored in a separate staging folder that no container sees. It is deleted however the upload
  ends.
* An upload is a call, with the same policy, approval, limits, records and undo. Its plan includes the digest of the
  bytes.
* The container opens a copy. The received bytes are published unchanged.

Approval is requested after the bytes have arrived, because it is bound to their digest. The bytes are not stored
while a person decides: after approval, the client sends the same bytes again within `approval_valid` seconds.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gdal_mcp.approvals.model import NullApprover
from gdal_mcp.calls.entitlements import Entitlements
from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.calls.operation import Operation
from gdal_mcp.calls.pipeline import Reply, Request
from gdal_mcp.calls.refusals import denied, reads_only
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft, Output
from gdal_mcp.policy.identity import Principal
from gdal_mcp.server.app import App
from gdal_mcp.settings.types import size_text
from gdal_mcp.toolboxes.base import Tool
from sandbox.outputs.copying import is_nearly_full
from sandbox.outputs.staging import Staging, StagingArea
from sandbox.outputs.store import Published
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspace, open_folder

UPLOAD: Final = "upload"  # name of the tool in the policy, questions and records
CLIENT: Final = "HTTP upload"  # name of the client in the records


@dataclass(eq=False)
class Reception:
    """A file that is being received: `size` of at most `_most` bytes so far, written to the open `_file`."""

    staging: Staging
    name: str
    _file: int
    _most: int
    size: int = 0
    _digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Appends bytes. Raises ToolError if the file becomes too large or the disk is full."""
        if self.size + len(piece) > self._most:
            raise too_large(self._most)
        self.size += len(piece)
        self._digest.update(piece)
        rest = memoryview(piece)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise ToolError(
                Code.DISK_LIMIT,
                Stage.RUN,
                f"the upload cannot be stored: {error.strerror}.",
                "Ask the person who runs the server to make room.",
            ) from error
        if is_nearly_full(os.fstatvfs(self._file)):
            raise ToolError(
                Code.DISK_LIMIT,
                Stage.RUN,
                "the disk of the workspace is nearly full, so the upload is not stored.",
                "Ask the person who runs the server to make room.",
            )


def too_large(most: int) -> ToolError:
    return ToolError(
        Code.OUTPUT_LIMIT,
        Stage.VALIDATE,
        f"the file is larger than {size_text(most)}, the most that this server accepts.",
        "Send a smaller one, or ask the person who runs the server.",
    )


@contextmanager
def reception(area: StagingArea, name: str, user: tuple[int, int], most: int) -> Iterator[Reception]:
    """Receives up to `most` bytes into a file of this name, which is deleted on exit. Raises SandboxError."""
    with area.open(f"upload-{secrets.token_hex(10)}", user) as staging:
        folder = PurePosixPath(staging.path.relative_to(area.workspace.root))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open_folder(area.workspace, folder) as opened:
            file = os.open(name, flags, 0o600, dir_fd=opened)
        try:
            yield Reception(staging, name, file, most)
        finally:
            os.close(file)


@dataclass(frozen=True, kw_only=True)
class Upload(Operation):
    """A call that checks a copy of the received file in a container and publishes the file itself."""

    received: Reception

    def copies(self, _draft: Draft) -> bool:
        return True

    def copy_in(
        self,
        call: Invocation,
        staging: Staging,
        _mount_source: Callable[[Path], Path],
        check_cancelled: Callable[[], object],
    ) -> None:
        staging.copy_from(self.received.staging, self.received.name, call.plan.limits, check_cancelled)

    def publish(self, call: Invocation, _staging: Staging, cancel: Cancellation) -> Published:
        return super().publish(call, self.received.staging, cancel)

    def explain(self, error: ToolError) -> ToolError:
        if error.code not in (Code.GDAL_ERROR, Code.TOOL_ERROR):
            return error
        return ToolError(
            Code.OUTPUT_REJECTED,
            Stage.RUN,
            "the upload cannot be read as a dataset, so nothing was published.",
            "Send one whole file of a format that can be read; a shapefile in parts is sent as .shz or .shp.zip.",
            error.untrusted,
        )


@dataclass(frozen=True)
class Destination:
    """The target of an upload, determined before the file is sent."""

    area: StagingArea
    output: Output
    most: int  # bytes


def upload_tool(app: App) -> Tool:
    """The tool of the first toolbox that can check uploaded files. Raises ToolError if there is none."""
    for toolbox in app.toolboxes.items:
        if toolbox.upload is not None:
            return toolbox.upload
    raise denied("no toolbox of this server can check uploaded files")


def draft_upload(app: App, reach: Entitlements, principal: str, arguments: Mapping[str, Any]) -> Draft:
    """The draft of an upload with these arguments. Raises ToolError."""
    tool = upload_tool(app)
    toolbox = reach.surface.toolboxes[tool.name]
    draft = tool.draft(
        arguments, toolbox.analysis.context(app.pipeline.drafting.scope(reach, toolbox, principal, ""))
    )
    assert isinstance(draft, Draft)
    return draft


@dataclass(frozen=True)
class Uploads:
    app: App

    def workspaces(self, who: Principal) -> tuple[Workspace, ...]:
        """All workspaces of this principal. Raises ToolError."""
        return self.app.entitlements.of(who.id).workspaces.items

    def destination(self, who: Principal, place: tuple[Workspace, str], declared: int | None) -> Destination:
        """Checks an upload before the file is sent. Raises ToolError.

        `place` is a path below a workspace, and `declared` the size that the client states.
        """
        reach = self.app.entitlements.of(who.id)
        if reach.settings.read_only:
            raise reads_only()
        entry = reach.entry
        permitted = (
            entry is None
            or entry.tools is None
            or any(fnmatchcase(UPLOAD, pattern) for pattern in entry.tools)
        )
        excluded = entry is not None and any(fnmatchcase(UPLOAD, pattern) for pattern in entry.exclude_tools)
        if not reach.surface.permits(UPLOAD) or not permitted or excluded:
            raise denied("you may not upload")
        path = f"{place[0].root}/{place[1]}"
        arguments = {"path": path, "bytes": declared or 0, "sha256": "0" * 64, "overwrite": True}
        output = draft_upload(self.app, reach, who.id, arguments).outputs[0]
        most = min(self.app.settings.upload_size, reach.limits.file_bytes, reach.limits.staging_bytes)
        if declared is not None and declared > most:
            raise too_large(most)
        allowed = entry.output_bytes_a_day if entry is not None else None
        written = self.app.pipeline.rates.used(who.id)[1] if allowed is not None else 0
        if allowed is not None and written + (declared or 0) > allowed:
            raise ToolError(
                Code.RATE_LIMITED,
                Stage.QUEUE,
                f"you may write {size_text(allowed)} a day, and this file would exceed that.",
                "Send it tomorrow (UTC), or ask the person who runs the server.",
            )
        return Destination(self.app.areas[output.target.workspace.root], output, most)

    async def publish(
        self, who: Principal, to: Destination, received: Reception, *, overwrite: bool, peer: str = ""
    ) -> Reply:
        """Runs the call. Returns at once if it still needs approval. `peer` is the client's network address."""
        arguments = {
            "path": str(to.output.target),
            "bytes": received.size,
            "sha256": received.sha256,
            "overwrite": overwrite,
        }
        upload = Upload(tool=upload_tool(self.app), approval_wait=0.0, received=received)
        request = Request(UPLOAD, arguments, who, CLIENT, NullApprover(), operation=upload, peer=peer)
        return await self.app.pipeline.call(request)

    def refused(self, who: Principal, path: str, error: ToolError, peer: str = "") -> dict[str, Any]:
        """Records an upload that did not become a call, and returns the error for its sender."""
        call = Invocation(Request(UPLOAD, {"path": path}, who, CLIENT, NullApprover(), peer=peer)).failed(
            error
        )
        self.app.pipeline.records.record_end(call)
        return error.as_dict(call.call_id)
