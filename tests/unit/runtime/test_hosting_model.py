"""A model of the hosts and their pools: a failure, in any order, affects only its own part, and nothing stays open.

Invariants: a healthy container is never removed because another one failed; no call waits for a resource that a
removal holds; an engine is closed once, and only after its last call; at the end there are as many descriptors and
threads as before.
"""

import contextlib
import gc
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gdal_mcp.runtime.connection import Host
from sandbox.errors import AttestationFailed, EngineUnavailable, SandboxError
from sandbox.pool.lease import Lease
from sandbox.waiting import Cancellation
from tests.engines.memory import Box
from tests.unit.runtime.hosting_kit import Gate, Machine, hosted
from tests.unit.sandbox.pool_kit import run
from tests.waiting import until

SECONDS = 30
TOOLBOXES = st.integers(0, 1)
NUMBERS = st.integers(
    0, 9
)  # of an existing container; which exist depends on threads, so Hypothesis cannot draw from them


def nothing(_what: str, _about: Any) -> None:
    """An engine that works normally."""


class Hosts(RuleBasedStateMachine):
    """A server with two toolboxes on one machine."""

    @initialize()
    def start_the_server(self) -> None:
        self.before = len(os.listdir("/proc/self/fd")), {*threading.enumerate()}
        self.stack = contextlib.ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.folder, self.machine = folder, Machine()
        self.cancel = self.stack.enter_context(contextlib.closing(Cancellation()))
        self.leases: list[tuple[Host, Lease]] = []
        self.begin()

    def begin(self) -> None:
        self.serving = contextlib.ExitStack()
        patch = self.serving.enter_context(pytest.MonkeyPatch.context())
        self.hosting = self.serving.enter_context(hosted(self.machine, self.folder, patch))
        self.hosting.keep_warm()

    def host(self, toolbox: int) -> Host:
        return self.hosting.ready(self.hosting._toolboxes[toolbox])

    def claim(self, host: Host, *, cold: bool = False) -> Lease | None:
        """A claim, or None if it failed, as the server handles it."""
        get = host.pool.start if cold else host.pool.claim
        try:
            return get(self.hosting.kind(host, None), "call-0001", self.cancel)
        except SandboxError:
            self.hosting.failed(host)
            return None

    @contextlib.contextmanager
    def nobody_else_is_removed(self, but: Box | None = None) -> Any:
        engine = self.machine.engine
        waiting = [idle for host in self.hosting._hosts() for idle in host.pool._inventory.idle]
        used = [lease._claimed for _, lease in self.leases]
        names = {
            claimed.slot.container.id for claimed in (*waiting, *used) if claimed.slot.engine.is_of(engine)
        }
        healthy = {
            name for name in names if (box := engine.boxes.get(name)) and box.running and box is not but
        }
        yield
        assert healthy <= {*engine.boxes}

    @rule(toolbox=TOOLBOXES, cold=st.booleans())
    def begin_a_call(self, toolbox: int, cold: bool) -> None:
        host = self.host(toolbox)
        if (lease := self.claim(host, cold=cold)) is not None:
            self.leases.append((host, lease))

    @rule(number=NUMBERS, unused=st.booleans())
    def end_a_call(self, number: int, unused: bool) -> None:
        if not self.leases:
            return
        host, lease = self.leases.pop(number % len(self.leases))
        try:
            with lease:
                if not unused:
                    run(lease, self.cancel)
        except SandboxError:
            self.hosting.failed(host)

    @rule(toolbox=TOOLBOXES)
    def a_start_fails(self, toolbox: int) -> None:
        host = self.host(toolbox)
        failed: list[Box] = []

        def fail_once(what: str, about: Any) -> None:
            if what == "start" and not failed:
                failed.append(about)
                raise EngineUnavailable("the container crashed at its start")

        self.machine.engine.before = fail_once
        with self.nobody_else_is_removed():
            lease = self.claim(host, cold=True)
        self.machine.engine.before = nothing
        if host.engine.is_of(self.machine.engine):
            assert self.host(toolbox) is host
        if lease is not None:  # a refill failed in its place
            self.leases.append((host, lease))

    @rule(number=NUMBERS)
    def a_container_dies(self, number: int) -> None:
        living = [box for box in [*self.machine.engine.boxes.values()] if box.running]
        if not living:
            return
        box, hosts = living[number % len(living)], self.hosting._hosts()
        with self.nobody_else_is_removed(but=box):
            box.end(1)
        assert self.hosting._hosts() == hosts

    @rule()
    def the_engine_restarts(self) -> None:
        self.machine.restart()

    @rule(toolbox=TOOLBOXES)
    def a_set_up_fails(self, toolbox: int) -> None:
        other = self.host(1 - toolbox)
        self.hosting.invalidate(self.host(toolbox))

        def refuse() -> None:
            raise AttestationFailed("weaker than asked")

        self.machine.attest = refuse
        with pytest.raises(SandboxError):
            self.host(toolbox)
        self.machine.attest = lambda: None
        if other.engine.is_of(self.machine.engine):
            assert self.host(1 - toolbox) is other

    @rule()
    def reap(self) -> None:
        with contextlib.suppress(EngineUnavailable), self.nobody_else_is_removed():
            self.hosting.reap()

    @rule(toolbox=TOOLBOXES)
    def a_call_begins_while_a_removal_does_not_end(self, toolbox: int) -> None:
        gate = Gate()
        gate.close()
        self.machine.engine.before = lambda what, _about: gate() if what == "remove" else None
        self.hosting.invalidate(self.host(toolbox))
        got: list[Any] = []

        def call() -> None:
            host = self.host(toolbox)
            got.append((host, self.claim(host)))

        calling = threading.Thread(target=call, daemon=True)
        calling.start()
        calling.join(SECONDS)
        still = calling.is_alive()
        self.machine.engine.before = nothing
        gate.open()
        calling.join()
        assert not still, "it waited for the removal"
        ((host, lease),) = got
        if lease is not None:
            self.leases.append((host, lease))

    @rule()
    def the_server_ends_and_begins_again(self) -> None:
        self.end()
        self.begin()

    @invariant()
    def an_engine_is_closed_once_and_not_while_it_is_used(self) -> None:
        if not hasattr(self, "machine"):
            return
        assert all(connection.closed <= 1 for connection in self.machine.opened)
        used = [host for host, _ in self.leases] + list(self.hosting._hosts())
        assert not any(host.engine.closed for host in used)

    def end(self) -> None:
        for _, lease in self.leases:
            with contextlib.suppress(SandboxError), lease:
                pass
        self.leases.clear()
        self.serving.close()
        until(lambda: all(connection.closed == 1 for connection in self.machine.opened))
        until(lambda: not self.machine.engine.boxes)
        self.machine.sweep()

    def teardown(self) -> None:
        self.end()
        self.stack.close()
        gc.collect()
        until(lambda: len(os.listdir("/proc/self/fd")) <= self.before[0])
        until(lambda: {*threading.enumerate()} <= self.before[1])


# 300 steps; `make fuzz` uses 10,000
Hosts.TestCase.settings = settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "12")), stateful_step_count=25, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
TestHosts = Hosts.TestCase
