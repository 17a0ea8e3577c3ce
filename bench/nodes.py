"""The part of a cluster that is overloaded first: `python -m bench.nodes [NODES] [CALLS A MINUTE]`. A calculation,
not a measurement.

Every figure of COSTS was measured on two loaded processors with Kubernetes 1.20, unless stated otherwise; `make
kubernetes` and `make bench` measure another machine. A part is overloaded if it needs more of a resource than it has.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """The costs of one call, in processor seconds, seconds and bytes."""

    server: float = 0.059  # the server's process, whose interpreter uses one processor: plan, records, Pod, streams, protocol
    scheduler: float = 0.015  # one Pod after another
    # writes to etcd: the Pod, its node, four of its status, two deletions, five events (counted, not measured)
    writes: int = 13
    node: float = 1.43  # all processors of its node: kubelet, runtime, GDAL's start, the Pod's end
    ready: float = 0.90  # from the request to a Pod that has GDAL loaded
    removal: float = 2.84  # until its end is proven; until then it occupies its place
    stream: int = 60_000  # through the API server: program, job, answer
    memory: int = 2 << 30  # that a Pod requests


@dataclass(frozen=True)
class Cluster:
    """The resources of a cluster. `etcd` and the two networks are typical values, not measured ones."""

    nodes: int = 50
    processors: int = 8  # of a node
    memory: int = 32 << 30  # of a node
    pods: int = 110  # of a node
    etcd: int = 2_000  # writes a second
    api: int = 31 << 20  # bytes a second of streams; 32 MB in 1.04 s were measured for one
    storage: int = 1_100 << 20  # bytes a second of the server of the workspaces: ten gigabits


@dataclass(frozen=True)
class Load:
    calls: float  # a second
    job: float = 3.0  # seconds of a processor
    moved: int = 25 << 20  # bytes read and written


@dataclass(frozen=True)
class Part:
    name: str
    has: str
    used: float  # fraction of its resource at this load


def parts(costs: Costs, cluster: Cluster, load: Load) -> Iterator[Part]:
    """Each part with the fraction that this load uses; above 1, the part is overloaded."""
    at_once = load.calls * (costs.ready + load.job + costs.removal)
    room = cluster.nodes * min(cluster.pods, cluster.memory // costs.memory)
    yield Part("the server's process", "one processor", load.calls * costs.server)
    yield Part("scheduler", "one Pod at a time", load.calls * costs.scheduler)
    yield Part("etcd", f"{cluster.etcd} writes a second", load.calls * costs.writes / cluster.etcd)
    yield Part(
        "streams through the API server",
        f"{cluster.api >> 20} MiB a second",
        load.calls * costs.stream / cluster.api,
    )
    used = load.calls * (costs.node + load.job) / (cluster.nodes * cluster.processors)
    yield Part("processors of the nodes", f"{cluster.nodes * cluster.processors}", used)
    yield Part("places on the nodes", f"{room} Pods, of which {at_once:.0f} are in use", at_once / room)
    yield Part("storage", f"{cluster.storage >> 20} MiB a second", load.calls * load.moved / cluster.storage)
    yield Part("quota of the chart as it comes", "12 Pods", at_once / 12)


def table(load: Load, cluster: Cluster) -> Iterator[str]:
    yield "| part | has | used | gives way at calls a minute |"
    yield "| --- | --- | --- | --- |"
    for part in sorted(parts(Costs(), cluster, load), key=lambda part: -part.used):
        yield f"| {part.name} | {part.has} | {part.used:.0%} | {load.calls * 60 / part.used:,.0f} |"


def main(nodes: str = "50", calls_a_minute: str = "1000") -> None:
    print("\n".join(table(Load(float(calls_a_minute) / 60), Cluster(nodes=int(nodes)))))


if __name__ == "__main__":
    main(*sys.argv[1:3])
