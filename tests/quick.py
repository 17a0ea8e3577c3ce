"""A bound on the processor time of a block."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# of what takes milliseconds here; what takes this long takes minutes with a little more text
CPU_SECONDS: Final = 4.0


class TooLong(AssertionError):
    """What should take milliseconds took seconds of the processor."""


@contextmanager
def quick(seconds: float = CPU_SECONDS, why: str = "") -> Iterator[None]:
    """Fails when the block uses that much of the processor. A busy machine makes no difference; regular expressions are
    interrupted too.
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
