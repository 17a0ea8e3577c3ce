"""Files that come in from outside: received, looked at in a container, then published like any output.

Invariants:
* what arrives lies in a staging folder of its own that no container sees, and is gone again however the upload ends;
* an upload is a call: the same policy, approval, bounds, records and undo, with the digest of the bytes in its plan;
* the container opens a copy; what is published is what arrived, byte for byte.

The bytes come first and the question second, since only their digest says what is asked for. They are not kept while a
person decides: once there is a yes, the same bytes are sent again.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from pydantic import Field

from gdal_mcp.access.identity import Principal
from gdal_mcp.access.policy import Entry
from gdal_mcp.app import App
from gdal_mcp.approval.model import Nobody
from gdal_mcp.approval.waiting import Patience
from gdal_mcp.calls.execution import Ways, publish
from gdal_mcp.calls.refusals import denied, reads_only
from gdal_mcp.entitlements import EntitlementResolver, Entitlements, bounds_of
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.datasets.paths import Paths, refuse_other_name
from gdal_mcp.pipeline import Pipeline, Reply, Request, Ticket
from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed
from sandbox.outputs.staging import is_low
from sandbox.outputs.store import OutputFolder, OutputStore
from sandbox.workspace import Identity, Located, Workspace, open_folder

UPLOAD: Final = "upload"  # the name of the tool in policy, questions and records
_ID_BYTES: Final = 10


class UploadArguments(Arguments):
    path: str = Field(description="Where it goes, absolute")
    bytes: int
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    overwrite: bool = True


def _draft(arguments: UploadArguments, desk: DraftContext) -> Draft:
    """The words of the command say what is approved; the program needs only the name."""
    output = _output(desk.paths, arguments.path, overwrite=arguments.overwrite)
    told = (f"--bytes={arguments.bytes}", f"--sha256={arguments.sha256}")
    command = Command("identify", told, (output.inside,), layout="inputs-output")
    return Draft(command, (), (output,), wants_json=True, verify=_require_driver)


def _output(paths: Paths, path: str, *, overwrite: bool) -> Output:
    """Raises ToolError."""
    output = paths.output(path, inputs=(), overwrite=overwrite)
    if output.target.is_folder:
        raise ToolError(
            Code.INVALID_ARGUMENT,
            Stage.RESOLVE,
            f"{output.target.name} is a folder.",
            "Send the file to a name of its own.",
        )
    return output


def _require_driver(report: Any) -> None:
    if not (isinstance(report, dict) and report and all(report.values())):
        raise unreadable({})


def unreadable(untrusted: Mapping[str, Any]) -> ToolError:
    return ToolError(
        Code.OUTPUT_REJECTED,
        Stage.RUN,
        "GDAL cannot read what was sent as a dataset, so nothing was published.",
        "Send one whole file of a format that GDAL reads; a shapefile in parts is sent as .shz or .shp.zip.",
        untrusted,
    )


TOOL: Final = Tool(
    name=UPLOAD,
    title="Take a file in",
    description="Publishes a file that was sent over HTTP, once GDAL could read it.",
    schema=schema_of(UploadArguments),
    draft=typed(UploadArguments, _draft),
    writes=True,
    replaces=True,
)


@dataclass(frozen=True, slots=True)
class Received:
    """A file that has arrived whole."""

    staging: OutputFolder
    located: Located
    size: int  # bytes
    sha256: str


class Reception:
    """A file while it arrives. Not for several threads at once."""

    def __init__(self, staging: OutputFolder, place: Located, file: int, most: int) -> None:
        self._staging = staging
        self._place = place
        self._file = file
        self._left = most
        self._digest = hashlib.sha256()

    def write(self, pieces: Iterable[bytes]) -> None:
        """Appends. Raises ToolError when it is too much, or the disk is full."""
        for piece in pieces:
            self._left -= len(piece)
            if self._left < 0:
                raise too_large()
            self._digest.update(piece)
            self._append(memoryview(piece))
        if is_low(os.fstatvfs(self._file)):
            raise ToolError(
                Code.DISK_LIMIT,
                Stage.RUN,
                "the disk of the workspace is nearly full, so what was sent is not stored.",
                "Ask the person who runs the server to make room.",
            )

    def _append(self, rest: memoryview) -> None:
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise ToolError(
                Code.DISK_LIMIT,
                Stage.RUN,
                f"what was sent cannot be stored: {error.strerror}.",
                "Ask the person who runs the server to make room.",
            ) from error

    def received(self) -> Received:
        """All of it, when no more comes."""
        identity = Identity.of(os.fstat(self._file))
        located = replace(self._place, identity=identity)
        return Received(self._staging, located, identity.size, self._digest.hexdigest())


def too_large() -> ToolError:
    return ToolError(
        Code.OUTPUT_LIMIT,
        Stage.VALIDATE,
        "the file is larger than this server takes.",
        "Send a smaller one, or ask the person who runs the server.",
    )


@contextmanager
def reception(area: OutputStore, name: str, user: tuple[int, int], most: int) -> Iterator[Reception]:
    """Takes up to `most` bytes in as a file of this name; afterwards nothing of it is left. Raises SandboxError."""
    staging_id = f"upload-{secrets.token_hex(_ID_BYTES)}"
    with area.open(staging_id, user) as staging:
        folder = PurePosixPath(staging.path.relative_to(area.workspace.root))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open_folder(area.workspace, folder) as opened:
            file = os.open(name, flags, 0o600, dir_fd=opened)
        try:
            yield Reception(staging, Located(area.workspace, folder / name), file, most)
        finally:
            os.close(file)


def looking(received: Received) -> Ways:
    """A container opens a copy of what was received; what was received is published."""
    name = received.located.name
    return Ways(
        copies=lambda _draft: True,
        copy_in=lambda plan, copy, _seen: copy.copy_from(received.staging, name, plan.limits),
        publish=lambda run, _copy: publish(run, received.staging),
        failed=lambda error: unreadable(error.untrusted) if error.code is Code.GDAL_ERROR else error,
    )


@dataclass(frozen=True)
class _Offering(EntitlementResolver):
    """Everybody's reach, with the tool that clients of the protocol do not have."""

    def of(self, principal: str) -> Entitlements:
        reach = super().of(principal)
        tools = MappingProxyType({**reach.surface.callable, UPLOAD: TOOL})
        return replace(reach, surface=replace(reach.surface, callable=tools))


