"""What the files that a step of a workflow reads contain, so that a change between check and run is noticed."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from gdal_mcp.calls.invocation import Invocation
from gdal_mcp.records.provenance import Materials
from sandbox.errors import PathRefused
from sandbox.workspace import Identity, WorkspacePath

_UNHASHED: Final = "not digested"
_MAX_DIGESTS: Final = 10_000  # cached; a few megabytes


@dataclass(frozen=True)
class FileContents:
    """The contents of files as digests, which are cached for unchanged files. Safe to use from several threads."""

    digests: dict[tuple[str, Identity], str | None] = field(default_factory=dict)

    def content(self, located: WorkspacePath, limit: int) -> str:
        """The digest of a file or folder; for one that is too large or cannot be read, its identity."""
        return self.digest(located, limit) or f"{_UNHASHED}: {located.identity}"

    def are_unchanged(self, used: Iterable[tuple[WorkspacePath, str]], limit: int) -> bool:
        """True if each file has the content beside it, as `content` returned it."""
        for located, content in used:
            try:
                now = replace(located, identity=Identity.of(located.path.lstat()))
            except OSError:
                return False
            if self.content(now, limit) != content:
                return False
        return True

    def digest(self, located: WorkspacePath, limit: int) -> str | None:
        """SHA-256 of a file or folder; None for one that is too large or cannot be read."""
        if located.identity is None or located.identity.size > limit:
            return None
        if located.is_folder:  # a folder's identity does not change with its contents
            return Materials.digest(located)
        known = (str(located), located.identity)
        if known not in self.digests:
            if len(self.digests) > _MAX_DIGESTS:
                self.digests.clear()
            self.digests[known] = Materials.digest(located)
        return self.digests[known]


def find_companions(sub: Invocation, located: WorkspacePath) -> list[WorkspacePath]:
    """The sidecar files of an input."""
    try:
        paths = sorted(sub.toolbox.analysis.companions()(located))
    except (OSError, PathRefused):
        return []
    rows = (replace(located, relative=located.relative.parent / path.name, is_folder=False) for path in paths)
    found = []
    for one in rows:
        try:
            found.append(replace(one, identity=Identity.of(one.path.lstat())))
        except OSError:
            continue
    return found
