import math
import sqlite3
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gdal_mcp.errors import Code
from gdal_mcp.ledger.metrics import (
    OTHER,
    Ledger,
    Spread,
    Tally,
    _reading,
    containers,
    rows,
    staging_folders,
    tallies,
    whose,
)
from gdal_mcp.ledger.registry import Call, Finish, Registry, RegistryUnavailable
from gdal_mcp.ledger.schema import MIGRATIONS
from sandbox.engine import ContainerState, Leftover
from sandbox.labels import labels
from sandbox.outputs.staging import StagingArea
from sandbox.owner import Owner
from sandbox.workspace import Workspace

MIB = 1 << 20
KNOWN = frozenset({"info", "convert"})
LIMITS = {"memory_bytes": 512 * MIB, "cpus": 2.0, "wall_seconds": 60.0}
AMOUNTS = st.floats(0, 1e12, allow_nan=False)


@dataclass
class Book:
    """A registry in which calls are written by hand."""

    path: Path
    now: float = 1_000.0
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.registry = Registry(self.path, lambda: self.now)

    def begin(self, tool: str = "info", limits: dict[str, Any] | None = None) -> str:
        call = Call(f"c{next(self.numbers)}", "ann", tool, {}, limits=LIMITS if limits is None else limits)
        return self.registry.begin_call(call).id

    def end(self, call: str, outcome: str = "OK", **more: Any) -> None:
        self.registry.finish_call(call, Finish(outcome, **more))

    def run(self, tool: str = "info", outcome: str = "OK", **more: Any) -> None:
        self.end(self.begin(tool), outcome, **more)

    def all(self) -> Tally:
        return tallies(self.path, KNOWN, 0)[1]


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    made = Book(tmp_path / "state" / "registry.sqlite")
    yield made
    made.registry.close()


def ran(pool: str = "warm", cpu: Any = 0.5, memory: Any = 64 * MIB) -> dict[str, Any]:
    return {"pool": pool, "cpu_seconds": cpu, "peak_memory_bytes": memory}


# What is counted


def test_calls_are_counted_by_tool_and_outcome(book: Book):
    for tool, outcome in [("info", "OK"), ("info", "OK"), ("info", "TIMEOUT"), ("convert", "OK")]:
        book.run(tool, outcome)
    assert dict(book.all().calls) == {("info", "OK"): 2, ("info", "TIMEOUT"): 1, ("convert", "OK"): 1}


def test_a_call_that_was_refused_before_it_ran_is_counted_too(book: Book):
    book.registry.add_refused(Call("r1", "ann", "info", {}, outcome=str(Code.BUSY)))
    tally = book.all()
    assert dict(tally.calls) == {("info", "BUSY"): 1}
    assert tally.seconds["total"].number == 0  # it has no time of its own


def test_only_calls_that_ended_in_time_are_in_the_window(book: Book):
    book.run()
    late = book.begin()
    book.now = 2_000.0
    book.run("convert")
    book.end(late)  # it began before
    lately, total, _ = tallies(book.path, KNOWN, 2_000.0)
    assert (lately.number, total.number) == (2, 3)
    assert tallies(book.path, KNOWN, 2_000.5)[0].number == 0


def test_a_call_that_has_not_ended_is_counted_as_such_alone(book: Book):
    book.begin()
    book.run()
    _, total, running = tallies(book.path, KNOWN, 0)
    assert (total.number, running) == (1, 1)


def test_the_hit_rate_is_of_calls_that_had_a_container(book: Book):
    assert book.all().hit_rate is None
    for pool in ("warm", "warm", "warm", "cold"):
        book.run(receipt=ran(pool))
    book.run(outcome="NOT_FOUND")
    assert book.all().hit_rate == 0.75


def test_seconds_are_of_each_phase_and_of_the_whole(book: Book):
    call = book.begin()
    book.now += 9
    book.end(call, durations={"queue": 1.0, "claim": 2.0, "run": 3.0, "publish": 0.5, "approval": 99.0})
    seconds = book.all().seconds
    assert {phase: one.total for phase, one in seconds.items()} == {
        "queue": 1.0,
        "start": 2.0,
        "run": 3.0,
        "publish": 0.5,
        "total": 9.0,
    }


def test_a_clock_that_went_back_makes_no_negative_time(book: Book):
    call = book.begin()
    book.now -= 500
    book.end(call, durations={"run": 1.0})
    assert book.all().seconds["total"].total == 0


