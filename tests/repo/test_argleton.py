"""The limits at which a run of Argleton passes."""

import pytest

from bench.argleton.__main__ import LIMITS, within_limits

CLEAN = {"silent_error_rate": 0.0, "completion_rate": 1.0, "unsupported": 0}


@pytest.mark.parametrize("adapter", LIMITS)
def test_run_passes_only_when_complete_and_mostly_right(adapter: str):
    allowed = LIMITS[adapter]
    assert within_limits(adapter, {**CLEAN, "silent_error_rate": allowed})
    assert not within_limits(adapter, {**CLEAN, "silent_error_rate": allowed + 0.01})
    assert not within_limits(adapter, {**CLEAN, "completion_rate": 0.97})
    assert not within_limits(adapter, {**CLEAN, "unsupported": 1})
