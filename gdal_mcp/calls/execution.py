"""Runs a plan: staging, the container, publication. Blocking; called in a thread."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from gdal_mcp.calls.translation import explain, judge, reported, stderr_of
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.answers.described import Described, described
from gdal_mcp.gdal.answers.printed import read_json
from gdal_mcp.gdal.datasets.scope import ADVICE
from gdal_mcp.gdal.preflight.service import crs_named
from gdal_mcp.host.hosting import Host, Hosting
from gdal_mcp.plan import Draft, Output, Plan
from gdal_mcp.settings import Settings
from gdal_mcp.untrusted import clean_text, clean_value
from sandbox.errors import EngineUnavailable, ImageMissing, SandboxError, StagingFailed
from sandbox.outcome import Cancelled, SandboxResult, Usage
from sandbox.outputs.store import OutputFolder, Publication, Published
from sandbox.pool.lease import Lease
from sandbox.runner import Job
from sandbox.slot import LaunchCancelled
from sandbox.waiting import Cancellation
from sandbox.workspace import Located, Workspace, open_folder

MAX_PREVIEW = 4 << 20  # bytes; a photograph of 1024 x 1024 pixels stays below that as PNG
_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class Done:
    """A call that succeeded. Everything textual in it is cleaned; `outputs` are in the order of the draft's."""

    usage: Usage
    printed: str
    parsed: Any
    stderr: str
    outputs: tuple[Described, ...]
    messages: tuple[str, ...]  # what GDAL reported
    gdal_version: str
    return_code: int | None = None  # of algorithms that answer with one
    published: Published | None = None
    preview: bytes | None = None