def test_what_was_published_is_added_up(book: Book):
    book.run(files=({"path": "/ws/a", "bytes": 10}, {"path": "/ws/b", "bytes": 5}))
    book.run(files=({"path": "/ws/c", "bytes": 1},))
    tally = book.all()
    assert (tally.output_files, tally.output_bytes) == (3, 16)


def test_use_is_added_up(book: Book):
    book.run(receipt=ran(cpu=0.5, memory=10 * MIB))
    book.run(receipt=ran(cpu=0.25, memory=30 * MIB))
    tally = book.all()
    assert (tally.cpu_seconds, tally.peak_memory.highest) == (0.75, 30 * MIB)


# What is not believed


@pytest.mark.parametrize("name", ["", "rm -rf /", 'x"} 1\n', "\x1b[2J", "INFO", "info ", "ü" * 90, "\ud800"])
def test_tools_that_do_not_exist_are_one_row(book: Book, name: str):
    book.run(name)
    book.run(name + "?")
    assert dict(book.all().calls) == {(OTHER, "OK"): 2}


def test_outcomes_that_do_not_exist_are_one_row(book: Book):
    book.run(outcome="FINE")
    book.run(outcome="GREAT")
    assert dict(book.all().calls) == {("info", OTHER): 2}


@pytest.mark.parametrize("said", [1e300, 1 << 80, 601 * MIB])
def test_a_container_is_believed_up_to_its_limits(book: Book, said: float):
    book.run(receipt=ran(cpu=said, memory=said))
    tally = book.all()
    assert tally.peak_memory.highest == LIMITS["memory_bytes"]
    assert tally.cpu_seconds == 2.0 * 60.0


@pytest.mark.parametrize("said", [-1, math.nan, math.inf, "9", True, None, [1], {"a": 1}])
def test_what_is_no_amount_is_left_out(book: Book, said: Any):
    book.run(receipt=ran(pool=said, cpu=said, memory=said), durations={"run": said})
    tally = book.all()
    assert (tally.cpu_seconds, tally.peak_memory.number, tally.pool.total()) == (0, 0, 0)
    assert tally.seconds["run"].number == 0


def test_without_limits_nothing_is_believed(book: Book):
    book.end(book.begin(limits={}), receipt=ran())
    tally = book.all()
    assert (tally.cpu_seconds, tally.peak_memory.number) == (0, 0)


# Spreads


@given(st.lists(AMOUNTS, min_size=1, max_size=200))
def test_quantiles_are_right_to_three_digits(amounts: list[float]):
    spread = Spread()
    for amount in amounts:
        spread.add(amount)
    ordered = sorted(amounts)
    for part in (0.5, 0.95):
        exact = ordered[math.ceil(part * len(ordered)) - 1]
        assert spread.quantile(part) == pytest.approx(exact, rel=0.0051)
    assert spread.number == len(amounts)
    assert spread.total == pytest.approx(sum(amounts))
    assert spread.highest == ordered[-1]


@given(st.lists(AMOUNTS, max_size=50), st.sampled_from([0.01, 0.25, 2.5, 3600, 25e6, 12.8e9]))
def test_what_is_up_to_a_bound_is_counted_on_the_right_side(amounts: list[float], bound: float):
    spread = Spread()
    for amount in [*amounts, bound, bound * 1.01]:
        spread.add(amount)
    clear = [amount for amount in amounts if not bound < amount < bound * 1.01]
    least = sum(amount <= bound for amount in clear) + 1
    assert least <= spread.up_to(bound) <= least + len(amounts) - len(clear)


def test_a_spread_stays_small_however_many_there_are():
    spread = Spread()
    for number in range(200_000):
        spread.add(1 + number / 1e5)
    assert len(spread.counts) <= 300
    assert spread.quantile(0.5) == pytest.approx(statistics.median((1.0, 3.0)), rel=0.01)


def test_nothing_has_no_quantile():
    assert Spread().quantile(0.5) is None


# Reading again and again


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["begin", "end", "end newest", "read"]), max_size=25))
def test_however_often_it_is_read_each_call_is_counted_once(
    tmp_path_factory: pytest.TempPathFactory, plan: list[str]
):
    book = Book(tmp_path_factory.mktemp("book") / "registry.sqlite")
    ledger = Ledger(book.path, KNOWN)
    open_calls: list[str] = []
    ended = 0
    try:
        for step in [*plan, "read", "read"]:
            if step == "begin":
                open_calls.append(book.begin())
            elif step == "read":
                tally, running = ledger.total()
                assert (tally.number, running) == (ended, len(open_calls))
                assert tally.seconds["run"].total == ended
            elif open_calls:
                book.end(open_calls.pop(-1 if "newest" in step else 0), durations={"run": 1.0})
                ended += 1
    finally:
        book.registry.close()


