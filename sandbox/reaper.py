"""Removes the containers of dead servers, and never one of a living server.

A container is a leftover if its owner's lock is free (that server died), or if its deadline, which its own worker and
server enforce, passed long ago. In the second case the owner cannot be checked (it runs on another host or has
another state folder), or the engine did not answer when the container should have been removed. For containers made
since this host booted, the deadline is read from a clock that cannot be set, so that a change of the wall clock ends
no call.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import structlog

from sandbox.engine import Engine, Leftover
from sandbox.errors import EngineUnavailable
from sandbox.labels import OWNER, Moment, overdue
from sandbox.owner import Owner

# seconds; a deadline counts from the start of a job, a label from the creation, and no start takes so long
GRACE_SECONDS = 300.0

_REMOVALS: Final = 8  # removals at once; a container on a lost node takes the whole time limit

_log = structlog.get_logger()


def is_leftover(labels: Mapping[str, str], owner: Owner, now: Moment) -> bool:
    if owner.is_dead(labels.get(OWNER, "")):
        return True
    try:
        return overdue(labels, now) > GRACE_SECONDS
    except ValueError:
        return False


def reap(engine: Engine, owner: Owner, unremoved: Collection[str] = ()) -> tuple[str, ...]:
    """Removes leftovers and returns their container ids. Raises EngineUnavailable if they cannot be listed.

    `unremoved` are our own containers that could not be removed before. If the engine cannot remove a container, it
    is tried again next time, and the others are not delayed.
    """
    # read before the containers are listed, because a server creates its containers before it dies
    dead = set(owner.dead())
    left = [
        leftover
        for leftover in engine.leftovers()
        if leftover.container in unremoved or is_leftover(leftover.labels, owner, Moment.now())
    ]
    with ThreadPoolExecutor(_REMOVALS, "reaping") as removing:
        gone = list(removing.map(partial(_is_removed, engine), left))
    dead -= {
        leftover.labels.get(OWNER, "") for leftover, is_gone in zip(left, gone, strict=True) if not is_gone
    }
    for name in dead:
        owner.delete_lock(name)
    return tuple(leftover.container for leftover, is_gone in zip(left, gone, strict=True) if is_gone)


def _is_removed(engine: Engine, leftover: Leftover) -> bool:
    try:
        engine.container(leftover.container).remove()
    except EngineUnavailable as error:
        _log.warning("not_removed", container=leftover.container[:12], reason=str(error))
        return False
    return True
