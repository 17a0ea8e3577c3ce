"""The time of map tiles over HTTP: `python -m bench.tiles`.

A waiting container draws a tile that is not in the cache, together with its block.
"""

import argparse
import json
import math
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2

from bench.place import NotMeasurable, Place, place
from bench.report import Series, milliseconds
from gdal_mcp.server.http.tile_grid import SIDE
from gdal_mcp.testing.samples import write_samples

ROUNDS = 12
MAP = (4, 3)  # tiles of a map with 1000 x 750 pixels
PIXELS = 4096  # width and height of the raster
POOL = ("--pool-min", "2", "--pool-max", "4")


def tiles(where: Place) -> list[str]:
    write_samples(where.workspace)
    path = _published(where)
    with _serving(where) as base, httpx2.Client(base_url=base, timeout=60) as client:
        document = client.get(path).json()
        zoom = document["maxzoom"] + 1  # at which the raster has some thirty tiles per side
        column, row = _corner(document["bounds"], zoom)

        def get(x: int, y: int) -> float:
            started = time.perf_counter()
            reply = client.get(f"{path}/{zoom}/{x}/{y}.png")
            if reply.status_code != 200:
                raise NotMeasurable(f"tile {zoom}/{x}/{y}: {reply.status_code} {reply.text[:200]}")
            return time.perf_counter() - started

        first = get(column, row)
        drawn: list[float] = []
        for number in range(1, ROUNDS + 1):
            where.rest(2)
            drawn.append(get(column + SIDE * number, row))
        cached = [get(column + SIDE * number, row) for number in range(1, ROUNDS + 1)]
        where.rest(2)
        below = row + SIDE  # blocks that are not drawn yet
        whole_map = [(column + x, below + y) for y in range(MAP[1]) for x in range(MAP[0])]
        with ThreadPoolExecutor(len(whole_map)) as threads:
            started = time.perf_counter()
            list(threads.map(lambda tile: get(*tile), whole_map))
            at_once = time.perf_counter() - started
    return [
        f"first tile of a file: {milliseconds(first)} ms",
        _line("a tile that is drawn, with its block", drawn),
        _line("a tile that is kept", cached),
        f"{len(whole_map)} tiles at once, none of them kept: the last after {at_once:.2f} s",
    ]


def _line(name: str, seconds: list[float]) -> str:
    series = Series(tuple(seconds))
    return f"{name}: p50 {milliseconds(series.p50)} ms, p95 {milliseconds(series.p95)} ms"


def _published(where: Place) -> str:
    """The path of the tiles of a new raster: an enlarged sample, as a COG with overviews."""
    arguments = {
        "algorithm": "raster resize",
        "arguments": {
            "input": "dem.tif",
            "output": "map.tif",
            "size": [PIXELS, PIXELS],
            "resampling": "bilinear",
            "output-format": "COG",
        },
    }
    words = where.program("call", "gdal_write", json.dumps(arguments), "--yes")
    done = subprocess.run(words, env=where.python_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasurable(done.stdout + done.stderr)
    return f"/tiles/{json.loads(done.stdout)['receipt']['call_id']}/map.tif"


def _corner(bounds: list[float], zoom: int) -> tuple[int, int]:
    """The first tile of a block inside these bounds, near their north-west corner."""
    west, _, _, north = bounds
    count = 1 << zoom
    column = int((west + 180) / 360 * count) + 2
    latitude = math.radians(north)
    row = int((1 - math.asinh(math.tan(latitude)) / math.pi) / 2 * count) + 2
    return column - column % SIDE, row - row % SIDE


@contextmanager
def _serving(where: Place) -> Iterator[str]:
    """The address of a new server with tiles, for the local user."""
    command = where.program("serve", "--transport", "http", "--port", "0", "--no-auth", "--tiles", *POOL)
    process = subprocess.Popen(command, env=where.python_environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removesuffix("/mcp")
    finally:
        process.terminate()
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tiles", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="for temporary data (%(default)s)"
    )
    with place(parser.parse_args().folder) as where:
        print(f"load average before: {os.getloadavg()[0]:.1f}")
        print("\n".join(tiles(where)))


if __name__ == "__main__":
    main()
