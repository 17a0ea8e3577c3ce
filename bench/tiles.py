"""What a map tile drawn by a call would take: `python -m bench.tiles`. A tile is a `preview` of 256 pixels by a container that waits."""

import argparse
import os
import statistics
import time
from pathlib import Path

from bench.clients import BareClient
from bench.place import Place, place
from gdal_mcp.testing.samples import write_samples

ROUNDS, AT_ONCE = 15, 12  # a map of 1000 x 750 pixels shows twelve tiles
POOL = ("--pool-min", "2", "--pool-max", "4")
TILE = {"name": "preview", "arguments": {"path": "dem.tif", "max_size": 256}}


def tiles(where: Place) -> str:
    write_samples(where.workspace)
    with BareClient(where, *POOL) as client:
        client.ask("tools/call", TILE)
        warm = [_one(where, client) for _ in range(ROUNDS)]
        where.rest(2)
        ends = _at_once(client)
    p50, fastest = statistics.median(warm) * 1000, min(warm) * 1000
    return f"one tile, warm: p50 {p50:.0f} ms, fastest {fastest:.0f} ms; {AT_ONCE} at once: the last after {ends[-1]:.1f} s"


def _one(where: Place, client: BareClient) -> float:
    where.rest(2)
    begun = time.perf_counter()
    client.ask("tools/call", TILE)
    return time.perf_counter() - begun


def _at_once(client: BareClient) -> list[float]:
    begun, ends = time.perf_counter(), list[float]()
    under_way = {client.begin("tools/call", TILE) for _ in range(AT_ONCE)}
    while under_way:
        under_way.discard(client.next_answer()[0])
        ends.append(time.perf_counter() - begun)
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tiles", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="for temporary data (%(default)s)"
    )
    with place(parser.parse_args().folder) as where:
        print(f"load average before: {os.getloadavg()[0]:.1f}; {tiles(where)}")


if __name__ == "__main__":
    main()
