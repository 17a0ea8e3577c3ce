"""The paths of the server's folders on the engine's host, when the server itself runs in a container. Pure.

The engine mounts folders of its own host. A server in a container uses the paths at which these folders are mounted
in its own container. A path map translates its paths to those of the host; no map is needed if they are the same. On
a cluster, each container may have another host, so the map has the claim, and the folder in it, that contains the
same files.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

from sandbox.errors import AttestationFailed
from sandbox.template import HostPath, MountSource, VolumePath

_BETWEEN: Final = ":/"  # both sides are absolute, so that other colons may be part of a name
# a Windows folder, which is below _DRIVES in the machine of Docker Desktop
_DRIVE: Final = re.compile(r"(^|:)([A-Za-z]):[\\/]([^:]*)$")
_DRIVES: Final = "/run/desktop/mnt/host"
_IN_CLAIM: Final = re.compile(r"(/[^:]*):([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(/[^:]*)?")


@dataclass(frozen=True, slots=True)
class PathMap:
    """Pairs of a folder's path for the server and on the engine's host, or in a claim: CLAIM/FOLDER."""

    pairs: tuple[tuple[PurePosixPath, PurePosixPath], ...] = ()

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Parses texts such as `/data:/srv/geodata`.

        Raises ValueError for a text that is not a pair, and for two pairs of one folder.
        """
        pairs = tuple(_pair(text) for text in texts)
        inner = [inside for inside, _ in pairs]
        if twice := next((folder for folder in inner if inner.count(folder) > 1), None):
            raise ValueError(f"{twice} is mapped twice; name each folder once")
        return cls(pairs)

    @classmethod
    def of(cls, mounts: Mapping[str, str]) -> Self:
        """The map of a container's mounts, as an engine reports them."""
        named = {inside: _without_drive(outside) for inside, outside in mounts.items()}
        return cls(
            tuple((PurePosixPath(inside), PurePosixPath(outside)) for inside, outside in named.items())
        )

    def source(self, path: Path) -> MountSource:
        """The source that the engine mounts for a path of this server. Raises the errors of `host`."""
        outside = PurePosixPath(self.host(str(path)))
        if not outside.is_absolute():
            return VolumePath(str(path), outside.parts[0], PurePosixPath(*outside.parts[1:]))
        return HostPath(str(path), str(outside) if self.pairs else "")

    def host(self, inside: str) -> str:
        """The same path on the engine's host, by the longest matching pair; unchanged if there are no pairs.

        Raises AttestationFailed for a path that is in no pair.
        """
        if not self.pairs:
            return inside
        place = PurePosixPath(inside)
        holding = [pair for pair in self.pairs if place.is_relative_to(pair[0])]
        if not holding:
            raise AttestationFailed(
                f"{inside} is not in a folder that this server's container mounts, nor in a pair of path_map, so the server cannot "
                f"tell the engine where it is. Mount it (docker run -v FOLDER:{inside}), or add a pair INSIDE:HOST to path_map, with the "
                "folder as this server sees it and as the engine's host does."
            )
        inner, outer = max(holding, key=lambda pair: len(pair[0].parts))
        return str(outer / place.relative_to(inner))


def _pair(text: str) -> tuple[PurePosixPath, PurePosixPath]:
    if match := _IN_CLAIM.fullmatch(text):
        return _folder(match[1]), PurePosixPath(match[2], *_folder(match[3] or "/").parts[1:])
    inside, between, outside = _without_drive(text).partition(_BETWEEN)
    if not between or _BETWEEN in outside:
        raise ValueError(
            f"{text!r} is not a pair INSIDE:HOST of two absolute paths, such as /data:/srv/geodata, nor INSIDE:CLAIM of a cluster, "
            "such as /data:workspace/ann"
        )
    return _folder(inside), _folder(f"/{outside}")


def _without_drive(text: str) -> str:
    r"""With `C:\maps` at its end as `/run/desktop/mnt/host/c/maps`."""
    match = _DRIVE.search(text)
    if match is None:
        return text
    return f"{text[: match.end(1)]}{_DRIVES}/{match[2].lower()}/{match[3]}".replace("\\", "/")


def _folder(text: str) -> PurePosixPath:
    place = PurePosixPath(text)
    if not text.startswith("/") or text.startswith("//") or ".." in place.parts or "\0" in text:
        raise ValueError(f"{text!r} is not an absolute path without `..`")
    return place