def test_what_is_settled_is_not_read_again(book: Book):
    ledger = Ledger(book.path, KNOWN)
    book.run()
    first, _ = ledger.total()
    with sqlite3.connect(book.path) as database:
        database.execute("UPDATE calls SET tool = 'convert'")
    book.run()
    second, _ = ledger.total()
    assert dict(second.calls) == {("info", "OK"): 2}
    assert first.number == 1  # what was given out does not change


# Reading changes nothing


def test_an_absent_registry_is_an_empty_one_and_is_not_made(tmp_path: Path):
    path = tmp_path / "none" / "registry.sqlite"
    assert tallies(path, KNOWN, 0) == (Tally(), Tally(), 0)
    assert not path.parent.exists()


@pytest.mark.parametrize("version", [0, 1, len(MIGRATIONS) + 1])
def test_a_registry_of_another_version_is_refused_and_left_as_it_is(book: Book, version: int):
    book.run()
    with sqlite3.connect(book.path) as database:
        database.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(RegistryUnavailable):
        book.all()
    with sqlite3.connect(book.path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (version,)


def test_nothing_can_be_written_where_it_is_read(book: Book):
    book.run()
    with _reading(book.path) as database, pytest.raises(sqlite3.OperationalError):
        database.execute("DELETE FROM calls")
    assert book.all().number == 1


def test_what_is_no_database_is_refused(tmp_path: Path):
    path = tmp_path / "registry.sqlite"
    path.write_bytes(b"not a database, " * 100)
    with pytest.raises(RegistryUnavailable):
        tallies(path, KNOWN, 0)


def test_a_server_writes_on_while_it_is_read(book: Book):
    for _ in range(3):
        book.run()
    found = []
    for number, _ in rows(book.path):
        book.run()
        found.append(number)
    assert len(found) == 3
    assert book.all().number == 6


@pytest.mark.parametrize("name", ["a?mode=rwc", "a#b", "a%20b", "ü b"])
def test_a_folder_of_any_name_is_found(tmp_path: Path, name: str):
    book = Book(tmp_path / name / "registry.sqlite")
    book.run()
    book.registry.close()
    assert book.all().number == 1


# What is on this host


class Engine:
    """An engine of which only what exists is asked."""

    def __init__(self, **running: tuple[str, bool | None]) -> None:
        self.running = running

    def leftovers(self) -> tuple[Leftover, ...]:
        return tuple(Leftover(name, labels(owner, "call", 60)) for name, (owner, _) in self.running.items())

    def state(self, container: str) -> ContainerState | None:
        running = self.running[container][1]
        return None if running is None else ContainerState(running, 0, out_of_memory=False)


def test_containers_are_counted_by_whose_they_are(tmp_path: Path):
    own, other, gone = (Owner(tmp_path / "servers") for _ in range(3))
    gone.close()
    (tmp_path / "servers" / f"{gone.id}.lock").touch()  # as a server leaves it that is killed
    (tmp_path / "x.lock").touch()
    engine = Engine(
        a=(own.id, True),
        b=(other.id, True),
        c=(gone.id, True),
        d=(gone.id, False),
        e=("0" * 16, True),
        f=("../x", True),
        g=(own.id, None),  # removed meanwhile
    )
    try:
        assert dict(containers(engine, own)) == {
            ("alive", "running"): 2,
            ("dead", "running"): 1,
            ("dead", "stopped"): 1,
            ("foreign", "running"): 2,
        }
        assert whose(own, "") == "foreign"
    finally:
        own.close()
        other.close()


def test_staging_folders_are_counted(tmp_path: Path):
    assert staging_folders(tmp_path) == 0
    user = (tmp_path.stat().st_uid or 65534, tmp_path.stat().st_gid or 65534)
    area = StagingArea(Workspace.at(tmp_path, writable=True))
    with area.open("staging-1", user), area.open("staging-2", user):
        assert staging_folders(tmp_path) == 2
    assert staging_folders(tmp_path) == 0


def test_a_staging_folder_that_is_a_link_is_not_followed(tmp_path: Path):
    (tmp_path / "elsewhere" / "staging" / "x").mkdir(parents=True)
    root = tmp_path / "root"
    root.mkdir()
    (root / ".gdal-mcp").symlink_to(tmp_path / "elsewhere")
    assert staging_folders(root) is None
