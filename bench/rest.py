"""The containers of the servers under measurement, as the engine and the kernel see them.

After a warm call the pool starts another slot and the old container goes. Neither may fall into what is measured next,
so every contender that used a slot waits for rest.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors

from bench.arena import Arena, NotMeasurable
from sandbox.engines.discovery import connect
from sandbox.labels import OWNER

PATIENCE = 60.0  # seconds; a refill takes half a second on an idle machine
GLANCE = 0.1  # seconds between two looks
LOOKS = 3  # alike, one after the other
_UTIME, _STIME = 11, 12  # of what follows the name in /proc/PID/stat, by proc(5)


@dataclass(frozen=True, slots=True)
class Containers:
    """Those of every server whose state lies in this folder."""

    client: docker.DockerClient
    state: Path

    def rows(self) -> list[Mapping[str, Any]]:
        """As the engine lists them, running or not."""
        owners = {path.stem for path in self.state.rglob("servers/*.lock")}
        found = self.client.api.containers(all=True, filters={"label": OWNER})
        return [row for row in found if row["Labels"].get(OWNER) in owners]

    def at_rest(self, least: int = 0) -> int:
        """Waits until at least so many containers run, the same ones for a while, and none of them computes.

        Returns how many there are. Raises NotMeasurable when that does not come.
        """
        end, before, alike = time.monotonic() + PATIENCE, None, 0
        while time.monotonic() < end:
            now = self._look()
            alike = alike + 1 if now is not None and len(now) >= least and now == before else 0
            if now is not None and alike == LOOKS:
                return len(now)
            before = now
            time.sleep(GLANCE)
        states = ", ".join(sorted(row["Status"] for row in self.rows())) or "there are none"
        raise NotMeasurable(
            f"the servers' containers did not come to rest within {PATIENCE:.0f} s, {least} at least were waited for: {states}"
        )

    def _look(self) -> Mapping[str, int] | None:
        """The jiffies that each container's first process has used; None while one comes or goes."""
        try:
            rows = self.rows()
            if any(row["State"] != "running" for row in rows):
                return None
            return {row["Id"]: self._jiffies(row["Id"]) for row in rows}
        except docker.errors.NotFound:
            return None

    def _jiffies(self, container: str) -> int:
        pid = self.client.api.inspect_container(container)["State"]["Pid"]
        with suppress(OSError):  # an engine that runs elsewhere has its processes elsewhere
            words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            return int(words[_UTIME]) + int(words[_STIME])
        return 0

    def memory(self) -> list[int]:
        """Bytes that each running container's cgroup holds, without file pages that could go at any time."""
        return [self._memory(row["Id"]) for row in self.rows() if row["State"] == "running"]

    def _memory(self, container: str) -> int:
        said = self.client.api.stats(container, stream=False, one_shot=True)["memory_stats"]
        stats = said.get("stats", {})
        inactive = stats.get("total_inactive_file", stats.get("inactive_file", 0))  # cgroup v1, v2
        return int(said["usage"]) - int(inactive)


@contextmanager
def containers(arena: Arena) -> Iterator[Containers]:
    """Those of every server of this benchmark."""
    client = connect(arena.address)
    try:
        yield Containers(client, arena.state)
    finally:
        client.close()


@dataclass(frozen=True, slots=True)
class Resting:
    """Runs work that uses slots, and lets the pool come to rest after it."""

    containers: Containers
    idle: int  # containers of a pool that is full

    def after(self, work: Callable[[], float]) -> Callable[[], float]:
        def both() -> float:
            taken = work()
            self.containers.at_rest(self.idle)
            return taken

        return both
