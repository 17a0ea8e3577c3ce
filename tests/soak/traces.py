"""Resources of running servers, and their leftovers: measured by kernel, engine and files, not by the servers."""

import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors

from gdal_mcp.records.audit_verification import verify
from sandbox.labels import OWNER
from tests.e2e.mcp.talk import Place

SAMPLE_SECONDS = 1.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Held:
    """Resources of all servers together."""

    memory: float  # MB
    descriptors: int
    threads: int
    containers: int
    staging: int


@dataclass
class Servers:
    """The servers of one workspace."""

    place: Place
    client: docker.DockerClient
    curve: list[float] = field(default_factory=list)  # MB of all servers, every SAMPLE_SECONDS

    def processes(self) -> list[Path]:
        """The folders of the servers in /proc."""
        return [folder for folder in Path("/proc").glob("[0-9]*") if self._is_ours(folder)]

    def _is_ours(self, folder: Path) -> bool:
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return b"serve" in words and str(self.place.state).encode() in words

    def containers(self) -> list[str]:
        return [row["Id"] for row in containers_of(self.client, self.place.owners)]

    def used_resources(self) -> Held:
        ours = self.processes()
        return Held(
            memory=self.memory(),
            descriptors=sum(len(list((process / "fd").iterdir())) for process in ours),
            threads=sum(len(list((process / "task").iterdir())) for process in ours),
            containers=len(self.containers()),
            staging=len(self.place.staged),
        )

    def memory(self) -> float:
        pages = [int((process / "statm").read_text().split()[1]) for process in self.processes()]
        return sum(pages) * _PAGE / 1e6

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Adds their memory to `curve` meanwhile."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(SAMPLE_SECONDS):
                self.curve.append(self.memory())

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def settled(self, least: Held, seconds: float) -> Held:
        """The resources once they are within these limits, or after so many seconds."""
        end, pause = time.monotonic() + seconds, threading.Event()
        while True:
            now = self.used_resources()
            fits = all(getattr(now, name) <= getattr(least, name) for name in COUNTED)
            if fits or time.monotonic() >= end:
                return now
            pause.wait(0.2)


def steady_growth(curve: Sequence[float]) -> float:
    """MB of steady growth of memory in the second half of the curve; 0 for a curve that is too short.

    A leak with each call grows equally in the third and the fourth quarter. The growth of a server that is still
    warming up slows down, because it meets fewer new kinds of calls. Therefore the smaller growth of both quarters is
    counted twice.
    """
    width, size = max(1, len(curve) // 10), len(curve)
    if size < 4 * width:
        return 0.0
    ends = (size // 2, size * 3 // 4, size)
    middle, later, end = (statistics.median(curve[at - width : at]) for at in ends)
    return 2 * min(later - middle, end - later)


COUNTED = ("descriptors", "threads", "containers", "staging")


def containers_of(client: docker.DockerClient, owners: set[str]) -> list[dict[str, Any]]:
    rows = client.api.containers(all=True, filters={"label": OWNER})
    return [row for row in rows if row["Labels"].get(OWNER) in owners]


def left_behind(place: Place, client: docker.DockerClient, owners: set[str]) -> Iterator[str]:
    """Leftovers of servers that have ended."""
    yield from (f"container {row['Id'][:12]}: {row['Status']}" for row in containers_of(client, owners))
    yield from (f"staging folder {name}" for name in place.staged)
    yield from (f"lock of server {name}" for name in place.owners)


def records(place: Place) -> Iterator[str]:
    """Faults of the audit log."""
    verification = verify(place.state / "audit.jsonl")
    if not verification.ok:
        yield f"the hash chain: {verification.reason}"
    started = {event["call"] for event in place.audited if event["type"] == "call.started"}
    ended = [event["call"] for event in place.audited if event["type"] == "call.finished"]
    if started - set(ended):
        yield f"calls that began and never ended: {sorted(started - set(ended))}"
    if len(ended) > len(set(ended)):
        yield "a call ended twice"
