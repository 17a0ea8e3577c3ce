"""The composition root: the only module that constructs the parts of a server."""

import getpass
import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import structlog

from gdal_mcp.approvals.service import ApprovalService
from gdal_mcp.approvals.store import Approvals
from gdal_mcp.approvals.waiting import ApprovalQueue, ConsoleUrl, no_console
from gdal_mcp.calls.bounded_threads import DRAFT_SECONDS, PLAN_SECONDS, BoundedThreads
from gdal_mcp.calls.drafting import Drafting
from gdal_mcp.calls.entitlements import EntitlementResolver, Entitlements
from gdal_mcp.calls.execution import Executor
from gdal_mcp.calls.longresults import store_of
from gdal_mcp.calls.missed_replies import MissedReplies
from gdal_mcp.calls.pipeline import Pipeline
from gdal_mcp.calls.records import Records
from gdal_mcp.calls.recovery import recover
from gdal_mcp.calls.workflows.check import Checker
from gdal_mcp.calls.workflows.check_tool import WorkflowCheck
from gdal_mcp.calls.workflows.store import StepStore
from gdal_mcp.policy.admission import Admission
from gdal_mcp.policy.identity import Principal, local
from gdal_mcp.policy.policy_file import load_policy
from gdal_mcp.policy.rates import Rates
from gdal_mcp.records import retention
from gdal_mcp.records.audit import AuditLog
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.registry import Registry, RegistryUnavailable
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.remote.seal import Seal
from gdal_mcp.runtime.hosting import Hosting
from gdal_mcp.runtime.nested import HostPaths
from gdal_mcp.server.operations.forecasts import ForecastingRun, forecasts_of
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import Settings
from gdal_mcp.settings.pathmap import PathMap
from gdal_mcp.toolboxes.surface import Surface, Toolboxes
from sandbox.errors import SandboxError
from sandbox.outputs.staging import StagingArea
from sandbox.outputs.undo import Retention
from sandbox.owner import Owner
from sandbox.workspace import Workspace, Workspaces

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class App:
    settings: Settings
    workspaces: Workspaces
    owner: Owner
    hosting: Hosting
    registry: Registry
    audit: AuditLog
    areas: Mapping[Path, StagingArea]
    toolboxes: Toolboxes
    surface: Surface
    pipeline: Pipeline
    entitlements: EntitlementResolver
    approvals: ApprovalService


@contextmanager
def running(
    settings: Settings,
    console_url: ConsoleUrl = no_console,
    approve_options: tuple[str, ...] = (),
    boxes: Toolboxes | None = None,
) -> Iterator[App]:
    """The parts of a server, after recovery from what earlier servers left behind.

    `console_url` returns the address of the page where calls can be approved; `approve_options` are the options with
    which `gdal-mcp approve` finds this server's questions; `boxes` are the toolboxes, by default those of the
    settings.

    Raises:
        SandboxError: there is no workspace, or one that may not be used.
        CatalogueBroken: the stored catalogue cannot be used.
        AuditUnavailable, RegistryUnavailable: the state folder cannot be used; nothing runs unrecorded.
    """
    boxes = boxes or toolboxes(settings)
    workspaces = _workspaces(settings)
    with ExitStack() as stack:
        state = _open_records(settings, stack)
        paths = HostPaths(PathMap.parse(settings.path_map))
        areas = _areas(settings, workspaces, paths, stack)
        # a Pod of a dead server may still be starting, and its node would then create a removed folder again
        recover(areas, state.audit, state.registry, state.owner, discard=not settings.on_cluster)
        stack.enter_context(retention.apply_hourly(settings, state.registry, state.audit, state.owner.id))
        recover_later = partial(_recover_or_log, areas, state)
        hosting = Hosting(settings, workspaces, state.owner, areas, boxes.items, paths, recover_later)
        stack.callback(hosting.close)
        reach = Entitlements.full(settings, workspaces, boxes)
        policy = load_policy(settings, lambda: boxes.names, boxes.aliases)
        resolver = EntitlementResolver(reach, policy, boxes)
        service = _approval_service(state, stack)
        seconds = settings.approval_seconds, settings.approval_valid, settings.approval_wait
        queue = ApprovalQueue(service, *seconds, console_url, approve_options)
        records = Records(settings, state.audit, state.registry, state.owner.id, policy.digest)
        yield App(
            settings=settings,
            workspaces=workspaces,
            owner=state.owner,
            hosting=hosting,
            registry=state.registry,
            audit=state.audit,
            areas=areas,
            toolboxes=boxes,
            surface=reach.surface,
            pipeline=_pipeline(resolver, hosting, records, queue, stack),
            entitlements=resolver,
            approvals=service,
        )


