"""The total of reserved memory, among threads of a process and among processes."""

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from sandbox.capacity import LockFileCapacity
from sandbox.errors import CapacityExhausted
from tests.unit.sandbox.pool_kit import promised

MIB = 1 << 20
OTHER = """
import sys
from pathlib import Path
from sandbox.capacity import LockFileCapacity
file, total, size = sys.argv[1:]
capacity, held = LockFileCapacity(Path(file), int(total)), []
for line in sys.stdin:
    if line == "take\\n":
        place = capacity.take(int(size))
        held += [place] if place else []
        print("taken" if place else "none", flush=True)
    else:
        held.pop().release()
        print("released", flush=True)
"""


class Other:
    """Another process on the same file."""

    def __init__(self, file: Path, total: int, size: int) -> None:
        command, pipe = [sys.executable, "-c", OTHER, str(file), str(total), str(size)], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def do(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.lock"


@pytest.fixture
def ours(file: Path) -> Iterator[LockFileCapacity]:
    """Memory for four reservations of 64 MiB."""
    capacity = LockFileCapacity(file, 256 * MIB)
    yield capacity
    capacity.close()


@pytest.fixture
def other(file: Path) -> Iterator[Other]:
    another = Other(file, 256 * MIB, 64 * MIB)
    yield another
    another.close()


@pytest.mark.claim("resources.memory-promised")
def test_promised_memory_stays_within_total_and_is_reusable(ours: LockFileCapacity):
    places = [ours.take(64 * MIB) for _ in range(4)]
    assert all(places)
    assert ours.take(64 * MIB) is None
    places[1].release()
    places[1].release()  # a second release frees no more memory
    assert ours.take(64 * MIB) is not None
    assert ours.take(64 * MIB) is None
    assert promised(ours) == 256 * MIB


@pytest.mark.claim("resources.memory-promised")
def test_many_threads_never_exceed_the_capacity(ours: LockFileCapacity):
    now, most, lock, together = [0], [0], threading.Lock(), threading.Barrier(8)

    def take_and_return() -> None:
        together.wait()
        for _ in range(50):
            with ours.wait(64 * MIB, 60.0):
                with lock:
                    now[0] += 1
                    most[0] = max(most[0], now[0])
                with lock:
                    now[0] -= 1

    threads = [threading.Thread(target=take_and_return) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= most[0] <= 4
    assert promised(ours) == 0


@pytest.mark.claim("resources.memory-promised")
def test_what_another_process_holds_is_not_promised_again(ours: LockFileCapacity, other: Other):
    assert [other.do("take") for _ in range(3)] == ["taken"] * 3
    place = ours.take(64 * MIB)
    assert place is not None
    assert (ours.take(64 * MIB), other.do("take")) == (None, "none")
    assert other.do("release") == "released"
    assert ours.take(64 * MIB)
    assert other.do("take") == "none"


def test_refill_leaves_room_unclaimed_by_another_process(ours: LockFileCapacity, other: Other):
    assert [other.do("take") for _ in range(3)] == ["taken"] * 3
    assert ours.take(64 * MIB, leaving=64 * MIB) is None
    assert other.do("take") == "taken"  # the failed attempt leaves no reservation


@pytest.mark.claim("resources.memory-promised")
def test_killed_process_returns_all_it_held(ours: LockFileCapacity, other: Other):
    assert [other.do("take") for _ in range(4)] == ["taken"] * 4
    waiting, got = threading.Event(), []

    def meanwhile() -> bool:
        waiting.set()
        return False

    thread = threading.Thread(target=lambda: got.append(ours.wait(64 * MIB, 60.0, meanwhile)))
    thread.start()
    assert waiting.wait(30)
    assert got == []
    other.process.send_signal(signal.SIGKILL)
    other.process.wait()
    thread.join()
    assert got
    assert all(ours.take(64 * MIB) for _ in range(3))


def test_impossible_request_fails_at_once_and_others_wait(ours: LockFileCapacity):
    looks = []
    with pytest.raises(CapacityExhausted):
        ours.wait(257 * MIB, 1e9, lambda: bool(looks.append(1)))
    assert looks == []
    reserved = [ours.take(64 * MIB) for _ in range(4)]
    with pytest.raises(CapacityExhausted):
        ours.wait(64 * MIB, 0.0)
    assert all(reserved)


def test_who_waits_may_make_room_or_give_up(ours: LockFileCapacity):
    reserved = [ours.take(256 * MIB)]

    def make_room() -> bool:
        reserved.pop().release()
        return True

    place = ours.wait(64 * MIB, 60.0, make_room)
    assert promised(ours) == 64 * MIB
    assert reserved == []
    place.release()
    reserved.append(ours.take(256 * MIB))
    with pytest.raises(KeyboardInterrupt):
        ours.wait(64 * MIB, 60.0, lambda: (_ for _ in ()).throw(KeyboardInterrupt))


def test_reduced_memory_promises_no_more_until_free(ours: LockFileCapacity):
    places = [ours.take(64 * MIB) for _ in range(4)]
    ours.total_bytes = 128 * MIB
    places[3].release()
    assert ours.take(64 * MIB) is None
    places[0].release()
    assert ours.take(64 * MIB) is None  # 128 MiB are still held
    places[1].release()
    assert ours.take(64 * MIB)


def test_promise_outliving_its_file_touches_no_other(file: Path, tmp_path: Path):
    capacity = LockFileCapacity(file, 256 * MIB)
    place = capacity.take(64 * MIB)
    capacity.close()
    successor = LockFileCapacity(file, 256 * MIB)  # most likely with the same descriptor number
    assert all(successor.take(64 * MIB) for _ in range(4))
    place.release()
    watcher = Other(file, 256 * MIB, 64 * MIB)
    assert watcher.do("take") == "none"
    watcher.close()
    successor.close()


def test_child_process_neither_inherits_nor_drops_promises(ours: LockFileCapacity, other: Other):
    assert all(ours.take(64 * MIB) for _ in range(4))
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert other.do("take") == "none"


@pytest.mark.claim("resources.memory-promised")
def test_scattered_free_memory_can_be_promised_whole(ours: LockFileCapacity):
    first, second = ours.take(64 * MIB), ours.take(64 * MIB)
    first.release()
    assert ours.take(192 * MIB)  # with 64 MiB still reserved in the middle of it
    assert second is not None


@pytest.mark.claim("resources.memory-promised")
def test_reopening_files_in_process_drops_no_promise(ours: LockFileCapacity, file: Path, other: Other):
    assert all(ours.take(64 * MIB) for _ in range(4))
    for path in [file, *file.glob("*")]:
        if path.is_file():
            path.open("rb").close()
    second = LockFileCapacity(file, 256 * MIB)
    assert second.take(64 * MIB) is None
    second.close()
    assert other.do("take") == "none"


@pytest.mark.claim("resources.memory-promised")
def test_large_request_precedes_later_small_ones(ours: LockFileCapacity, other: Other):
    """Small requests, of this process and another one, never leave enough free at once for the large one."""
    reserved, looked, got = [ours.take(64 * MIB) for _ in range(4)], threading.Event(), []

    def look() -> bool:
        looked.set()
        return False

    def large() -> None:
        got.append(ours.wait(256 * MIB, 60.0, look))

    waiting = threading.Thread(target=large)
    waiting.start()
    assert looked.wait(30)
    for place in reserved:
        place.release()
        assert ours.take(64 * MIB) is None or got
        assert other.do("take") == "none"
    waiting.join()
    assert promised(ours) == 256 * MIB


def test_request_of_killed_process_delays_nobody(file: Path, ours: LockFileCapacity):
    reserved = ours.take(64 * MIB)
    asking = "import sys; from pathlib import Path; from sandbox.capacity import LockFileCapacity\n"
    asking += (
        "LockFileCapacity(Path(sys.argv[1]), 1 << 28).wait(1 << 28, 1e6, lambda: bool(print(flush=True)))"
    )
    waiter = subprocess.Popen([sys.executable, "-c", asking, str(file)], stdout=subprocess.PIPE)
    assert waiter.stdout is not None
    waiter.stdout.readline()  # it has tried, and waits
    assert ours.take(64 * MIB) is None  # the other request was first
    waiter.kill()
    waiter.communicate()
    assert ours.take(64 * MIB)
    assert reserved is not None


def test_request_on_a_full_disk_delays_nobody(ours: LockFileCapacity):
    """A request that could not be written is over."""
    ledger, full = os.dup(ours._ledger), os.open("/dev/full", os.O_RDWR)
    os.dup2(full, ours._ledger)
    with pytest.raises(CapacityExhausted):
        ours.wait(64 * MIB, 600.0)
    os.dup2(ledger, ours._ledger)
    taken = ours.take(64 * MIB)
    assert taken is not None
    taken.release()
    for descriptor in (ledger, full):
        os.close(descriptor)


def test_unreadable_ledger_counts_as_all_the_memory(file: Path, ours: LockFileCapacity):
    stranger = LockFileCapacity(file, 256 * MIB)
    (file / stranger._name).write_bytes(b"")
    assert ours.take(MIB) is None
    stranger.take(MIB)
    stranger.close()
    assert ours.take(256 * MIB)


class Promises(RuleBasedStateMachine):
    """Reservations of every size, taken and released in any order."""

    places = Bundle("places")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.capacity = LockFileCapacity(Path(self.folder.name), 10 * MIB)
        self.held: list = []

    @rule(target=places, size=st.integers(1, 11 * MIB), leaving=st.integers(0, 4 * MIB))
    def take(self, size, leaving):
        wanted = sum(reservation.length for reservation in self.held) + -(-size // MIB) + -(-leaving // MIB)
        place = self.capacity.take(size, leaving=leaving)
        assert (place is not None) == (wanted <= 10)  # whenever it fits
        if place is not None:
            self.held.append(place)
        return place

    @rule(place=consumes(places))
    def give_back(self, place):
        if place is not None:
            place.release()
            self.held.remove(place)

    @invariant()
    def the_sum_is_what_was_taken(self):
        assert promised(self.capacity) == sum(reservation.length for reservation in self.held) * MIB

    def teardown(self):
        self.capacity.close()
        self.folder.cleanup()


TestPromises = Promises.TestCase


@given(st.integers(1, 9 * MIB), st.integers(0, 40 * MIB))
def test_available_places_equal_those_that_can_be_taken(size, total):
    with tempfile.TemporaryDirectory() as folder:
        capacity, taken = LockFileCapacity(Path(folder), total), 0
        while capacity.take(size):
            taken += 1
        assert taken == total // MIB // math.ceil(size / MIB)
        capacity.close()
