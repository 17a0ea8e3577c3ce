"""Failures of the SDK and of its HTTP stack as our own error."""

import contextlib
from collections.abc import Iterator

import docker.errors
import requests.exceptions
import urllib3.exceptions

from sandbox.errors import EngineUnavailable


@contextlib.contextmanager
def answering(doing: str) -> Iterator[None]:
    """Turns what the SDK and its HTTP stack raise into our own error."""
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineUnavailable(
            f"the container engine refused when {doing}: {error.explanation or error}"
        ) from error
    except (
        docker.errors.DockerException,
        requests.exceptions.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
    ) as error:
        raise EngineUnavailable(
            f"the container engine does not answer (when {doing}). Start it, then try again."
        ) from error
