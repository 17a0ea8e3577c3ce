"""Writes the data of the catalogue from a GDAL image: `python -m gdal_mcp.catalogue.capture --image REFERENCE`.

A developer's command; the server never imports it. The image is asked with the drivers switched off that are
off in every call, inside a container without network.
"""

import argparse
import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import docker
from docker.types import LogConfig

from gdal_mcp.catalogue.load import DATA
from gdal_mcp.environment import FIXED
from sandbox.engines.discovery import connect

ALGORITHMS: Final = ("raster convert", "vector convert", "raster reproject", "convert", "info")
COMMAND: Final = "python -m gdal_mcp.catalogue.capture --image REFERENCE"
_LISTS: Final = ("algorithms", "drivers", "warp", "transform")
_SECONDS: Final = 120
_NOBODY: Final = "65534:65534"


def captured(client: docker.DockerClient, image: str, algorithms: tuple[str, ...] = ALGORITHMS) -> str:
    """The data file's text as this image says it. Raises docker.errors.DockerException."""
    program = files("gdal_mcp.catalogue").joinpath("capture_program.py").read_text(encoding="utf-8")
    return rendered(json.loads(output_of(client, image, program, json.dumps(algorithms))))


def output_of(client: docker.DockerClient, image: str, program: str, argument: str) -> bytes:
    """What a Python program prints in a container of the image, with the environment of every call.

    Raises RuntimeError when the program fails.
    """
    container = client.containers.create(
        image,
        ["-I", "-c", program, argument],
        entrypoint=["python3"],
        environment=dict(FIXED),
        network_mode="none",
        user=_NOBODY,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        tmpfs={"/tmp": "size=64m,mode=1777"},  # noqa: S108 - inside the container
        log_config=LogConfig(type="json-file"),
    )
    try:
        container.start()
        status = container.wait(timeout=_SECONDS)["StatusCode"]
        if status != 0:
            raise RuntimeError(
                f"the program in {image} ended with {status}: {container.logs(stdout=False)[-2000:]!r}"
            )
        return bytes(container.logs(stderr=False))  # once it is still: followed, long output loses its end
    finally:
        container.remove(force=True)


def rendered(facts: dict[str, Any]) -> str:
    """One line for each algorithm, argument, driver and shared option, so that a change shows as a small difference."""
    head = {"generator": COMMAND, "gdal": facts["gdal"], "skipped": facts["skipped"]}
    lines = [f'"{key}":{_compact(value)}' for key, value in head.items()]
    lines += [f'"{name}":[\n' + ",\n".join(_rows(name, facts[name])) + "\n]" for name in _LISTS]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(name: str, entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        if name != "algorithms":
            yield _compact(entry)
            continue
        head = _compact({key: value for key, value in entry.items() if key != "arguments"})
        arguments = ",\n".join(_compact(argument) for argument in entry["arguments"])
        yield f'{head[:-1]},"arguments":[\n{arguments}\n]}}'


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the catalogue's data from a GDAL image.")
    parser.add_argument("--image", required=True, help="image reference or content id; never pulled")
    image = parser.parse_args().image
    client = connect()
    try:
        text = captured(client, image)
    finally:
        client.close()
    (Path(__file__).parent / "data" / DATA).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
