"""Runs a plan: staging, the container, publication. Blocking; called in a thread."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import structlog

from gdal_mcp.calls.invocation import Invocation, JobResult, Outcome, seconds_since
from gdal_mcp.calls.refusals import failed
from gdal_mcp.calls.translation import clean_messages, explain, judge, stderr_of, unreported_stderr
from gdal_mcp.errors import Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.remote.address import Address
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.remote.places import restore_addresses
from gdal_mcp.remote.reading import RemoteReading
from gdal_mcp.runtime.hosting import Hosting
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.pictures import checked_png
from gdal_mcp.toolboxes.preflight import Report
from gdal_mcp.toolboxes.toolbox import Toolbox
from gdal_mcp.toolboxes.untrusted import clean_text, clean_value
from sandbox.errors import EngineUnavailable, ImageMissing, LaunchCancelled, SandboxError, StagingFailed
from sandbox.outcome import Cancelled, SandboxResult, Usage
from sandbox.outputs.staging import Staging
from sandbox.parsing import require_simple
from sandbox.pool.lease import Lease
from sandbox.runner import Job
from sandbox.slot import READY_SECONDS
from sandbox.waiting import Cancellation
from sandbox.workspace import Workspace, WorkspacePath, open_folder

_MAX_MESSAGES = 20
_log = structlog.get_logger()
_MAX_VALUES = 1_000_000  # members and elements that printed JSON may have; its lists are cut to 20,000 later
# codes of checks that explain why a call failed
_FAILS = frozenset({"no_overlap", "all_pairs", "geometry_left_out"})


@dataclass(slots=True)
class _RunResults:
    """The results of a run so far."""

    preflight: Report
    durations: dict[str, float] = field(default_factory=dict)
    usage: Usage | None = None
    done: JobResult | None = None
    reading: RemoteReading | None = None

    def outcome(self, error: ToolError | None) -> Outcome:
        remote = self.reading.record() if self.reading is not None else ()
        hosts = tuple(self.reading.call.by_host()) if self.reading is not None else ()
        return Outcome(self.done, error, self.usage, self.preflight, remote, hosts, self.durations)


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs plans on the host that the hosting found."""

    settings: Settings
    hosting: Hosting
    gateway: RemoteGateway

    def run(
        self, call: Invocation, cancel: Cancellation, begin: Callable[[], None] = lambda: None
    ) -> Outcome:
        """The outcome of the plan. Does not raise for a failure of the job, the engine or a file.

        `begin` is called before anything is done in the container; its ToolError ends the call.
        """
        results = _RunResults(call.preflight)
        try:
            self._run(call, results, cancel, begin)
        except LaunchCancelled:
            ended = judge(SandboxResult(Cancelled(), Usage("cold")), call.toolbox)
            assert ended is not None
            return results.outcome(ended)
        except SandboxError as error:
            if isinstance(error, EngineUnavailable | ImageMissing):
                self.hosting.failed(call.host)
            return results.outcome(None if results.done else explain(error, Stage.RUN))
        except ToolError as error:
            return results.outcome(None if results.done else call.request.operation.explain(error))
        except (
            Exception
        ):  # once outputs are published, even an internal error must not hide them from the records
            if results.done is None:
                raise
            _log.exception("call_failed", call=call.call_id, tool=call.request.tool)
            return results.outcome(failed(call.call_id, published=True))
        return results.outcome(None)

    def _run(
        self, call: Invocation, results: _RunResults, cancel: Cancellation, begin: Callable[[], None]
    ) -> None:
        """Runs the plan and fills `results`. Raises ToolError, SandboxError, LaunchCancelled."""
        draft, started = call.plan.draft, time.monotonic()
        with self._reading(call) as results.reading, self._lease(call, cancel) as lease:
            results.durations["claim"] = seconds_since(started)
            begin()
            declined: list[ToolError] = []
            result = lease.run(self._job(call, lease, results, declined, cancel), cancel)
            results.usage = result.usage
            results.durations["run"] = round(result.usage.run_seconds, 6)
            if declined:
                raise declined[0]
            if results.reading is not None:
                results.reading.require_read(result.outcome)
            if failure := judge(result, call.toolbox, writes=lease.staging is not None):
                raise self._enrich_error(failure, result, call, results)
            done = self._done(call, result)
            if draft.printed.verify is not None:
                draft.printed.verify(done.parsed)
            if lease.staging is not None:
                started = time.monotonic()
                done = self._published(call, lease.staging, done, cancel)
                results.durations["publish"] = seconds_since(started)
                results.done = done  # set before anything else can fail
        results.done = done

    @contextmanager
    def _reading(self, call: Invocation) -> Iterator[RemoteReading | None]:
        """The reader of a call's remote data, or None if it has none. The data is located while a container is
        claimed.
        """
        plan = call.plan
        if not plan.draft.addresses or not call.request.operation.reads_remote:
            yield None
            return
        deadline = time.monotonic() + plan.limits.wall_seconds + READY_SECONDS
        who = {"principal": plan.principal, "call_id": plan.call_id}
        within = call.authorization.reads
        with closing(
            self.gateway.open(plan.draft.addresses, **who, deadline=deadline, within=within)
        ) as reading:
            yield reading

    def _lease(self, call: Invocation, cancel: Cancellation) -> Lease:
        plan, host = call.plan, call.host
        for output in plan.draft.outputs:
            if output.server_named:
                _make_outputs_folder(output.target)
        root = home(plan.draft).root if plan.draft.writes else None
        kind = self.hosting.kind(host, root, plan.confines)
        # a waiting slot mounts whole workspaces or none, so a call that sees only parts of them starts its own
        # container
        alone = plan.confines.places not in (None, ())
        return (host.pool.start if alone else host.pool.claim)(kind, plan.call_id, cancel)

    def _job(
        self,
        call: Invocation,
        lease: Lease,
        results: _RunResults,
        declined: list[ToolError],
        cancel: Cancellation,
    ) -> Job:
        """The job for the container, after the files that the job changes were copied to the staging folder.

        The container describes the inputs before it works, and that description is checked. A refusal ends the job
        and is added to `declined`.
        """

        def judge_inputs(value: Mapping[str, Any]) -> bool:
            preflight = call.entitlements.preflights[call.toolbox.name]
            try:
                results.preflight = preflight.check_described(call.plan.draft, value)
            except ToolError as error:
                declined.append(error)
            return not declined

        plan, staging, operation = call.plan, lease.staging, call.request.operation
        # a picture can contain text, so a server in lockdown makes none
        pictures = self.settings.preview and not self.settings.lockdown
        job = Job(
            plan.call_id,
            lease.template,
            call.toolbox.execution.request(
                operation.job(plan.draft), self.settings.preview_pixels if pictures else 0
            ),
            staging,
            # the caller's code can write anything into its messages, and people see them outside `untrusted`
            call.report_fraction if plan.draft.review.code else call.report_progress,
            on_interim=judge_inputs,
            answerer=results.reading,
            result_only=staging is None,
        )

        def check_cancelled() -> None:
            if cancel.is_set:
                raise LaunchCancelled("cancelled before its inputs were copied")

        if staging is not None and operation.copies(plan.draft):
            operation.copy_in(call, staging, self.hosting.templates.mount_source, check_cancelled)
        return job

    @staticmethod
    def _published(call: Invocation, staging: Staging, done: JobResult, cancel: Cancellation) -> JobResult:
        try:
            published = call.request.operation.publish(call, staging, cancel)
        except SandboxError as error:
            raise explain(error, Stage.PUBLISH) from error
        return replace(done, published=published)

    def _done(self, call: Invocation, result: SandboxResult) -> JobResult:
        """The result for the caller, from the container's untrusted answer."""
        toolbox, draft = call.toolbox, call.plan.draft
        final = result.final or {}
        printed = restore_addresses(result.stdout.decode("utf-8", "replace"), draft.addresses)
        parsed = _parsed(printed, toolbox, required=draft.printed.is_json)
        library_messages, outputs = (
            clean_messages(final),
            toolbox.answering.describe(final, len(draft.outputs)),
        )
        summary = toolbox.answering.summarize(library_messages, outputs, final.get("checks"))
        return JobResult(
            usage=result.usage,
            printed=clean_text(printed, len(printed)),
            parsed=_to_addresses(parsed, draft.addresses) if draft.addresses else parsed,
            stderr=_to_host_paths(unreported_stderr(stderr_of(result), library_messages), draft),
            outputs=outputs,
            checks=summary.checks,
            messages=tuple(_to_host_paths(text, draft) for text in summary.texts[:_MAX_MESSAGES]),
            tool_version=clean_text(toolbox.execution.tool_version(final), 40),
            return_code=_return_code(final),
            settings=_settings(final.get("settings"), toolbox.execution.answer_settings),
            preview=checked_png(result.attachments.get("preview.png", b"")),
            attached=result.attachments,
            figures=tuple(
                picture
                for name, data in sorted(result.attachments.items())
                if name.startswith("figure-") and (picture := checked_png(data))
            ),
        )

    def _enrich_error(
        self, failure: ToolError, result: SandboxResult, call: Invocation, results: _RunResults
    ) -> ToolError:
        """The error with the toolbox's explanation, if it has one, and with paths of the host."""
        toolbox, draft = call.toolbox, call.plan.draft
        explains = failure.code is toolbox.answering.failure and result.final is not None
        if explanation := toolbox.answering.explain(draft, result.final or {}) if explains else None:
            details = failure.stage, explanation.message, explanation.suggestion, failure.untrusted
            failure = ToolError(explanation.code, *details, check=explanation.check)

        def placed(value: Any) -> Any:
            if isinstance(value, list):
                return [placed(item) for item in value]
            return _to_host_paths(str(value), draft)

        untrusted = {key: placed(value) for key, value in failure.untrusted.items()}
        narrow = self.settings.mount_scope == "inputs" and failure.code is toolbox.answering.failure
        rows = (finding.as_dict() for finding in results.preflight.findings)
        foreseen = next((row for row in rows if row["code"] in _FAILS), None)
        message, advice = failure.message, failure.suggestion
        if foreseen:
            reason, advice = foreseen["message"], foreseen["suggestion"]
            message = f"{message} {reason[:1].upper()}{reason[1:]}"
        suggestion = f"{advice} {toolbox.analysis.mount_advice}".strip() if narrow else advice
        return failure.changed(message=message, suggestion=suggestion, untrusted=untrusted)


