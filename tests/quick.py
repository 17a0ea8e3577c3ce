"""A bound on the processor time of a block."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# seconds, for work that takes milliseconds; work that takes this long would take minutes with slightly longer text
CPU_SECONDS: Final = 4.0


class TooLong(AssertionError):
    """Work that should take milliseconds took seconds of processor time."""


@contextmanager
def quick(seconds: float = CPU_SECONDS, why: str = "") -> Iterator[None]:
    """Fails if the block uses more processor time than this.

    A busy machine makes no difference. Regular expressions are interrupted too.
    """

    def ring(*_: object) -> None:
        raise TooLong(f"more than {seconds} s of the processor; {why}")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