@dataclass(frozen=True)
class Destination:
    """Where an upload would go, as far as that can be told before it is sent."""

    area: OutputStore
    output: Output
    most: int  # bytes

    @property
    def name(self) -> str:
        return self.output.target.name


@dataclass(frozen=True)
class Uploads:
    """Takes files in for the principals of one server."""

    app: App

    @cached_property
    def _reaches(self) -> EntitlementResolver:
        return _Offering(self.app.reaches.whole, self.app.reaches.policy)

    def workspaces(self, who: Principal) -> tuple[Workspace, ...]:
        """All that this principal has. Raises ToolError."""
        return self.app.reaches.of(who.id).workspaces.items

    def destination(
        self, who: Principal, place: tuple[Workspace, str], declared: int | None, *, overwrite: bool
    ) -> Destination:
        """Looks before anything is sent: `place` is a path below a workspace, `declared` how many bytes are said to come.

        Raises ToolError.
        """
        reach = self.app.reaches.of(who.id)
        if reach.settings.read_only:
            raise reads_only()
        if not reach.surface.permits(UPLOAD) or not _has(reach.entry):
            raise denied("it leaves you no tool upload")
        paths = Paths(reach.workspaces, self.app.settings.outputs_folder, "")
        refuse_other_name(place[1])
        output = _output(paths, f"{place[0].root}/{place[1]}", overwrite=overwrite)
        limits = reach.limits
        most = min(self.app.settings.upload_size, limits.file_bytes, limits.staging_bytes)
        if declared is not None and declared > most:
            raise too_large()
        self._require_allowance(who, reach, declared or 0)
        return Destination(self.app.areas[output.target.workspace.root], output, most)

    def _require_allowance(self, who: Principal, reach: Entitlements, size: int) -> None:
        """What would be refused after it was sent is refused before."""
        allowed = bounds_of(reach).output_bytes_a_day
        if allowed is not None and self.app.pipeline.rates.used(who.id).output_bytes + size > allowed:
            raise ToolError(
                Code.RATE_LIMITED,
                Stage.QUEUE,
                f"you may write {allowed} bytes a day, and that would be more.",
                "Send it tomorrow (UTC), or ask the person who runs the server.",
            )

    @contextmanager
    def reception(self, to: Destination) -> Iterator[Reception]:
        """Raises SandboxError."""
        with reception(to.area, to.name, self.app.hosting.user(), to.most) as opened:
            yield opened

    async def publish(
        self, who: Principal, client: str, to: Destination, received: Received, *, overwrite: bool
    ) -> Reply:
        """Runs the call, which answers at once when it needs a yes that nobody gave yet."""
        arguments = {
            "path": str(to.output.target),
            "bytes": received.size,
            "sha256": received.sha256,
            "overwrite": overwrite,
        }
        return await self._pipeline(received).call(Request(UPLOAD, arguments, who, client, Nobody()))

    def refused(self, who: Principal, client: str, path: str, error: ToolError) -> dict[str, Any]:
        """Records what did not become a call; returns what its sender is told."""
        ticket = Ticket(Request(UPLOAD, {"path": path}, who, client, Nobody()))
        self.app.pipeline.records.finished(ticket, None, error)
        return error.as_dict(ticket.call_id)

    def _pipeline(self, received: Received) -> Pipeline:
        """The server's own, with everything that it counts and records, for this one call."""
        own = self.app.pipeline
        patience = Patience(own.approvals.patience.open_seconds, 0.0)
        return replace(
            own,
            reaches=self._reaches,
            execution=replace(own.execution, ways=looking(received)),
            approvals=replace(own.approvals, patience=patience),
        )


def _has(entry: Entry | None) -> bool:
    """Whether a principal's entry in the policy leaves this tool."""
    if entry is None:
        return True
    named = entry.tools is None or any(fnmatchcase(UPLOAD, one) for one in entry.tools)
    return named and not any(fnmatchcase(UPLOAD, one) for one in entry.exclude_tools)
