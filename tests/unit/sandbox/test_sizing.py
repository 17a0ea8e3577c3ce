"""How many slots should wait, from the times of earlier calls."""

from hypothesis import given
from hypothesis import strategies as st

from sandbox.pool.sizing import MEMORY_SECONDS, MOST_NOTED, Sizes, Sizing

claims = st.lists(
    st.tuples(st.floats(0, MEMORY_SECONDS, allow_nan=False), st.sampled_from("abc")), max_size=60
)


def sized(noted, least=1, most=4, at_once=1.0) -> Sizing[str]:
    sizing: Sizing[str] = Sizing(Sizes(least, most), at_once)
    for now, kind in sorted(noted):
        sizing.note(now, kind)
    return sizing


@given(claims, st.integers(0, 3), st.integers(0, 12), st.integers(0, 12))
def test_slots_never_exceed_limits_or_demand(noted, least, most, fitting):
    targets = sized(noted, least, most).targets(["a"], MEMORY_SECONDS, fitting)
    demand = {kind: sum(claimed == kind for _, claimed in noted) for kind in "abc"}
    assert sum(count for _, count in targets) <= min(most, fitting)
    assert all(0 <= count <= max(demand[kind], least if kind == "a" else 0) for kind, count in targets)


def test_sizes_prefer_configured_kinds_then_concurrent_ones():
    burst = [(1.0, "b")] * 3
    for noted, now, fitting, expected in (
        ([], 0.0, 9, [("a", 1)]),
        (burst, 1.0, 9, [("a", 1), ("b", 3)]),
        (burst, 1.0, 2, [("a", 1), ("b", 1)]),  # limited by the memory of the machine
        (burst, 2 * MEMORY_SECONDS, 9, [("a", 1)]),  # forgotten
        ([(1.0, "a"), (1.5, "a"), (1.8, "b")], 2.0, 9, [("a", 2), ("b", 1)]),
        ([(float(second), "b") for second in range(0, 50, 2)], 50.0, 9, [("a", 1), ("b", 1)]),  # one by one
    ):
        assert sized(noted).targets(["a"], now, fitting) == expected


def test_flood_of_calls_uses_bounded_memory():
    sizing = sized([(number / 1000, "a") for number in range(10 * MOST_NOTED)])
    assert [len(times) for _, times in sizing.demand] == [MOST_NOTED]


def test_claims_are_counted_without_comparing_each_kind_again():
    """Comparing kinds is slow, and claims are counted whenever a pool is examined."""
    compared = []

    class Kind:
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return isinstance(other, Kind)

        __hash__ = object.__hash__

    sizing: Sizing[Kind] = Sizing(Sizes())
    for number in range(MOST_NOTED):
        sizing.note(float(number), Kind())
    compared.clear()
    assert [count for _, count in sizing.targets([Kind()], float(MOST_NOTED), 9)] == [2]
    assert len(compared) <= 4
