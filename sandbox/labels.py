"""The labels of every container: its server, its call, and its deadline."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from sandbox import PRODUCT
from sandbox.portable import boot

OWNER = f"io.{PRODUCT}.owner"
CALL = f"io.{PRODUCT}.call"
STARTED = f"io.{PRODUCT}.started"  # seconds since the epoch
DEADLINE = f"io.{PRODUCT}.deadline"  # seconds since the epoch, for servers of another boot or host
UPTIME_DEADLINE = f"io.{PRODUCT}.uptime-deadline"  # boot id of that host, and seconds since its boot


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time on two clocks: the wall clock, which may be set, and the clock of this boot, which only
    advances.
    """

    wall: float  # seconds since the epoch
    boot: str  # "" if the kernel does not provide it; then only the wall clock can be compared
    uptime: float  # seconds since that boot, sleep included

    @classmethod
    def now(cls) -> Self:
        return cls(time.time(), *boot())


def labels(owner: str, call: str, wall_seconds: float) -> Mapping[str, str]:
    now = Moment.now()
    return {
        OWNER: owner,
        CALL: call,
        STARTED: f"{now.wall:.3f}",
        DEADLINE: f"{now.wall + wall_seconds:.3f}",
        UPTIME_DEADLINE: f"{now.boot} {now.uptime + wall_seconds:.3f}",
    }


def overdue(marks: Mapping[str, str], now: Moment) -> float:
    """Seconds since the deadline, negative before it. Raises ValueError for labels without a deadline."""
    booted, _, uptime = marks.get(UPTIME_DEADLINE, "").partition(" ")
    if booted and booted == now.boot:
        return now.uptime - float(uptime)
    return now.wall - float(marks.get(DEADLINE, ""))
