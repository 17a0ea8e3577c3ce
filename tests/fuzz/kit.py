"""Helpers of the fuzz tests: the number of examples, bounded processor time, and texts that grow.

The tests use Hypothesis and not atheris: libFuzzer is guided by the edges of native code, but the code that reads
texts and bytes here is Python, most of it inside regular expressions that libFuzzer cannot see into. Hypothesis makes
values that nearly pass, shrinks its findings to a few letters, and needs no separate build for each Python.
"""

import os
from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.quick import quick

TIMES: Final = int(os.environ.get("FUZZ") or 1)  # factor on the number of examples; `make fuzz` sets it
# seed of the choices that Hypothesis does not make
SEED: Final = os.environ.get("FUZZ_SEED") or (os.urandom(4).hex() if TIMES > 1 else "0")


def tries(examples: int, **more: Any) -> settings:
    """Hypothesis settings for this number of examples, the same each time in CI; with FUZZ a multiple of them, different each time."""
    slow = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
    if TIMES > 1:
        more |= {"derandomize": False, "print_blob": True}
    return settings(max_examples=examples * TIMES, deadline=None, suppress_health_check=slow, **more)


def outcome(
    function: Callable[..., Any], *arguments: Any, refused: type[Exception] | tuple[type[Exception], ...]
) -> Any:
    """The result of a function, or the type of its refusal; other exceptions are passed on."""
    try:
        with quick():
            return function(*arguments)
    except refused as error:
        return type(error)


@st.composite
def grown(draw: st.DrawFn, seeds: st.SearchStrategy[str], length: int) -> str:
    """A text that passes, with a part of it repeated up to a length, and an error at the end."""
    seed = draw(seeds)
    first, last = sorted((draw(st.integers(0, len(seed))), draw(st.integers(0, len(seed)))))
    part = "".join(letter * draw(st.sampled_from((1, 1, 3, 15))) for letter in seed[first:last])
    times = length // len(part) if part else 0
    end = draw(st.sampled_from(("", "\0", "!", "x", "(", '"', "'", "=", ",", "€"))) + seed[last:]
    return (seed[:first] + part * draw(st.sampled_from((1, 4, 40, times))) + end)[:length]


numbers = st.integers() | st.floats()
numbers |= st.sampled_from((10**18, -(10**18), 10**400, 1e308, -0.0, 2**31, 2**63, 2**64))
scalars = st.none() | st.booleans() | numbers | st.text(max_size=20)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
