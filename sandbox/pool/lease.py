"""A waiting container (idle slot), and the lease with which a call uses it."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sandbox.outcome import Cancelled, SandboxResult
from sandbox.outputs.staging import Staging, StagingArea
from sandbox.runner import Job, Runner
from sandbox.slot import Slot
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation


@dataclass(frozen=True, slots=True)
class SlotKey:
    """The template of a slot and, if it writes, the staging area of its outputs.

    Slots with equal keys are interchangeable.
    """

    template: SandboxTemplate
    area: StagingArea | None = None

    def writing_to(self, staging: Staging | None) -> SandboxTemplate:
        """The template of one slot, with its own output folder."""
        if staging is None:
            return self.template
        return replace(self.template, mounts=(*self.template.mounts, staging.mount))


@dataclass(eq=False, slots=True)
class IdleSlot:
    """A started container that has no call yet, with its own output folder."""

    kind: SlotKey
    slot: Slot
    staging: Staging | None
    fingerprint: object  # fingerprint of its mounts when it started
    born: float = field(default_factory=time.monotonic)

    def fileno(self) -> int:
        return self.slot.wire.fileno()

    def discard(self) -> None:
        """Removes its container first, then the folder that the container could write to."""
        with contextlib.ExitStack() as stack:
            if self.staging is not None:
                stack.callback(self.staging.discard)
            self.slot.remove()


@dataclass(eq=False)
class Lease(contextlib.AbstractContextManager["Lease"]):
    """One claimed slot, for one job. Leaving the `with` block removes what remains of it."""

    _runner: Runner
    _claimed: IdleSlot
    _on_exited: Callable[[Slot], object]  # removes a container that ended by itself
    _on_done: Callable[[IdleSlot], object]  # called when the call is over
    _unused: bool = field(default=True, init=False)

    @property
    def staging(self) -> Staging | None:
        return self._claimed.staging

    @property
    def template(self) -> SandboxTemplate:
        return self._claimed.kind.writing_to(self._claimed.staging)

    def run(self, job: Job, cancel: Cancellation) -> SandboxResult:
        """Runs a job as `Runner.serve` does. A container that ended by itself may be removed after this returns."""
        if not self._unused:
            raise ValueError("a slot serves one job")
        self._unused = False
        if cancel.is_set:
            self._claimed.slot.remove()
            return SandboxResult(Cancelled(), self._claimed.slot.usage)
        return self._runner.serve(self._claimed.slot, job, cancel, self._on_exited)

    def __exit__(self, *why: object) -> None:
        with contextlib.ExitStack() as stack:
            if self.staging is not None:
                stack.enter_context(self.staging)
            stack.callback(self._on_done, self._claimed)
            if self._unused:
                self._unused = False
                self._claimed.slot.remove()


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """The numbers of slots now."""

    waiting: int
    starting: int
