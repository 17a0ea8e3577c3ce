"""How many slots are worth keeping, from when they were asked for."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from sandbox.pool.sizing import MEMORY_SECONDS, MOST_NOTED, Sizes, Sizing, peak, shares

moments = st.lists(st.floats(0, MEMORY_SECONDS, allow_nan=False), max_size=60).map(sorted)
counts = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=6)


@given(moments, st.floats(0.01, 5))
def test_the_peak_is_the_most_calls_that_any_window_of_that_length_holds(times, window):
    windows = [sum(end - window <= time <= end for time in times) for end in times]
    assert peak(deque(times), MEMORY_SECONDS, window) == max(windows, default=0)


@given(moments, st.floats(0.01, 5), st.floats(0, 5))
def test_slower_starts_never_ask_for_less(times, window, longer):
    assert peak(deque(times), MEMORY_SECONDS, window) <= peak(deque(times), MEMORY_SECONDS, window + longer)


def test_a_burst_is_remembered_for_a_while_and_then_forgotten():
    times = deque([0.0, 0.1, 0.2])
    assert peak(times, MEMORY_SECONDS, 0.5) == 3
    assert peak(times, MEMORY_SECONDS + 0.15, 0.5) == 1
    assert peak(times, 2 * MEMORY_SECONDS, 0.5) == 0
    assert not times


def test_calls_that_come_one_by_one_ask_for_one():
    assert peak(deque(map(float, range(50))), 50.0, 0.5) == 1


def test_a_flood_of_calls_takes_no_more_memory_than_its_newest():
    sizing: Sizing[str] = Sizing(Sizes())
    for number in range(10 * MOST_NOTED):
        sizing.note_claim("a kind", number / 1000)
    ((_, times),) = sizing.claims
    assert len(times) == peak(times, 3.0, 1.0) == MOST_NOTED


@given(counts, st.integers(0, 12))
def test_never_more_are_kept_than_may_be_and_no_kind_gets_more_than_it_needs(rows, most):
    wanted, least = [want for want, _ in rows], [floor for _, floor in rows]
    given_ = shares(wanted, least, most)
    assert len(given_) == len(rows)
    assert sum(given_) <= most
    assert all(0 <= has <= max(row) for has, row in zip(given_, rows, strict=True))


@given(counts, st.integers(0, 12))
def test_what_may_be_kept_is_not_left_unused_while_a_kind_lacks_some(rows, most):
    given_ = shares([want for want, _ in rows], [floor for _, floor in rows], most)
    lacking = any(has < want for has, (want, _) in zip(given_, rows, strict=True))
    assert sum(given_) == most or not lacking


@given(counts, st.integers(0, 12), st.data())
def test_more_demand_for_a_kind_never_gives_it_less(rows, most, data):
    if rows:
        which = data.draw(st.integers(0, len(rows) - 1))
        wanted, least = [want for want, _ in rows], [floor for _, floor in rows]
        before = shares(wanted, least, most)[which]
        wanted[which] += data.draw(st.integers(1, 5))
        assert shares(wanted, least, most)[which] >= before


def test_the_least_of_every_kind_comes_before_anybody_s_demand():
    assert shares([9, 0, 0], [1, 1, 1], 4) == (2, 1, 1)
    assert shares([9, 0, 0], [1, 1, 1], 2) == (1, 1, 0)


def test_what_is_over_goes_to_whoever_lacks_most():
    assert shares([6, 2, 4], [0, 0, 0], 6) == (4, 0, 2)
    assert shares([3, 3], [0, 0], 4) == (2, 2)


@given(counts)
def test_nothing_is_kept_where_nothing_may_be(rows):
    assert sum(shares([want for want, _ in rows], [floor for _, floor in rows], 0)) == 0


def test_the_targets_are_what_was_asked_for_at_once_and_at_least_what_always_stands():
    sizing: Sizing[str] = Sizing(Sizes(least=1, most=4), refill_seconds=10.0)
    assert sizing.targets(["a"], 0.0, 9) == [("a", 1)]
    for _ in range(3):
        sizing.note_claim("b", 1.0)
    assert sizing.targets(["a"], 1.0, 9) == [("a", 1), ("b", 3)]
    assert sizing.targets(["a"], 1.0, 2) == [("a", 1), ("b", 1)]  # as the memory of the machine allows
    assert sizing.targets(["a"], 2 * MEMORY_SECONDS, 9) == [("a", 1), ("b", 0)]
    assert sizing.targets(["a"], 2 * MEMORY_SECONDS, 9) == [("a", 1)]


def test_how_long_a_refill_takes_follows_what_was_measured():
    sizing: Sizing[str] = Sizing(Sizes(), refill_seconds=1.0)
    for _ in range(20):
        sizing.note_refill(3.0)
    assert 2.9 < sizing.refill_seconds <= 3.0