class _OpenRecords(NamedTuple):
    """The open records in a server's state folder: the audit log, the registry, and the owner file of this server."""

    audit: AuditLog
    registry: Registry
    owner: Owner


def _workspaces(settings: Settings) -> Workspaces:
    writable = [Workspace.at(path, writable=True) for path in settings.workspaces]
    read_only = [Workspace.at(path, writable=False) for path in settings.workspaces_ro]
    return Workspaces((*writable, *read_only))


def _open_records(settings: Settings, stack: ExitStack) -> _OpenRecords:
    audit = AuditLog(settings.state.audit)
    registry = Registry(settings.state.registry)
    stack.callback(registry.close)
    owner = _owner(settings.state.servers)
    stack.callback(owner.close)
    return _OpenRecords(audit, registry, owner)


def _recover_or_log(areas: Mapping[Path, StagingArea], state: _OpenRecords) -> None:
    """Removes what dead servers staged, once an engine is reached. A failure is only logged."""
    try:
        recover(areas, state.audit, state.registry, state.owner)
    except (AuditUnavailable, RegistryUnavailable, SandboxError) as error:
        _log.warning("not_recovered", reason=str(error))


def _approval_service(state: _OpenRecords, stack: ExitStack) -> ApprovalService:
    approvals = Approvals(state.registry.path, alive=state.owner.is_alive)
    stack.callback(approvals.close)
    approvals.release_dead()
    return ApprovalService(approvals, state.audit.append, state.owner.id)


def _areas(
    settings: Settings, workspaces: Workspaces, paths: HostPaths, stack: ExitStack
) -> Mapping[Path, StagingArea]:
    """The folders where outputs are staged, by workspace root. Files for undo are pruned in a separate thread."""
    keep = Retention(settings.undo_calls, settings.undo_size)
    pruning = ThreadPoolExecutor(1, "prune")
    stack.callback(pruning.shutdown)
    writable = (workspace for workspace in workspaces.items if workspace.writable)
    areas: Mapping[Path, StagingArea] = {
        workspace.root: StagingArea(workspace, keep, run_in_background=pruning.submit, source=paths)
        for workspace in writable
    }
    if areas:  # without a writable workspace, no call writes
        steps = StepStore(settings.state.workflows).workspace
        steps.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        areas = {
            **areas,
            steps.root: StagingArea(steps, keep, run_in_background=pruning.submit, source=paths),
        }
    for area in areas.values():
        area.prepare()
    return areas


def _pipeline(
    resolver: EntitlementResolver,
    hosting: Hosting,
    records: Records,
    approvals: ApprovalQueue,
    stack: ExitStack,
) -> Pipeline:
    settings, policy = resolver.full.settings, resolver.policy
    rates = Rates(settings.state.usage)
    stack.callback(rates.close)
    gateway = RemoteGateway(settings.remote, settings.state.remote, rates, policy.remote_of)
    stack.callback(gateway.close)
    drafting = Drafting(settings, policy, hosting, gateway, Seal(settings.state.seal))
    checker = Checker(drafting, StepStore(settings.state.workflows))
    results = store_of(settings)
    pipeline = Pipeline(
        settings=settings,
        policy=policy,
        entitlements=resolver,
        execution=Executor(settings, hosting, gateway),
        approvals=approvals,
        records=records,
        results=results,
        missed_replies=MissedReplies(results),
        rates=rates,
        drafting=drafting,
        drafts=BoundedThreads("looking at the files that calls name", DRAFT_SECONDS),
        plans=BoundedThreads("waiting for the container engine", PLAN_SECONDS),
        admission=Admission(1, settings.queue_length, settings.queue_seconds),
        threads=anyio.CapacityLimiter(math.inf),
    )
    pipeline.operations["workflow_check"] = WorkflowCheck(checker=checker)
    pipeline.operations["workflow_run"] = ForecastingRun(
        checker=checker,
        pipeline=lambda: pipeline,
        forecasts=forecasts_of(settings),
        find_seconds=records.registry.seconds_of,
    )
    return pipeline


def _owner(folder: Path) -> Owner:
    try:
        return Owner(folder)
    except OSError as error:
        raise AuditUnavailable(
            f"the state folder {folder.parent} cannot be used: {error.strerror or error}. Give this user the folder, or name "
            "another with --state-dir."
        ) from error


def local_user() -> Principal:
    """The principal of a local server: the user of the operating system."""
    try:
        return local(getpass.getuser())
    except (KeyError, OSError):
        return local(f"uid-{os.getuid()}")