def _to_host_paths(text: str, draft: Draft) -> str:
    """The text with the names that the caller knows: paths and addresses in place of names inside the container."""
    text = restore_addresses(text, draft.addresses)
    for output in draft.outputs:
        text = text.replace(output.inside, str(output.target))
    return text


def _to_addresses(value: Any, addresses: Sequence[Address]) -> Any:
    """Like `restore_addresses`, for JSON, where slashes may be escaped."""
    if isinstance(value, dict):
        return {
            restore_addresses(key, addresses): _to_addresses(inner, addresses) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_to_addresses(inner, addresses) for inner in value]
    return restore_addresses(value, addresses) if isinstance(value, str) else value


def _make_outputs_folder(target: WorkspacePath) -> None:
    """Makes the folder for outputs that the server names, unless it exists."""
    place = target.relative.parent
    try:
        make_folder(target.workspace, place)
    except FileExistsError:
        return
    except OSError as error:
        raise StagingFailed(
            f"the folder {place} could not be made in {target.workspace.root}: {error.strerror}."
        ) from error


def make_folder(workspace: Workspace, place: PurePosixPath) -> None:
    """Makes a folder in a workspace. If the server runs as root, the new folder gets the owner of its parent folder.

    Other processes may replace the folder at any time. Raises OSError, SandboxError.
    """
    with open_folder(workspace, place.parent) as around:
        os.mkdir(place.name, 0o755, dir_fd=around)
        if os.geteuid():
            return
        with open_folder(workspace, place) as folder, os.scandir(folder) as inside:
            # a folder of another owner, or one with files in it, has replaced the new one and keeps its owner
            if os.fstat(folder).st_uid == 0 and next(inside, None) is None:
                owner = os.fstat(around)
                os.fchown(folder, owner.st_uid, owner.st_gid)


def home(draft: Draft) -> Workspace:
    places = (
        *(output.target for output in draft.outputs),
        *(transfer.target for transfer in draft.files.transfers),
        *draft.files.removes,
    )
    return places[0].workspace


def _settings(changed: object, known: Sequence[str]) -> dict[str, str]:
    """The settings of the library that the worker changed, for the receipt."""
    settings = changed if isinstance(changed, dict) else {}
    return {name: clean_text(settings[name], 40) for name in known if isinstance(settings.get(name), str)}


def _return_code(final: Mapping[str, Any]) -> int | None:
    code = final.get("return_code")
    return code if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 1 << 31 else None


def _parsed(text: str, toolbox: Toolbox, *, required: bool) -> Any:
    """The printed JSON, cleaned. None for other text, unless JSON is `required`."""
    if not required and not text.lstrip().startswith(("{", "[")):
        return None
    try:
        require_simple(text.encode("utf-8", "surrogatepass"), _MAX_VALUES)
        return clean_value(toolbox.answering.read_json(text))
    except (ValueError, RecursionError) as error:
        if not required:
            return None
        raise ToolError(
            toolbox.answering.failure,
            Stage.RENDER,
            "the report is not JSON that can be read.",
            "Ask for the text format.",
        ) from error
