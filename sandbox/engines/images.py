"""The images of an engine that speaks Docker's API: found by name, described, and pulled from a registry."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import docker.errors
import requests.exceptions
from docker.api import APIClient

from sandbox.engine import ImageInfo, Images
from sandbox.engines.wire import translate_errors
from sandbox.errors import ImageMissing, PullFailed

REACH_SECONDS: Final = 20  # a registry that answers does so in a few; the engine itself would try for minutes
REPORT_SECONDS: Final = 5.0
PULL_SECONDS: Final = 7200.0  # half a gigabyte over a slow line; an engine keeps the layers that it has
BUILD_SECONDS: Final = 1800  # for one step of a build, such as taking in a gigabyte
_NOT_IMPLEMENTED: Final = 501
_ARRIVED: Final = ("Download complete", "Pull complete")


class Archive(NamedTuple):
    """An image in a file as `docker save` writes it."""

    file: Path
    image: str  # its content id


Archives = Callable[[str], contextlib.AbstractContextManager[Archive | None]]


@dataclass(eq=False)
class DockerImages(Images):
    """Reads and fetches through one client of the SDK; never removes an image."""

    _api: APIClient
    # an image of that reference that another engine of this machine has fetched already
    archives: Archives = lambda _reference: contextlib.nullcontext()
    # by content id, which never changes
    _environments: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, reference: str) -> ImageInfo | None:
        inspected = self._inspected(reference)
        if inspected is None:
            return None
        content = str(inspected["Id"])
        content = content if content.startswith("sha256:") else f"sha256:{content}"  # Podman leaves it out
        known = dict(str(one).split("@", 1) for one in inspected.get("RepoDigests") or ())
        labels = (inspected.get("Config") or {}).get("Labels") or {}
        return ImageInfo(reference, content, known.get(split(reference)[0], content), labels)

    def names(self, *repositories: str) -> tuple[str, ...]:
        with translate_errors("asked which images it has"):
            listed = self._api.images(filters={"reference": list(repositories)})
        return tuple(str(tag) for image in listed for tag in image.get("RepoTags") or ())

    def environment(self, image: str) -> tuple[str, ...]:
        """What an image sets, as NAME=VALUE. Raises ImageMissing."""
        if image not in self._environments:
            if (inspected := self._inspected(image)) is None:
                raise ImageMissing(f"image {image} is not on the engine's host.")
            self._environments[image] = tuple((inspected.get("Config") or {}).get("Env") or ())
        return self._environments[image]

    def _inspected(self, reference: str) -> Mapping[str, Any] | None:
        with translate_errors("asked for an image"), contextlib.suppress(docker.errors.NotFound):
            found: dict[str, Any] = self._api.inspect_image(reference)  # type: ignore[no-untyped-call]
            return found
        return None

    def pull(self, reference: str, report: Callable[[str], None]) -> None:
        if self._copied(reference, report):
            return
        self._reach(reference)
        repository, tag = split(reference)
        try:
            follow(self._api.pull(repository, tag=tag, stream=True, decode=True), report)
        except (docker.errors.APIError, requests.exceptions.RequestException) as error:
            raise PullFailed(_reason(error)) from error

    def _copied(self, reference: str, report: Callable[[str], None]) -> bool:
        """Whether another engine of this machine had the image, so that it is here now with the same content."""
        try:
            with self.archives(reference) as archive:
                if archive is None:
                    return False
                report("copying it from the engine without a daemon, which has it")
                with archive.file.open("rb") as file:
                    for _ in self._api.load_image(file):  # type: ignore[no-untyped-call] # loading ends with the stream
                        pass
                found = self.find(reference)
                return found is not None and found.id == archive.image
        except (
            PullFailed,
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            OSError,
        ) as error:
            report(f"it could not be copied ({error}), so its registry is asked")
            return False

    @contextlib.contextmanager
    def loaded(self, archive: bytes, image: str) -> Iterator[None]:
        """Has an image from an archive as `docker save` writes it, whose content id is `image`; removed at the end.

        Raises ImageMissing when the engine did not take it, and what the SDK raises.
        """
        for _ in self._api.load_image(archive):  # type: ignore[no-untyped-call] # what it says is a stream, and loading ends with it
            pass
        try:
            if self._inspected(image) is None:
                raise ImageMissing("the engine did not take an image of ours.")
            yield
        finally:
            with contextlib.suppress(docker.errors.APIError):
                self._api.remove_image(image)

    def build(
        self,
        folder: str,
        reference: str,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
        report: Callable[[str], None],
    ) -> None:
        try:
            events = self._api.build(
                path=folder,
                tag=reference,
                buildargs=dict(arguments),
                labels=dict(labels),
                network_mode="none",
                forcerm=True,
                timeout=BUILD_SECONDS,
                decode=True,
            )
            for event in events:
                if line := str(event.get("stream") or "").strip():
                    report(line)
                if event.get("error"):
                    raise ImageMissing(
                        f"{reference} was not built: {event['error']}. Is the engine's disk full?"
                    )
        except (docker.errors.APIError, requests.exceptions.RequestException) as error:
            raise ImageMissing(
                f"{reference} was not built: {_reason(error)}. Is the engine's disk full?"
            ) from error

    def _reach(self, reference: str) -> None:
        """Asks the registry about the image through the engine, which may have a proxy of its own. Raises PullFailed."""
        usual, self._api.timeout = self._api.timeout, REACH_SECONDS
        try:
            self._api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        except docker.errors.APIError as error:
            # anything but a server error is for the pull itself to say; Podman does not offer this question
            if error.is_server_error() and error.status_code != _NOT_IMPLEMENTED:
                raise PullFailed(_reason(error)) from error
        except requests.exceptions.RequestException as error:
            raise PullFailed(f"the registry did not answer within {REACH_SECONDS} seconds") from error
        finally:
            self._api.timeout = usual


def follow(
    events: Iterable[Mapping[str, Any]],
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Reports now and then how much is here. Raises PullFailed with what the engine says, and for one that goes on for hours."""
    layers: dict[str, tuple[int, int]] = {}  # bytes here, bytes in all, of those whose size it has told
    reported, problem, end = -REPORT_SECONDS, "", clock() + PULL_SECONDS
    for event in events:
        problem = str(event.get("error") or problem)  # the rest is read too, which gives the connection back
        layer, detail = str(event.get("id")), event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and "current" in detail:
            layers[layer] = (int(detail["current"]), int(detail.get("total") or detail["current"]))
        elif event.get("status") in _ARRIVED and layer in layers:
            layers[layer] = (layers[layer][1],) * 2
        if (now := clock()) > end:
            raise PullFailed(f"it is not here after {PULL_SECONDS / 3600:.0f} hours")
        if layers and now - reported >= REPORT_SECONDS:
            reported = now
            report(_arrived(layers))
    if problem:
        raise PullFailed(problem)
    if layers:
        report(_arrived(layers))


def _arrived(layers: Mapping[str, tuple[int, int]]) -> str:
    here, known = (sum(amounts) / 1e6 for amounts in zip(*layers.values(), strict=True))
    return f"{here:.0f} of {known:.0f} MB of {len(layers)} layers"


def split(reference: str) -> tuple[str, str]:
    """Repository, and tag or digest. Without either the tag is `latest`, as for the docker command."""
    rest, _, digest = reference.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # that colon came before a port
        name, tag = rest, "latest"
    return name, digest or tag


def _reason(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error)
