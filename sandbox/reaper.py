"""Removes the containers that a dead server left behind, and never one of a living server.

A container is a leftover when the lock of its owner is free (that server died), or when its deadline, which its own
worker and its own server enforce, has passed long ago (the owner lives on another host or under another state folder
and cannot be asked).
"""

import time
from collections.abc import Mapping

from sandbox.engine import Engine
from sandbox.labels import DEADLINE, OWNER
from sandbox.owner import Owner

GRACE_SECONDS = 300.0  # a deadline counts from the start of a job, a label from the creation; far more than any start takes


def is_leftover(labels: Mapping[str, str], owner: Owner, now: float) -> bool:
    maker = labels.get(OWNER, "")
    if maker == owner.id:
        return False
    if owner.is_dead(maker):
        return True
    try:
        deadline = float(labels.get(DEADLINE, ""))
    except ValueError:
        return False
    return now > deadline + GRACE_SECONDS


def reap(engine: Engine, owner: Owner) -> tuple[str, ...]:
    """Removes every leftover; returns their container ids. Raises EngineUnavailable."""
    dead = owner.dead()
    removed = []
    for leftover in engine.leftovers():
        if is_leftover(leftover.labels, owner, time.time()):
            engine.remove(leftover.container)
            removed.append(leftover.container)
    for one in dead:
        owner.forget(one)
    return tuple(removed)
