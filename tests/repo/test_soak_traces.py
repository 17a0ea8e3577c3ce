"""The detection of leaks by a soak test, on known curves of memory."""

import math

from tests.soak.soak import GROWTH
from tests.soak.traces import steady_growth


def test_leak_is_distinguished_from_warming_up():
    for seconds in (60, 120, 600):
        noise = [0.4 * math.sin(second) for second in range(seconds)]
        level = [370.0 + deviation for deviation in noise]
        warming = [
            370.0 + 25 * (1 - math.exp(-4 * n / seconds)) + deviation for n, deviation in enumerate(noise)
        ]
        steps = [370.0 + (10 if n > seconds * 0.6 else 0) + deviation for n, deviation in enumerate(noise)]
        leaking = [370.0 + 12 * n / seconds + deviation for n, deviation in enumerate(noise)]
        for curve in (level, warming, steps):
            assert steady_growth(curve) < GROWTH
        assert steady_growth(leaking) > GROWTH
    assert steady_growth([]) == steady_growth([370.0]) == 0.0
