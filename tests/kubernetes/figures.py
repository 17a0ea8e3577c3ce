"""The cost of a call as a Pod and as a container of Docker, measured in turn on one machine: `python -m
tests.kubernetes.figures`.

Both servers have the same workspace and settings. One is measured while the other rests, and each is first in every
second round, because both create new containers on the same processors after each call. A loaded machine slows both,
so the result is the median of each and of their ratios.
"""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import methodcaller

import docker

from gdal_mcp.runtime.image import resolve
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from sandbox.engines.images import DockerImages
from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import Place
from tests.kubernetes.conftest import Ground, laid
from tests.kubernetes.servers import INFO

ROUNDS = 15
SUSTAINED, AT_ONCE = 20, 2  # calls
REST_SECONDS = 3.0  # until the remains of a call are removed and its replacement is ready
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, eq=False)
class Server:
    pipes: Pipes
    place: Place

    def call(self, pool: str) -> float:
        """The seconds of a call that was served by such a slot."""
        while True:
            started = time.perf_counter()
            answer = INFO.call(self.pipes)
            assert answer is not None
            if answer["receipt"]["pool"] == pool:
                return time.perf_counter() - started
            time.sleep(REST_SECONDS)

    def processor(self) -> float:
        """The processor seconds of the server itself, in all of its threads."""
        with open(f"/proc/{self.pipes.process.pid}/stat") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / _TICK

    def sustained(self) -> float:
        """The seconds per call for many calls, some of them at once, including their clean-up."""
        started = time.perf_counter()
        for _ in range(SUSTAINED // AT_ONCE):
            for number in [INFO.begin(self.pipes) for _ in range(AT_ONCE)]:
                self.pipes.answer(number)
        return (time.perf_counter() - started) / SUSTAINED

    def parts(self) -> str:
        """The median parts of a call in milliseconds, from the audit log."""
        ended = [event["seconds"] for event in self.place.audited if event["type"] == "call.finished"]
        return "  ".join(
            f"{name} {statistics.median(timings.get(name, 0.0) for timings in ended) * 1000:.1f}"
            for name in sorted({name for timings in ended for name in timings})
        )


@contextlib.contextmanager
def both(ground: Ground, waiting: int) -> Iterator[tuple[Server, Server]]:
    """Servers on Docker and on the cluster, with this number of containers that wait for calls."""
    pool = {"GDAL_MCP_POOL_MIN": str(waiting), "GDAL_MCP_POOL_MAX": str(waiting)}
    pool["GDAL_MCP_CONCURRENT"] = str(AT_ONCE)
    here = {"GDAL_MCP_MEMORY": "512MiB", "GDAL_MCP_CPUS": "1", "GDAL_MCP_IMAGE": ground.image}
    with contextlib.ExitStack() as stack:
        servers = []
        for env in ({**here, **pool}, ground.environment(**pool)):
            place = Place.made(ground.new_folder() / "place")
            INFO.prepare(place)
            log = place.state.with_suffix(".log")
            pipes = stack.enter_context(piped(place.command("--approval", "never"), log, env=env))
            pipes.hello()
            INFO.call(pipes)  # so that the server checks the engine and the image
            servers.append(Server(pipes, place))
        yield servers[0], servers[1]


def print_comparison(
    name: str, measure: Callable[[Server], float], servers: tuple[Server, Server], rounds: int = ROUNDS
) -> None:
    rows = []
    for number in range(rounds):
        measured = {}
        for server in servers if number % 2 else servers[::-1]:
            time.sleep(REST_SECONDS)
            measured[server] = measure(server)
        rows.append(tuple(measured[server] for server in servers))
    theirs, ours = (statistics.median(column) for column in zip(*rows, strict=True))
    ratio = statistics.median(pod / container for container, pod in rows)
    print(f"{name:34} Docker {theirs:7.3f} s   Pod {ours:7.3f} s   ratio {ratio:5.2f}", flush=True)


def processor(pool: str) -> Callable[[Server], float]:
    """Measures the server's own processor time for a call, including its clean-up and the replacement of its slot."""

    def measure(server: Server) -> float:
        before = server.processor()
        for _ in range(5):
            server.call(pool)
            time.sleep(REST_SECONDS)
        return (server.processor() - before) / 5

    return measure


def main() -> None:
    client = docker.from_env()
    image = resolve(DockerImages(client.api), GDAL_IMAGE, os.environ.get("GDAL_MCP_IMAGE") or None)
    with laid(os.environ["KUBECONFIG"], image) as ground:
        for pool, waiting in (("cold", 0), ("warm", AT_ONCE)):
            with both(ground, waiting) as servers:
                print_comparison(f"info, {pool}", methodcaller("call", pool), servers)
                for server in servers:
                    print(f"    of which, in ms: {server.parts()}", flush=True)
                print_comparison(f"the server's own processor, {pool}", processor(pool), servers, 3)
                print_comparison(
                    f"one of {SUSTAINED} calls, {AT_ONCE} at once, {pool}", Server.sustained, servers, 3
                )


if __name__ == "__main__":
    main()
