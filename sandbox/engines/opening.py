"""The engine class for whatever a client speaks to."""

from collections.abc import Sequence
from typing import Final

import docker

from sandbox.engines.docker import DockerEngine
from sandbox.engines.podman import PodmanEngine

_NOBODY: Final = "unix:///nonexistent/engine.sock"


def engine_of(client: docker.DockerClient, image_environment: Sequence[str] = ()) -> DockerEngine:
    """By the name that the engine gives itself. Raises EngineUnavailable when it gives none."""
    engine = DockerEngine(client, image_environment)
    return PodmanEngine(client, image_environment) if engine.info().name == "Podman" else engine


def unanswered(kind: type[DockerEngine] = DockerEngine) -> DockerEngine:
    """One at an address where nobody listens, as after its daemon ended."""
    engine = kind(docker.DockerClient(base_url=_NOBODY, version="1.41"))
    engine.removal_seconds = 0.0  # nobody will answer later either
    return engine
