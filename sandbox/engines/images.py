"""The images of an engine with Docker's API: found by name, inspected, and pulled from a registry."""

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

# a registry usually answers within a few seconds; the engine itself would try for minutes
REACH_SECONDS: Final = 20
REPORT_SECONDS: Final = 5.0
# half a gigabyte over a slow line; the engine keeps the layers that it has already downloaded
PULL_SECONDS: Final = 7200.0
BUILD_SECONDS: Final = 1800  # seconds for one step of a build, for example one that copies a gigabyte
_NOT_IMPLEMENTED: Final = 501
_ARRIVED: Final = ("Download complete", "Pull complete")


class Archive(NamedTuple):
    """An image in a file in the format of `docker save`."""

    file: Path
    image: str  # content id


Archives = Callable[[str], contextlib.AbstractContextManager[Archive | None]]


@dataclass(eq=False)
class DockerImages(Images):
    """Inspects and pulls images through one SDK client. Removes no image except a temporary one (`loaded`)."""

    _api: APIClient
    # the image of a reference as an archive, if another engine on this machine has it already
    archives: Archives = lambda _reference: contextlib.nullcontext()
    # cached by content id; the content of an id never changes
    _environments: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, reference: str) -> ImageInfo | None:
        inspected = self._inspected(reference)
        if inspected is None:
            return None
        content = str(inspected["Id"])
        content = content if content.startswith("sha256:") else f"sha256:{content}"  # Podman omits the prefix
        known = dict(str(digest).split("@", 1) for digest in inspected.get("RepoDigests") or ())
        labels = (inspected.get("Config") or {}).get("Labels") or {}
        return ImageInfo(reference, content, known.get(split(reference)[0], content), labels)

    def names(self, *repositories: str) -> tuple[str, ...]:
        with translate_errors("asked which images it has"):
            listed = self._api.images(filters={"reference": list(repositories)})
        return tuple(str(tag) for image in listed for tag in image.get("RepoTags") or ())

    def environment(self, image: str) -> tuple[str, ...]:
        """The environment variables of an image, as NAME=VALUE. Raises ImageMissing."""
        if image not in self._environments:
            if (inspected := self._inspected(image)) is None:
                raise ImageMissing(f"image {image} is not on the engine's host.")
            self._environments[image] = tuple((inspected.get("Config") or {}).get("Env") or ())
        return self._environments[image]

    def _inspected(self, reference: str) -> Mapping[str, Any] | None:
        with translate_errors("asked for an image"), contextlib.suppress(docker.errors.NotFound):
            inspected: dict[str, Any] = self._api.inspect_image(reference)  # type: ignore[no-untyped-call]
            return inspected
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
        """True if the image was copied from another engine on this machine, with the same content id."""
        try:
            with self.archives(reference) as archive:
                if archive is None:
                    return False
                report("copying it from the engine without a daemon, which has it")
                with archive.file.open("rb") as file:
                    for _ in self._api.load_image(file):  # type: ignore[no-untyped-call] # loading ends with the stream
                        pass
                image = self.find(reference)
                return image is not None and image.id == archive.image
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
        """Loads an image from an archive in the format of `docker save`, and removes it on exit.

        `image` is its content id. Raises ImageMissing if the engine did not load it, and any error of the SDK.
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
        """Checks through the engine, which may have its own proxy, that the registry has the image.

        Raises PullFailed.
        """
        usual, self._api.timeout = self._api.timeout, REACH_SECONDS
        try:
            self._api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        except docker.errors.APIError as error:
            # any error other than a server error is left to the pull itself; Podman does not implement this request
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
    """Reports the progress of a pull every few seconds.

    Raises PullFailed with the engine's error, or after two hours.
    """
    layers: dict[str, tuple[int, int]] = {}  # bytes downloaded, and total bytes as far as known
    reported, problem, end = -REPORT_SECONDS, "", clock() + PULL_SECONDS
    for event in events:
        # reading continues after an error, so that the connection is released
        problem = str(event.get("error") or problem)
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
    """The repository, and the tag or digest. Without either, the tag is `latest`, as in the docker command."""
    rest, _, digest = reference.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # that colon precedes a port
        name, tag = rest, "latest"
    return name, digest or tag


def _reason(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error)
