"""A slot with all that is its own, and its one use."""

import contextlib
import time
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Protocol, Self

from sandbox.cancel import Cancellation
from sandbox.outcome import Cancelled, SandboxResult
from sandbox.outputs.staging import Staging, StagingArea
from sandbox.runner import SEND_SECONDS, Job
from sandbox.slot import Slot
from sandbox.template import STAGING_TARGET, Mount, SandboxTemplate


@dataclass(frozen=True, slots=True)
class SlotKey:
    """What makes slots interchangeable: a template, and for one that writes the area that its staging is made in."""

    template: SandboxTemplate
    area: StagingArea | None = None

    def writing_to(self, staging: Staging | None) -> SandboxTemplate:
        if staging is None:
            return self.template
        mount = Mount(str(staging.mount_source), STAGING_TARGET, read_only=False)
        return replace(self.template, mounts=(*self.template.mounts, mount))


@dataclass(eq=False, slots=True)
class IdleSlot:
    """A slot that waits, with all that is its own."""

    kind: SlotKey
    slot: Slot
    staging: Staging | None
    ground: object
    born: float = field(default_factory=time.monotonic)

    def discard(self) -> None:
        """Its container first, then the folder that the container could write to."""
        with contextlib.ExitStack() as stack:
            if self.staging is not None:
                stack.callback(self.staging.discard)
            self.slot.remove()


class Keeper(Protocol):
    """Where a lease comes from."""

    def serve(self, one: IdleSlot, job: Job, cancel: Cancellation) -> SandboxResult:
        """The slot is given its job; its container is gone afterwards, or soon."""

    def served(self, one: IdleSlot) -> None:
        """The call of a claimed slot is over."""


class Lease:
    """One claimed slot, for one job. Leaving the `with` block removes what is left of it."""

    def __init__(self, keeper: Keeper, one: IdleSlot) -> None:
        self._keeper, self._one = keeper, one
        self._unused = True

    @property
    def staging(self) -> Staging | None:
        return self._one.staging

    @property
    def template(self) -> SandboxTemplate:
        return self._one.kind.writing_to(self._one.staging)

    def hold(self, job: Job) -> None:
        """Keeps the slot while its job is got ready, which may take longer than a slot waits."""
        with contextlib.suppress(OSError):  # it died: the job finds out
            self._one.slot.hold(job.message, SEND_SECONDS)

    def run(self, job: Job, cancel: Cancellation) -> SandboxResult:
        """As `Runner.serve`; a container that ended by itself is removed behind the caller's back."""
        if not self._unused:
            raise ValueError("a slot serves one job")
        self._unused = False
        if cancel.is_set:
            self._one.slot.remove()
            return SandboxResult(Cancelled(), self._one.slot.usage)
        return self._keeper.serve(self._one, job, cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._unused:
                self._unused = False
                self._one.slot.remove()
        finally:
            self._keeper.served(self._one)
            if self._one.staging is not None:
                self._one.staging.__exit__(kind, error, trace)
