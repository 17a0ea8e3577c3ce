"""Asks a GDAL image what it can be told, for `gdal-mcp catalogue build` and `gdal-mcp doctor`.

The image is asked with the drivers switched off that are off in every call, inside a container without network,
capabilities or a writable root. The server never imports this.
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

import docker
import docker.errors
import requests.exceptions
from docker.types import LogConfig, Ulimit

from gdal_mcp.gdal.catalogue.load import GENERATOR
from gdal_mcp.gdal.environment import FIXED
from sandbox.engines.podman import most_processes
from sandbox.errors import SandboxError
from sandbox.labels import labels

_LISTS: Final = ("algorithms", "steps", "drivers", "warp", "transform")
_WITH_ARGUMENTS: Final = frozenset({"algorithms", "steps"})
_SECONDS: Final = 120
_MEMORY: Final = 1 << 30  # bytes; a capture needs a tenth
_PROCESSES: Final = 64
_OPEN_FILES: Final = 1024
# what an image may print; a capture is 1 MB. What is longer loses its start and is no JSON
_PRINTED: Final = "16m"
_NOBODY: Final = "65534:65534"


class CaptureFailed(SandboxError):
    """The image did not say what its GDAL can be told."""


def captured(client: docker.DockerClient, image: str) -> str:
    """The data's text as this image says it. Raises CaptureFailed."""
    program = files("gdal_mcp.gdal.catalogue").joinpath("capture_program.py").read_text(encoding="utf-8")
    try:
        return rendered(json.loads(output_of(client, image, program, "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CaptureFailed(
            f"{image} printed no description of its GDAL: {error!r}. Use an image with GDAL 3.11 or later and its Python module."
        ) from error


def output_of(client: docker.DockerClient, image: str, program: str, argument: str) -> bytes:
    """What a Python program prints in a container of the image, with the environment of every call.

    Raises CaptureFailed when the program fails or the engine does.
    """
    try:
        return _output_of(client, image, program, argument)
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise CaptureFailed(f"the engine did not run {image}: {error}. Try again.") from error


def _output_of(client: docker.DockerClient, image: str, program: str, argument: str) -> bytes:
    container = client.containers.create(
        image,
        ["-I", "-c", program, argument],
        entrypoint=["python3"],
        environment=dict(FIXED),
        labels=dict(labels("catalogue", "capture", _SECONDS)),  # a server takes away what is left of it
        network_mode="none",
        user=_NOBODY,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        mem_limit=_MEMORY,
        pids_limit=_PROCESSES,
        ulimits=_ulimits(),
        tmpfs={"/tmp": "size=64m,mode=1777"},  # noqa: S108 - inside the container
        log_config=LogConfig(type="json-file", config={"max-size": _PRINTED, "max-file": "1"}),
    )
    try:
        container.start()
        status = container.wait(timeout=_SECONDS)["StatusCode"]
        if status != 0:
            said = container.logs(stdout=False)[-2000:]
            raise CaptureFailed(f"the program in {image} ended with {status}: {said!r}. Use another image.")
        return bytes(container.logs(stderr=False))  # once it is still: followed, long output loses its end
    finally:
        container.remove(force=True)


def _ulimits() -> list[Ulimit]:
    """Podman sets both unasked, and higher than some hosts let it."""
    asked = {"nofile": _OPEN_FILES, "nproc": most_processes()}
    return [Ulimit(name=name, soft=value, hard=value) for name, value in asked.items()]


def rendered(facts: dict[str, Any]) -> str:
    """One line for each algorithm, argument, step, driver and shared option, so that a change is a small difference."""
    head = {"generator": GENERATOR, "gdal": facts["gdal"], "skipped": facts["skipped"]}
    lines = [f'"{key}":{_compact(value)}' for key, value in head.items()]
    lines += [f'"{name}":[\n' + ",\n".join(_rows(name, facts[name])) + "\n]" for name in _LISTS]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(name: str, entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        described = [one for one in entry.get("arguments", ()) if not isinstance(one, str)]
        if name not in _WITH_ARGUMENTS or not described:  # a step mostly names arguments of its algorithm
            yield _compact(entry)
            continue
        head = _compact({key: value for key, value in entry.items() if key != "arguments"})
        arguments = ",\n".join(_compact(argument) for argument in entry["arguments"])
        yield f'{head[:-1]},"arguments":[\n{arguments}\n]}}'


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
