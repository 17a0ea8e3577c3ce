"""Removes the containers that dead servers left behind."""

import threading
from collections.abc import Callable

import structlog

from sandbox.engine import Engine
from sandbox.errors import SandboxError
from sandbox.labels import OWNER
from sandbox.owner import Owner
from sandbox.reaper import reap
from sandbox.waiting import Cancellation, readable

REAP_SECONDS = 5.0  # seconds that a set-up waits for the removal
PAUSE_SECONDS = 5.0  # seconds between two attempts while there are Pods of dead servers

_log = structlog.get_logger()


class Leftovers:
    """The leftovers of dead servers on the engines in use. Safe to use from several threads."""

    def __init__(self, owner: Owner, recover_staging: Callable[[], None], stop: Cancellation) -> None:
        """`recover_staging` removes what dead servers staged; on a cluster it is called after the last of their Pods
        is gone. `stop` is set when this server ends.
        """
        self._owner = owner
        self._recover_staging = recover_staging
        self._stop = stop
        self._lock = threading.Lock()
        self._pods_left = True  # True if dead servers may have left Pods
        self._dead_owners_have_pods = False  # True if a server of this machine that is dead has left Pods
        self.unremoved: set[str] = set()  # names of this server's containers that the engine has not removed

    def remove(self, engine: Engine) -> tuple[str, ...]:
        """Removes leftovers and returns the names of the removed containers. Raises EngineUnavailable.

        Returns at once if another thread is removing.
        """
        if not self._lock.acquire(blocking=False):
            return ()
        try:
            removed = reap(engine, self._owner, self.unremoved)
            self.unremoved.difference_update(removed)
            if engine.info().other_hosts and (removed or self._pods_left):
                self._recover_after_pods(engine)
        finally:
            self._lock.release()
        return removed

    def remove_for_a_while(self, engine: Engine) -> None:
        """Removes leftovers before the first call. Waits at most REAP_SECONDS if the engine is slow.

        On a cluster the removal continues until the last Pod is gone, and with it what its server staged.
        """

        def until_done() -> None:
            while True:
                try:
                    self.remove(engine)
                except SandboxError as error:
                    _log.info("not_reaped", reason=str(error))
                    return  # the server tries again every minute, perhaps on another connection
                if (
                    not self._dead_owners_have_pods
                    or self._stop.is_set
                    or readable([self._stop], PAUSE_SECONDS)
                ):
                    return

        reaping = threading.Thread(target=until_done, name="reaping", daemon=True)
        reaping.start()
        reaping.join(REAP_SECONDS)

    def _recover_after_pods(self, engine: Engine) -> None:
        owners = [leftover.labels.get(OWNER, "") for leftover in engine.leftovers()]
        self._dead_owners_have_pods = any(map(self._owner.is_dead, owners))
        # an owner without a name is a server on another machine, which may be dead
        self._pods_left = self._dead_owners_have_pods or "" in owners
        if not self._pods_left:
            self._recover_staging()
