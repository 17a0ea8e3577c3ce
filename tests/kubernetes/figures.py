"""What a call costs as a Pod and as a container of Docker's, measured in turn on one machine: `python -m tests.kubernetes.figures`.

Both servers have the same workspace. A loaded machine slows both, so what is told is the median of each and of their ratios.
"""

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator

import docker

from gdal_mcp.gdal.image import GDAL_IMAGE
from gdal_mcp.host.image import resolve
from sandbox.engines.images import DockerImages
from tests.kubernetes.conftest import Ground, laid
from tests.kubernetes.servers import INFO
from tests.mcp.pipes import Pipes, piped
from tests.mcp.talk import Place
from tests.waiting import until

ROUNDS = 15
_TICK = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def both(ground: Ground, waiting: int) -> Iterator[tuple[Pipes, Pipes]]:
    """Servers over Docker and over the cluster, with so many containers that wait for calls."""
    pool = {"GDAL_MCP_POOL_MAX": str(waiting), "GDAL_MCP_CONCURRENT": "2"}
    here = {"GDAL_MCP_MEMORY": "512MiB", "GDAL_MCP_CPUS": "1", "GDAL_MCP_IMAGE": ground.image}
    with contextlib.ExitStack() as stack:
        servers = []
        for env in ({**here, **pool}, ground.environment(**pool)):
            place = Place.made(ground.new_folder() / "place")
            INFO.prepare(place)
            log = place.state.with_suffix(".log")
            servers.append(stack.enter_context(piped(place.command("--approval", "never"), log, env=env)))
            servers[-1].hello()
            INFO.call(servers[-1])
        yield servers[0], servers[1]


def told(
    name: str, measure: Callable[[Pipes], float], servers: tuple[Pipes, Pipes], rest: Callable[[], object]
) -> None:
    rows = []
    for _ in range(ROUNDS):
        rest()
        rows.append(tuple(measure(one) for one in servers))
    theirs, ours = (statistics.median(column) for column in zip(*rows, strict=True))
    ratio = statistics.median(pod / container for container, pod in rows)
    print(f"{name:34} Docker {theirs:7.3f} s   Pod {ours:7.3f} s   ratio {ratio:5.2f}", flush=True)


def seconds(server: Pipes) -> float:
    begun = time.perf_counter()
    INFO.call(server)
    return time.perf_counter() - begun


def processor(server: Pipes) -> float:
    """Seconds that the server itself computes for ten calls, threads and its clean-up between them included."""

    def used() -> float:
        with open(f"/proc/{server.process.pid}/stat") as file:
            return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / _TICK

    begun = used()
    for _ in range(10):
        INFO.call(server)
    return (used() - begun) / 10


def main() -> None:
    client = docker.from_env()
    image = resolve(DockerImages(client.api), GDAL_IMAGE, os.environ.get("GDAL_MCP_IMAGE") or None)
    with laid(os.environ["KUBECONFIG"], image) as ground:
        with both(ground, 0) as servers:
            told("info, cold", seconds, servers, lambda: until(lambda: ground.pods() == {}))
        with both(ground, 2) as servers:

            def refilled() -> None:
                until(
                    lambda: (
                        sum(one["status"].get("phase") == "Running" for one in ground.pods().values()) >= 2
                    )
                )
                time.sleep(2.0)  # what runs need not be ready yet, and nobody tells it of Docker's

            told("info, warm", seconds, servers, refilled)
        with both(ground, 0) as servers:
            told("the server's processor, cold", processor, servers, lambda: None)


if __name__ == "__main__":
    main()
