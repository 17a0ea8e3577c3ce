"""Pulls an image through the engine, with progress; decides soon when the registry is out of reach."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import docker
import docker.errors
import requests.exceptions

REACH_SECONDS = 20  # a registry that answers at all does so in a few; the engine itself would try for minutes
STALL_SECONDS = 60.0  # without a single new byte or layer; the engine's own retries come every few seconds
REPORT_SECONDS = 5.0

_NOT_IMPLEMENTED = 501
_ADVANCING = ("Download complete", "Pull complete", "Already exists", "Extracting")


class PullFailed(Exception):
    """The registry cannot be reached, does not have the image, or will not give it."""


@dataclass(slots=True)
class Progress:
    """Sums the engine's events over layers. `clock` counts seconds."""

    clock: Callable[[], float] = time.monotonic
    _layers: dict[str, tuple[int, int]] = field(default_factory=dict)  # bytes here, bytes in all
    _advanced: float = 0.0
    _reported: float = 0.0

    def __post_init__(self) -> None:
        self._advanced = self._reported = self.clock()

    def update(self, event: Mapping[str, Any]) -> str | None:
        """A line for a person, now and then. Raises PullFailed when nothing moves."""
        now = self.clock()
        if self._moves(event):
            self._advanced = now
        elif now - self._advanced > STALL_SECONDS:
            raise PullFailed(f"nothing arrived for {STALL_SECONDS:.0f} seconds")
        if now - self._reported < REPORT_SECONDS or not self._layers:
            return None
        self._reported = now
        here, total = (sum(amounts) / 1e6 for amounts in zip(*self._layers.values(), strict=True))
        return f"pulling: {here:.0f} of {total:.0f} MB"

    def _moves(self, event: Mapping[str, Any]) -> bool:
        status, detail = str(event.get("status", "")), event.get("progressDetail") or {}
        if status == "Downloading" and "current" in detail:
            layer, before = str(event.get("id")), self._layers.get(str(event.get("id")))
            self._layers[layer] = (int(detail["current"]), int(detail.get("total") or detail["current"]))
            return before != self._layers[layer]
        return status in _ADVANCING


def pull(client: docker.DockerClient, reference: str, report: Callable[[str], None]) -> None:
    """Brings the image onto the engine's host. Raises PullFailed, soon when the registry is out of reach."""
    _reach(client, reference)
    repository, tag = split(reference)
    try:
        follow(client.api.pull(repository, tag=tag, stream=True, decode=True), Progress(), report)
    except (docker.errors.APIError, requests.exceptions.RequestException) as error:
        raise PullFailed(_reason(error)) from error


def follow(events: Iterable[Mapping[str, Any]], progress: Progress, report: Callable[[str], None]) -> None:
    """Reports until the end of the events. Raises PullFailed for an error among them and when nothing moves."""
    problem = ""
    for event in events:
        if "error" in event:
            problem = str(event["error"])  # its end is read too, which gives the connection back
        elif line := progress.update(event):
            report(line)
    if problem:
        raise PullFailed(problem)


def split(reference: str) -> tuple[str, str]:
    """Repository, and tag or digest. Without either the tag is `latest`, as for the docker command."""
    rest, _, digest = reference.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # that colon came before a port
        name, tag = rest, "latest"
    return name, digest or tag


def _reach(client: docker.DockerClient, reference: str) -> None:
    """Asks the registry about the image through the engine, which may have a proxy of its own."""
    usual, client.api.timeout = client.api.timeout, REACH_SECONDS
    try:
        client.api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
    except docker.errors.APIError as error:
        # anything but a server error is for the pull itself to say; Podman does not offer this question
        if error.is_server_error() and error.status_code != _NOT_IMPLEMENTED:
            raise PullFailed(_reason(error)) from error
    except requests.exceptions.RequestException as error:
        raise PullFailed(f"the registry did not answer within {REACH_SECONDS} seconds") from error
    finally:
        client.api.timeout = usual


def _reason(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error)
