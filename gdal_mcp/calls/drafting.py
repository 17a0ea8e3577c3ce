"""Makes a draft from the arguments of a call, and the plan from the draft. Blocking; call it in a thread."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import ValidationError

from gdal_mcp.calls.entitlements import Entitlements
from gdal_mcp.calls.invocation import Invocation, Prepared
from gdal_mcp.calls.refusals import invalid, missing_scope, reads_only
from gdal_mcp.calls.translation import explain
from gdal_mcp.errors import Stage, ToolError
from gdal_mcp.plan import Draft, Plan
from gdal_mcp.policy.identity import WRITE
from gdal_mcp.policy.policy import Policy, case, decide
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.remote.places import AddressTable, local
from gdal_mcp.remote.seal import Seal
from gdal_mcp.runtime.hosting import Hosting
from gdal_mcp.runtime.templates import SandboxScope
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import DraftScope, ImmediateResult
from gdal_mcp.toolboxes.preflight import Report
from gdal_mcp.toolboxes.toolbox import Toolbox
from sandbox.errors import PathRefused, SandboxError
from sandbox.workspace import Identity, WorkspacePath

ASK_SECONDS: Final = 25.0  # seconds for a tool's own requests; shorter than the deadline of its thread
MAX_COMPANIONS: Final = 1000  # sidecar files of all inputs of one call


class Drafted(NamedTuple):
    draft: Draft
    preflight: Report


@dataclass(frozen=True, slots=True)
class Drafting:
    settings: Settings
    policy: Policy
    hosting: Hosting
    gateway: RemoteGateway
    seal: Seal
    ended: threading.Event = field(default_factory=threading.Event)  # set when the caller no longer waits

    def draft(self, call: Invocation) -> Drafted | ImmediateResult:
        """The tool's draft for the arguments, and the report of the checks on it. Raises ToolError."""
        request, entitlements, toolbox = call.request, call.entitlements, call.toolbox
        scope = self.scope(entitlements, toolbox, request.principal, call.call_id, request.operation.as_new)
        try:
            draft = call.tool.draft(request.arguments, toolbox.analysis.context(scope))
        except ValidationError as error:
            raise invalid(error) from error
        if isinstance(draft, ImmediateResult):
            return draft
        if draft.writes and entitlements.settings.read_only:
            raise reads_only()
        if draft.writes and not request.who.holds(WRITE):
            raise missing_scope(WRITE)
        draft = replace(draft.like(call.tool.like), addresses=scope.remote.addresses)
        report = entitlements.preflights[toolbox.name].check(draft, described=call.described)
        request.operation.accept(draft)
        return Drafted(draft, report)

    def ask(self, call: Invocation, answer: ImmediateResult) -> Invocation:
        """The call with the answer of a tool that makes requests to other servers. Makes no request once `self.ended`
        is set.

        The hosts that were asked are recorded in any case.
        """
        assert answer.ask is not None
        until = time.monotonic() + ASK_SECONDS
        with self.gateway.asking(call.request.principal, until, self.ended) as meter:
            try:
                call = replace(call, answer=answer.ask(meter))
            except ToolError as error:
                call = call.failed(error)
            return replace(call, outcome=replace(call.outcome, hosts=tuple(meter.call.by_host())))

    def prepare(self, call: Invocation, draft: Draft, tool: str) -> Prepared:
        """The plan of a draft and the host that runs it. They are the same for the same state. Raises ToolError."""
        reach, toolbox = call.entitlements, call.toolbox
        narrow = toolbox.analysis.only_inputs or self.settings.mount_scope == "inputs"
        visible = call.request.operation.visible(draft, reach.workspaces)
        places = toolbox.analysis.mounts(draft) if narrow else call.request.operation.places(draft, visible)
        scope = SandboxScope(visible, reach.limits, places)
        try:
            host = self.hosting.ready(toolbox)
            template = self.hosting.templates.build(host, None, scope)
        except SandboxError as error:
            raise explain(error, Stage.RUN) from error
        plan = Plan(
            call_id=call.call_id,
            tool=tool,
            principal=call.request.principal,
            draft=draft,
            limits=template.limits,
            image_id=template.image,
            runtime=template.runtime,
            mounts=tuple(f"{mount.target}:{'ro' if mount.read_only else 'rw'}" for mount in template.mounts),
            arguments=call.request.arguments,
            companions=tuple(
                islice(self._beside(draft.inputs, toolbox.analysis.companions()), MAX_COMPANIONS)
            ),
            hidden=self.seal(draft.addresses),
            confines=scope,
        )
        return Prepared(plan, host)

    def scope(
        self, entitlements: Entitlements, toolbox: Toolbox, principal: str, call_id: str, as_new: str = ""
    ) -> DraftScope:
        return DraftScope(
            call_id=as_new or call_id,
            workspaces=replace(entitlements.workspaces, stopped=self.ended.is_set),
            settings=entitlements.settings,
            limits=entitlements.limits,
            surface=entitlements.surface,
            verdict=lambda tool, draft: decide(case(draft, tool, principal), self.policy),
            preflight=entitlements.preflights[toolbox.name],
            remote=AddressTable(lambda text: self.gateway.address(text, principal)),
            as_new=bool(as_new),
            principal=principal,
            gateway=self.gateway,
        )

    def _beside(
        self, inputs: Iterable[WorkspacePath], companions: Callable[[WorkspacePath], Iterable[Path]]
    ) -> Iterator[tuple[WorkspacePath, WorkspacePath]]:
        """Pairs of an input and one of its sidecar files, as the files are now."""
        input_paths = dict.fromkeys(located.path for located in local(inputs))
        for located in dict.fromkeys(local(inputs)):
            if self.ended.is_set():
                return
            try:
                paths = [path for path in companions(located) if path not in input_paths]
            except (OSError, PathRefused):
                continue
            for path in sorted(paths):
                try:
                    identity = Identity.of(path.lstat())
                except OSError:
                    identity = None
                yield located, WorkspacePath(located.workspace, located.relative.parent / path.name, identity)


def learn(call: Invocation) -> None:
    """Stores the descriptions of outputs, so that calls that use them can be checked without describing them again."""
    done, preflight = call.done, call.entitlements.preflights[call.toolbox.name]
    if done is None or done.published is None:
        return
    located = {file.located.path: file.located for file in done.published.files}
    for output, described in zip(call.plan.draft.outputs, done.outputs, strict=False):
        if output.target.path in located:
            preflight.learn(located[output.target.path], described.facts)
