"""What a call reads, asked for by what it would write. Pure.

Invariants:
* a place is an input's when it is that file, stands under a name that goes with it, or is a folder that holds it;
* a name that two datasets could claim counts for each of them: too much is refused rather than too little;
* inputs cost one pass, and a question after that nothing that grows with them.
"""

from bisect import bisect_left
from collections.abc import Iterable
from pathlib import PurePosixPath

from gdal_mcp.gdal.datasets.sidecars import could_belong, shared_endings
from sandbox.workspace import Located


class Reading:
    """The inputs of one call, each with whether files beside it go with it; those beside an archive belong to no file in it."""

    def __init__(self, inputs: Iterable[tuple[Located, bool]]) -> None:
        self._paths: set[str] = set()
        self._mains: set[tuple[str, str]] = set()
        self._endings: dict[tuple[str, str], frozenset[str]] = {}
        for located, together in dict.fromkeys(inputs):
            self._paths.add(str(located))
            if not together or located.is_folder:
                continue
            folder = str(located.path.parent)
            self._mains.add((folder, located.name))
            if own := shared_endings(located.name):
                key = (folder, PurePosixPath(located.name).stem)
                self._endings[key] = own | self._endings.get(key, frozenset())
        self._sorted = sorted(self._paths)

    def takes(self, place: Located) -> bool:
        """Whether what is written there would stand in the place of something that is read."""
        if str(place) in self._paths:
            return True
        if place.identity is None:  # where nothing is, nothing goes with an input
            return False
        if place.is_folder:
            at = bisect_left(self._sorted, f"{place}/")
            return at < len(self._sorted) and self._sorted[at].startswith(f"{place}/")
        folder = str(place.path.parent)
        return any(
            (folder, stem) in self._mains
            if ending is None
            else ending in self._endings.get((folder, stem), ())
            for stem, ending in could_belong(place.name)
        )
