"""Living and dead servers are distinguished by a lock that the kernel releases, never by a name or a process id."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox.owner import Owner

HOLD = """
import sys
from pathlib import Path
from sandbox.owner import Owner
print(Owner(Path(sys.argv[1])).id, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(tmp_path):
    new_owner = Owner(tmp_path / "servers")
    yield new_owner
    new_owner.close()


@pytest.fixture
def other(owner):
    """Another server in a separate process, as (its id, its process)."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(owner.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process.stdout.readline().strip(), process
        process.kill()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_unknown_label_is_neither_dead_server_nor_path(owner, tmp_path):
    (tmp_path / "outside.lock").touch()
    for name in ("0123456789abcdef", "", ".", "..", "../outside", "a/b", "a\0b", "*", "x.lock"):
        assert not owner.is_dead(name)
        owner.delete_lock(name)
    assert (tmp_path / "outside.lock").exists()


def test_only_the_dead_are_forgotten(owner, other):
    name, process = other
    owner.delete_lock(name)
    assert not owner.is_dead(name)
    kill(process)
    owner.delete_lock(name)
    assert owner.dead() == ()
    assert not (owner.folder / f"{name}.lock").exists()


def test_asking_does_not_keep_a_lock(owner, other):
    name, process = other
    kill(process)
    assert owner.is_dead(name)
    assert owner.is_dead(name)
    with (owner.folder / f"{name}.lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not owner.is_dead(name)  # a process holds it again


def test_simultaneous_checks_are_not_mistaken_for_the_owner(owner, other):
    """Otherwise each would leave the dead server's containers to the others, and the last would forget it."""
    name, process = other
    kill(process)
    together = threading.Barrier(4)

    def ask(_):
        together.wait()
        return [owner.is_dead(name) for _ in range(200)]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert all(all(answer) for answer in answers)


def test_a_server_that_ends_in_order_leaves_nothing(tmp_path):
    Owner(tmp_path / "servers").close()
    assert os.listdir(tmp_path / "servers") == []


def test_lock_never_appears_free_during_creation(owner, monkeypatch):
    """Between creating and locking a lock file, another server must not mistake it for one of a dead server."""
    dead, actual = [], fcntl.flock

    def flock(file, how):
        with monkeypatch.context() as inner:
            inner.setattr(fcntl, "flock", actual)
            dead.append(owner.dead())
        return actual(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    Owner(owner.folder).close()
    assert dead == [()]


def test_the_folder_is_its_owners_alone(owner):
    assert owner.folder.stat().st_mode & 0o777 == 0o700
    (lock,) = owner.folder.iterdir()
    assert lock.stat().st_mode & 0o777 == 0o600
