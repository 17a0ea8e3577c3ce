"""Runs the steps of a workflow: each after the steps it depends on, a bounded number at once.

Invariants:
* a step starts only after every step that it depends on has succeeded;
* after the first failure no step starts, running ones are cancelled, and the failure is raised after all have ended.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import anyio

from gdal_mcp.calls.workflows.document import WorkflowDocument, dependencies

AT_ONCE: Final = 2  # steps of one workflow; the caller's limits and the server's queue apply too

T = TypeVar("T")
RunStep = Callable[[str, Mapping[str, T]], Awaitable[T]]


class StepFailed(Exception):
    """A step did not succeed. `cause` is its error, `done` the results of the steps that had succeeded."""

    def __init__(self, step: str, cause: Exception, done: Mapping[str, object]) -> None:
        super().__init__(f"step {step!r}: {cause}")
        self.step, self.cause, self.done = step, cause, done


async def run_steps(document: WorkflowDocument, run: RunStep[T], at_once: int = AT_ONCE) -> dict[str, T]:
    """The results of the steps, by id. `run` gets the id of a step and the results of the steps that have ended.

    Raises StepFailed for the first step that raises.
    """
    waiting = dependencies(document)
    done: dict[str, T] = {}
    failed: list[StepFailed] = []
    slots = anyio.Semaphore(at_once)
    ended = {step: anyio.Event() for step in waiting}

    async def one(step: str) -> None:
        for before in waiting[step]:
            await ended[before].wait()
        async with slots:
            if failed:  # the cancellation reaches this task at its next await
                return
            try:
                done[step] = await run(step, done)
            except Exception as error:  # noqa: BLE001 - raised below, once no other step runs
                failed.append(StepFailed(step, error, done))
                group.cancel_scope.cancel()
        ended[step].set()

    async with anyio.create_task_group() as group:
        for step in document.steps:
            group.start_soon(one, step.id)
    if failed:
        raise failed[0]
    return done
