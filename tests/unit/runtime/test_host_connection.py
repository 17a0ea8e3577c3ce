"""The hosts of a server when containers, engines and set-ups fail: each failure affects only its own part."""

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from gdal_mcp.runtime.hosting import Hosting
from sandbox.errors import AttestationFailed, EngineUnavailable, SandboxError
from sandbox.waiting import Cancellation
from tests.unit.runtime.hosting_kit import Gate, Machine, hosted
from tests.unit.sandbox.pool_kit import run
from tests.waiting import until

SECONDS = 30


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def hosting(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosting]:
    with hosted(machine, tmp_path, monkeypatch) as new_hosting:
        yield new_hosting


def boxes(hosting: Hosting):
    return hosting._toolboxes


def call(hosting: Hosting, host, cancel: Cancellation):
    """Calls as the server does. Raises the error of the call, after reporting it to the hosting."""
    try:
        with host.pool.claim(hosting.kind(host, None), "call-0001", cancel) as lease:
            return run(lease, cancel)
    except SandboxError:
        hosting.failed(host)
        raise


def in_time(do) -> list[object]:
    """The result of `do` in a separate thread, which must end."""
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(do()), daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert got, "it waits for something that somebody else holds up"
    return got


@pytest.mark.claim("faults.engine-fails")
def test_failed_container_leaves_every_host_and_other_containers(hosting, machine, cancel):
    first, second = (hosting.ready(box) for box in boxes(hosting))
    hosting.keep_warm()
    second.pool.keep()
    until(lambda: first.pool.figures().waiting and second.pool.figures().waiting)

    def refuse(what, _about):
        if what == "start":
            raise EngineUnavailable("the container crashed at its start")

    waiting = {*machine.engine.boxes}
    machine.engine.before = refuse
    with pytest.raises(EngineUnavailable), first.pool.start(hosting.kind(first, None), "call-1", cancel):
        pass
    hosting.failed(first)
    machine.engine.before = lambda _what, _about: None
    assert [hosting.ready(box) for box in boxes(hosting)] == [first, second]
    assert waiting <= {*machine.engine.boxes}
    assert call(hosting, first, cancel).usage.pool == "warm"


@pytest.mark.claim("faults.engine-fails")
def test_call_on_old_engine_never_drops_new_host(hosting, machine, cancel):
    old = hosting.ready()
    machine.restart()
    with pytest.raises(EngineUnavailable):
        call(hosting, old, cancel)
    new = hosting.ready()
    assert new is not old
    hosting.failed(old)  # a second call on the old engine fails later
    hosting.invalidate(old)
    assert hosting.ready() is new
    assert call(hosting, new, cancel)


@pytest.mark.claim("faults.engine-fails")
def test_lost_engine_closes_after_its_last_call(hosting, machine, cancel):
    old = hosting.ready()
    with contextlib.ExitStack() as stack:
        stack.enter_context(old.pool.claim(hosting.kind(old, None), "call-0001", cancel))
        machine.restart()
        hosting.failed(old)
        assert hosting.ready() is not old
        assert old.engine.closed == 0
        with pytest.raises(EngineUnavailable):  # its container disappeared with its engine
            stack.close()
    until(lambda: old.engine.closed == 1)
    # the engine of the current host
    until(lambda: sum(not connection.closed for connection in machine.opened) == 1)


@pytest.mark.claim("faults.engine-fails")
def test_a_set_up_that_fails_leaves_nothing_open(hosting, machine):
    def refuse():
        raise AttestationFailed("weaker than asked")

    def attempt():
        with pytest.raises(AttestationFailed):
            hosting.ready()

    machine.attest = refuse
    attempt()  # everything that is opened once
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    gc.disable()  # which could hide connections that were never closed
    try:
        for _ in range(20):
            attempt()
    finally:
        gc.enable()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before
    assert all(connection.closed for connection in machine.opened)


@pytest.mark.claim("faults.engine-fails")
def test_toolbox_setup_does_not_block_others(hosting, machine, cancel):
    first, second = boxes(hosting)
    host, gate = hosting.ready(first), Gate()
    gate.close()
    machine.attest = gate
    setting_up = threading.Thread(target=hosting.ready, args=(second,))
    setting_up.start()
    assert gate.reached.wait(SECONDS)
    in_time(lambda: hosting.ready(first) is host and call(hosting, host, cancel))
    in_time(lambda: hosting.failed(host) is None)
    gate.open()
    setting_up.join()


@pytest.mark.claim("faults.engine-fails")
def test_endless_removal_blocks_no_call_or_new_host(hosting, machine, cancel):
    hosting.keep_warm()
    host, gate = hosting.ready(), Gate()
    until(lambda: host.pool.figures().waiting)
    machine.engine.before = lambda what, _about: gate() if what == "remove" else None
    gate.close()
    hosting.invalidate(host)
    assert gate.reached.wait(SECONDS)
    (new,) = in_time(hosting.ready)
    assert new is not host
    # meanwhile a container of another toolbox is created, started and used; its own removal waits with the others
    other = hosting.ready(boxes(hosting)[1])
    lease = in_time(lambda: other.pool.claim(hosting.kind(other, None), "call-0002", cancel))[0]
    gate.open()
    with lease:
        assert run(lease, cancel)


def test_workspace_pipes_are_covered_in_every_container(tmp_path, monkeypatch):
    with hosted(Machine(), tmp_path, monkeypatch) as hosting:
        (workspace,) = hosting._workspaces.items
        pipe = workspace.root / "pipe"
        os.mkfifo(pipe)
        host = hosting.ready()
        assert hosting.templates.build(host, None).pipes == (PurePosixPath(pipe),)
        pipe.unlink()
        assert hosting.templates.build(host, None).pipes == ()
        uncovered = replace(host, info=replace(host.info, covers_paths=False))
        os.mkfifo(pipe)
        assert hosting.templates.build(uncovered, None).pipes == ()