class CallLog(Protocol):
    """Where a call's own figures are noted."""

    usage: Usage | None
    ended: "Done | ToolError | None"  # noted as soon as it is published, whatever fails behind that

    def lap(self, name: str, since: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Run:
    """One plan on its way through a container. `on_progress` is called from the thread that runs it."""

    plan: Plan
    host: Host
    on_progress: Callable[[float, str], None]
    log: CallLog
    cancel: Cancellation
    # told what the container says of the inputs before it works, in the same thread; raises ToolError to end the job
    heard: Callable[[Mapping[str, Any]], None] = lambda _value: None


@dataclass(frozen=True, slots=True)
class Ways:
    """The steps that some kinds of calls take in a way of their own."""

    copies: Callable[[Draft], bool]  # whether anything is copied to staging before the job
    copy_in: Callable[[Plan, OutputFolder, Callable[[Path], Path]], None]  # the last is `Hosting.seen`
    publish: Callable[[Run, OutputFolder], Published]
    failed: Callable[[ToolError], ToolError] = lambda error: error  # what the caller is told instead


@dataclass(frozen=True, slots=True)
class Execution:
    """Runs plans on the host that the hosting found."""

    settings: Settings
    hosting: Hosting
    ways: Ways = field(default_factory=lambda: ORDINARY)

    def run(self, run: Run) -> Done | ToolError:
        """What became of the plan. Never raises for what a job, the engine or a file did."""
        try:
            begun = time.monotonic()
            with self._lease(run) as lease:
                run.log.lap("claim", begun)
                done = self._answered(run, lease)
                return done if lease.staging is None else self._published(run, lease.staging, done)
        except LaunchCancelled:
            return ended_before()
        except SandboxError as error:
            if isinstance(error, EngineUnavailable | ImageMissing):
                self.hosting.lost()
            return run.log.ended or explain(error, Stage.RUN)
        except ToolError as error:
            return self.ways.failed(error)

    def _answered(self, run: Run, lease: Lease) -> Done:
        """What the job said. Raises ToolError when it failed."""
        declined: list[ToolError] = []

        def heard(value: Mapping[str, Any]) -> bool:
            try:
                run.heard(value)
            except ToolError as error:
                declined.append(error)
            return not declined

        result = lease.run(replace(self._job(run, lease), on_interim=heard), run.cancel)
        run.log.usage = result.usage
        run.log.lap("run", time.monotonic() - result.usage.run_seconds)
        if declined:
            raise declined[0]
        if failure := judge(result, writes=lease.staging is not None):
            raise self._with_places(failure, run.plan)
        done = self._done(run.plan, result)
        if run.plan.draft.verify is not None:
            run.plan.draft.verify(done.parsed)
        return done

    def _published(self, run: Run, staging: OutputFolder, done: Done) -> Done:
        begun = time.monotonic()
        try:
            published = self.ways.publish(run, staging)
        except SandboxError as error:
            raise explain(error, Stage.PUBLISH) from error
        run.log.ended = done = replace(done, published=published)
        run.log.lap("publish", begun)
        return done

    @property
    def _pictures(self) -> bool:
        """A picture can show words, so that a server in lockdown makes none."""
        return self.settings.preview and not self.settings.lockdown

    def _lease(self, run: Run) -> Lease:
        """A started container for this call alone."""
        plan, host = run.plan, run.host
        for output in plan.draft.outputs:
            if output.server_named:
                _make_outputs_folder(output.target)
        root = home(plan.draft).root if plan.draft.writes else None
        kind = self.hosting.kind(host.image, root, plan.confines)
        alone = self.settings.mount_scope == "inputs"  # a container that waits has the mounts of no call
        return (host.pool.start if alone else host.pool.claim)(kind, plan.call_id, run.cancel)

    def _job(self, run: Run, lease: Lease) -> Job:
        """What the container is asked to do, once what it works on lies in its staging."""
        plan, staging = run.plan, lease.staging
        request = self._request(plan)
        job = Job(plan.call_id, lease.template, request, staging, run.on_progress, answers=staging is None)
        if staging is not None and self.ways.copies(plan.draft):
            lease.hold(job)
            self.ways.copy_in(plan, staging, self.hosting.seen)
        return job

    def _request(self, plan: Plan) -> Mapping[str, Any]:
        command = plan.draft.command
        return {
            "program": command.program,
            "argv": command.argv,
            "options": command.options,
            "inputs": command.inputs,
            "output": command.output,
            "as_array": command.as_array,
            "crs": crs_named(plan.draft),
            "sources": tuple(str(located) for located in plan.draft.inputs),
            "outputs": [{"path": output.inside, "kind": output.kind} for output in plan.draft.outputs],
            "preview_pixels": self.settings.preview_pixels if self._pictures else 0,
            **command.extra,
        }

    def _done(self, plan: Plan, result: SandboxResult) -> Done:
        """What the container said, which may be anything, as what a caller is told."""
        final = result.final or {}
        printed = result.stdout.decode("utf-8", "replace")
        return Done(
            usage=result.usage,
            printed=clean_text(printed, len(printed)),
            parsed=_parsed(printed, required=plan.draft.wants_json),
            stderr=self._placed(str(stderr_of(result).get("stderr", "")), plan),
            outputs=described(final, len(plan.draft.outputs)),
            messages=tuple(self._placed(text, plan) for _, text in reported(final)[:_MAX_WARNINGS]),
            gdal_version=clean_text(str(final.get("gdal_version", "")), 40),
            return_code=_return_code(final),
            preview=_picture(result.attachments.get("preview.png", b"")),
        )

    @staticmethod
    def _placed(text: str, plan: Plan) -> str:
        """GDAL names an output by its place in the container; the caller knows it by its own."""
        for output in plan.draft.outputs:
            text = text.replace(output.inside, str(output.target))
        return text

    def _with_places(self, failure: ToolError, plan: Plan) -> ToolError:
        def placed(value: Any) -> Any:
            return (
                [placed(item) for item in value]
                if isinstance(value, list)
                else self._placed(str(value), plan)
            )

        untrusted = {key: placed(value) for key, value in failure.untrusted.items()}
        narrow = self.settings.mount_scope == "inputs" and failure.code is Code.GDAL_ERROR
        suggestion = f"{failure.suggestion} {ADVICE}" if narrow else failure.suggestion
        return ToolError(failure.code, failure.stage, failure.message, suggestion, untrusted)


def ended_before() -> ToolError:
    """Of a call that was cancelled while its container was not ready."""
    failure = judge(SandboxResult(Cancelled(), Usage("cold")))
    assert failure is not None
    return failure


def _make_outputs_folder(target: Located) -> None:
    """The folder for outputs that nobody named, owned as the workspace is."""
    with open_folder(target.workspace, PurePosixPath()) as root:
        name = str(target.relative.parent)
        try:
            os.mkdir(name, 0o755, dir_fd=root)
        except FileExistsError:
            return
        except OSError as error:
            raise StagingFailed(
                f"the folder {name} could not be made in {target.workspace.root}: {error.strerror}."
            ) from error
        if os.geteuid() == 0:
            _give_new(name, root)


def _give_new(name: str, root: int) -> None:
    """Gives a folder that was just made to the workspace's owner, who can exchange the name for another at any time."""
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    try:
        with os.scandir(folder) as inside:
            is_new = os.fstat(folder).st_uid == 0 and next(inside, None) is None
        if is_new:  # else it is another, and stays whose it is
            owner = os.fstat(root)
            os.fchown(folder, owner.st_uid, owner.st_gid)
    finally:
        os.close(folder)


def _copies(draft: Draft) -> bool:
    return bool(draft.copies) or any(output.update for output in draft.outputs)


def _copy_in(plan: Plan, staging: OutputFolder, seen: Callable[[Path], Path]) -> None:
    """What the command works on a copy of, and what the host itself copies for it. `seen` as `Hosting.seen`."""
    draft = plan.draft
    updated = (output for output in draft.outputs if output.update)
    worked_on = [(one, one.name) for output in updated for one in (*output.replaces, *output.shared)]
    for located, name in (*worked_on, *((one.source, one.target.name) for one in draft.copies)):
        staging.copy_in(located, name, plan.limits, seen(located.workspace.root))


def publish(run: Run, staging: OutputFolder) -> Published:
    """Publishes what the command left in staging that belongs to an output. Raises ToolError when anything else is there."""
    plan, draft = run.plan, run.plan.draft
    publications = tuple(_publication(one.name, draft) for one in staging.collect(plan.limits))
    gone = (*(old for output in draft.outputs for old in output.replaces), *draft.removes)
    return staging.publish(
        plan.call_id, publications, removes=gone, transfers=draft.transfers, listings=draft.listings
    )


ORDINARY: Ways = Ways(_copies, _copy_in, publish)


def home(draft: Draft) -> Workspace:
    """The workspace that a draft writes to."""
    places = (
        *(output.target for output in draft.outputs),
        *(one.target for one in draft.transfers),
        *draft.removes,
    )
    return places[0].workspace


def _publication(name: str, draft: Draft) -> Publication:
    """Where a staged name goes. Raises ToolError for one that belongs to no output, or would replace a stranger."""
    output = _owner(name, draft.outputs)
    if output is None:
        raise _rejected(name, "the command wrote a file that does not belong to the output")
    known = {located.name: located for located in (*output.replaces, *output.shared)}
    if name in known:
        return Publication(name, known[name])
    if os.path.lexists(output.target.path.parent / name):
        raise _rejected(name, "a file of the output would replace one that is no part of the old output")
    return Publication(name, Located(output.target.workspace, output.target.relative.parent / name))


def _owner(name: str, outputs: tuple[Output, ...]) -> Output | None:
    """The output that a name belongs to: itself, or a companion such as `dem.tif.aux.xml`, else `dem.hdr`."""
    for fits in (_is_output, _is_appended, _has_stem):
        found = [output for output in outputs if fits(name, output.target.name)]
        if found:
            folders = {output.target.path.parent for output in found}
            return found[0] if len(folders) == 1 else None
    return None


def _is_output(name: str, target: str) -> bool:
    return name == target


def _is_appended(name: str, target: str) -> bool:
    return name.startswith(f"{target}.")


def _has_stem(name: str, target: str) -> bool:
    stem = target.rsplit(".", 1)[0]
    return name == stem or name.startswith(f"{stem}.")  # the pixels of `x.ers` are in `x`


def _rejected(name: str, why: str) -> ToolError:
    return ToolError(
        Code.OUTPUT_REJECTED,
        Stage.PUBLISH,
        f"{why}, so nothing was published.",
        "Choose another name for the output; that of the file is under `untrusted`.",
        {"name": clean_text(name, 255)},
    )


def _return_code(final: Mapping[str, Any]) -> int | None:
    code = final.get("return_code")
    return code if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 1 << 31 else None


def _picture(data: bytes) -> bytes | None:
    return data if data.startswith(_PNG) and len(data) <= MAX_PREVIEW else None


def _parsed(text: str, *, required: bool) -> Any:
    """What is printed as JSON, cleaned; None for other text unless JSON is `required`."""
    if not required and not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return clean_value(read_json(text))
    except (ValueError, RecursionError) as error:
        if not required:
            return None
        raise ToolError(
            Code.GDAL_ERROR,
            Stage.RENDER,
            "GDAL's report is not JSON that can be read.",
            "Ask for the text format.",
        ) from error
