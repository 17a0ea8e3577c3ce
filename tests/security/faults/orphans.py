"""Kills a client, a server or an engine during a call, and counts what is left before and after the next start."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gdal_mcp.records.audit_verification import verify
from sandbox.engine import Engine
from sandbox.labels import OWNER
from sandbox.mounted import mountinfo
from tests.e2e.mcp.talk import Place, environment
from tests.security.faults.scenes import OLD, tiff
from tests.waiting import until

OUTPUT = "out.tif"
CALL = {"name": "convert", "arguments": {"input": "in.tif", "output": OUTPUT, "overwrite": True}}


@dataclass
class Host:
    """One engine, as a server is configured for it and as the test observes and kills it."""

    options: tuple[str, ...]
    engine: Engine
    kill: Callable[["Host", set[str]], None]
    revive: Callable[[], None] = lambda: None
    environment: Mapping[str, str] = field(default_factory=dict)  # of its server

    def containers(self, owners: set[str]) -> list[str]:
        return [
            leftover.container for leftover in self.engine.leftovers() if leftover.labels.get(OWNER) in owners
        ]


class Count(NamedTuple):
    """What is left of a workspace's servers and calls, except for records and the user's files."""

    containers: int = 0
    staged: int = 0  # staging folders
    locks: int = 0  # lock files of servers
    promised: int = 0  # ledgers of memory that a process has locked
    mounts: int = 0


@dataclass
class Tally:
    """One row of the table."""

    kills: int = 0
    answered: int = 0  # calls whose answer came before the kill
    replaced: int = 0  # calls whose output was published
    found: Count = field(default_factory=Count)


@dataclass(frozen=True)
class Session:
    """A client process and the server that it started."""

    client: subprocess.Popen[str]
    server: int

    def start_call(self) -> None:
        assert self.client.stdin is not None
        self.client.stdin.write("go\n")
        self.client.stdin.flush()

    def answer(self) -> str | None:
        """OK or the code of an error; None if there was no answer."""
        assert self.client.stdout is not None
        answer = json.loads(self.client.stdout.readline() or "null")
        if answer is None:
            return None
        result = answer["result"]["structuredContent"]
        return str(result["error"]["code"]) if "error" in result else "OK"

    def server_runs(self) -> bool:
        """True if the server runs. A server whose parent was killed has another parent, which may never wait for it."""
        try:
            return Path(f"/proc/{self.server}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False


@contextlib.contextmanager
def session(place: Place, host: Host, log: Path) -> Iterator[Session]:
    program = [sys.executable, "-m", "tests.security.faults.client", str(log), json.dumps(CALL)]
    command = [*program, *place.command(*host.options)]
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(**host.environment),
            text=True,
        ) as client,
    ):
        assert client.stdout is not None
        opened = Session(client, int(client.stdout.readline()))
        try:
            yield opened
        finally:
            with contextlib.suppress(BrokenPipeError):
                client.stdin.close()
            client.wait(120)
            until(lambda: not opened.server_runs())


def prepare(place: Place) -> None:
    place.path("in.tif").write_bytes(tiff(3))
    place.path(OUTPUT).write_bytes(OLD)


def count(place: Place, host: Host) -> Count:
    return Count(
        len(host.containers(place.owners)),
        len(place.staged),
        len(place.owners),
        sum(_is_held(path) for path in (place.state / "memory").glob("*") if path.name != "lock"),
        sum(str(place.workspace.parent) in line for line in mountinfo().splitlines()),
    )


def _is_held(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def descriptors(process: int) -> list[str]:
    """Descriptors that a process holds for calls: files in staging, removed files, and containers' processes."""
    links = []
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(str(descriptor.readlink()))
    return [
        link for link in links if ".gdal-mcp/staging" in link or "pidfd" in link or link.endswith("(deleted)")
    ]


def kill_calls(place: Place, host: Host, victim: str, kills: int, log: Path) -> Tally:
    """Kills the victim that often during a call, each time a little later, and starts a server after each kill.

    Checks that it leaves nothing after that.
    """
    host.revive()
    tally = Tally()
    after, seconds = rehearse(place, host, log)
    for number in range(kills):
        prepare(place)
        with session(place, host, log) as opened:
            opened.start_call()
            time.sleep(seconds * (number + 0.5) / kills)  # the moment of the kill is what this tests
            owners = place.owners
            kill(victim, host, opened, owners)
            tally.answered += opened.answer() == "OK"
        host.revive()
        written = place.path(OUTPUT).read_bytes()
        assert written in (OLD, after)
        tally.kills, tally.replaced = tally.kills + 1, tally.replaced + (written == after)
        tally.found = Count(*map(sum, zip(tally.found, count(place, host), strict=True)))
        serves_again(place, host, log, after, owners)
        until(lambda: count(place, host) == Count(), 60)  # a cluster deletes the last Pods later
        assert verify(place.state / "audit.jsonl").ok
    return tally


def kill(victim: str, host: Host, opened: Session, owners: set[str]) -> None:
    match victim:
        case "client":
            opened.client.kill()
        case "server":
            os.kill(opened.server, signal.SIGKILL)
        case _:
            host.kill(host, owners)


def rehearse(place: Place, host: Host, log: Path) -> tuple[bytes, float]:
    """The outputs of the call, and the seconds that it takes in a new server whose host is already attested."""
    for _ in range(2):
        prepare(place)
        with session(place, host, log) as opened:
            started = time.monotonic()
            opened.start_call()
            assert opened.answer() == "OK"
            seconds = time.monotonic() - started
    return place.path(OUTPUT).read_bytes(), seconds


def serves_again(place: Place, host: Host, log: Path, after: bytes, dead: set[str]) -> None:
    """Checks that a new server makes the same call, holds nothing of it afterwards, and removes what the dead server
    left.

    A call waits only some seconds for this removal: Podman may take longer to remove a container whose start was
    interrupted, and so may a cluster for a Pod, whose staging folder goes after it.
    """
    prepare(place)
    with session(place, host, log) as opened:
        opened.start_call()
        assert opened.answer() == "OK"
        until(lambda: descriptors(opened.server) == [])
        until(lambda: host.containers(dead) == [] and not dead & place.owners and place.staged == [], 180)
    assert place.path(OUTPUT).read_bytes() == after


def row(engine: str, victim: str, tally: Tally) -> str:
    """A row of the table in docs/engines.md, without its last column, which is always 0."""
    left = tally.found
    cells = (engine, victim, tally.kills, tally.replaced, left.containers, left.staged, left.locks)
    return f"| {' | '.join(map(str, cells))} | 0 |"
