"""Number of simultaneous calls that fit on a machine."""

from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.runtime.concurrency import concurrent_calls
from sandbox.errors import CapacityExhausted
from sandbox.template import Limits

GIB = 1 << 30


def test_processors_decide_how_many_calls_fit_unless_set():
    limits = Limits(memory_bytes=GIB)
    assert concurrent_calls(4, 64 * GIB, limits, 0.5) == 8
    assert concurrent_calls(4, 64 * GIB, limits, 0.5, concurrent=3) == 3
    assert concurrent_calls(4, 64 * GIB, limits, 0.5, concurrent=20) == 20
    assert concurrent_calls(0, 64 * GIB, limits, 0.5) >= 1


@given(
    st.integers(1, 512),
    st.integers(0, 1 << 45),
    st.integers(1 << 26, 1 << 40),
    st.floats(0.01, 1.0),
    st.integers(0, 99),
)
def test_concurrent_calls_never_exceed_the_memory_share(cpus, memory, each, share, configured):
    try:
        count = concurrent_calls(cpus, memory, Limits(memory_bytes=each), share, configured)
    except CapacityExhausted:
        assert each > int(memory * share)
    else:
        assert count >= 1
        assert count * each <= memory * share
