"""The host of one toolbox: set up when first needed, and again after its engine was lost.

Invariants:
* only callers that need this host wait for its set-up; dropping a host and closing wait for no engine;
* a host is dropped once, by the thread that finds its engine or image gone, and only if it is still the current one:
  a call of an earlier host never drops a later one;
* a dropped host keeps its engine open until the last call on it has ended; then its pool and engine are closed in a
  separate thread, so that nobody waits for a removal that the engine does not complete.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from gdal_mcp.runtime.image import Image
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.toolbox import Toolbox
from sandbox.engine import Engine, EngineInfo
from sandbox.errors import EngineUnavailable
from sandbox.isolation.rows import Row
from sandbox.pool.pool import WarmPool
from sandbox.program import Delivery
from sandbox.runner import Runner


@dataclass(frozen=True, slots=True)
class Host:
    """An engine that answers, a toolbox's image on it, and the proof that its containers are isolated as configured."""

    engine: Engine
    info: EngineInfo
    runner: Runner
    pool: WarmPool
    concurrent: int  # number of calls that fit at once
    toolbox: Toolbox
    image: Image
    program: Delivery  # source text, until the image's interpreter has compiled it
    attested: tuple[Row, ...] = ()

    def tier(self, settings: Settings) -> str:
        alone = self.info.runtimes[0] if self.info.name in self.info.runtimes else "runc"
        return settings.runtime or alone

    def close(self) -> None:
        """Removes the waiting containers, and closes the engine after the last call on it."""
        self.pool.close()
        self.pool.wait_until_unused()
        self.engine.close()


class Connection:
    """The host of one toolbox. Safe to use from several threads."""

    def __init__(self, set_up: Callable[[bool], Host], is_there: Callable[[Host], bool]) -> None:
        """`set_up` makes a host, or raises SandboxError and leaves nothing open; its argument is `fresh`, as for
        `ready`.

        `is_there` returns True if the engine and the image of a host are unchanged.
        """
        self._set_up, self._is_there = set_up, is_there
        self._setting_up = threading.Lock()
        self._lock = threading.Lock()  # protects the fields below; held only for assignments
        self._host: Host | None = None
        self._ending: list[tuple[Host, threading.Thread]] = []  # dropped hosts
        self._closed = False

    @property
    def host(self) -> Host | None:
        """The current host; None if it was not set up yet, or was dropped."""
        return self._host

    def ready(self, *, fresh: bool = False) -> Host:
        """The host, set up if needed. `fresh` sets up another one, and ignores earlier attestations. Raises
        SandboxError.
        """
        if not fresh and (host := self._host) is not None:
            return host
        with self._setting_up:
            if (host := self._host) is not None:
                if not fresh:
                    return host
                self.drop(host)
            if not self._closed:
                new_host = self._set_up(fresh)
                with self._lock:
                    if not self._closed:
                        self._host = new_host
                        return new_host
                new_host.close()
        raise EngineUnavailable("the server is ending, so nothing is started any more.")

    def check(self, host: Host) -> None:
        """Drops a host if its engine or image is gone. Call it after a call on the host failed."""
        if self._host is host and not self._is_there(host):
            self.drop(host)

    def drop(self, host: Host) -> None:
        """Makes the next call set up another host. Does nothing if this one is no longer in use."""
        with self._lock:
            if self._host is host:
                self._host = None
                self._end(host)

    def close(self) -> None:
        """Closes the host without waiting for running calls. The caller cancels a set-up in progress."""
        with self._lock:
            self._closed = True
            if (host := self._host) is not None:
                self._host = None
                self._end(host)
        with self._setting_up:
            pass  # waits for a set-up in progress, which closes its own host
        for host, thread in self._ending:
            host.pool.abandon()
            thread.join()

    def _end(self, host: Host) -> None:
        self._ending = [ending for ending in self._ending if ending[1].is_alive()]
        self._ending.append((host, threading.Thread(target=host.close, name="lost", daemon=True)))
        self._ending[-1][1].start()
