"""The number of calls that may run at once."""

from sandbox.errors import CapacityExhausted
from sandbox.template import Limits

CALLS_PER_CPU = 2  # calls for each processor; more would not be faster


def concurrent_calls(cpus: int, memory_bytes: int, limits: Limits, share: float, concurrent: int = 0) -> int:
    """The number of calls that may run at once, from the machine's processors and the memory share for containers.

    `concurrent` replaces the number that follows from the processors; memory limits both. Raises CapacityExhausted if
    the memory is too small for one call.
    """
    usable = int(memory_bytes * share)
    fitting = usable // limits.memory_bytes
    if fitting < 1:
        raise CapacityExhausted(
            f"one call may use {limits.memory_bytes >> 20} MiB of memory, but all of them together only {usable >> 20} MiB, "
            f"which is {share:.0%} of this machine's. Lower --memory, or raise --memory-share."
        )
    return min(fitting, concurrent or CALLS_PER_CPU * max(cpus, 1))
