"""The paths of remote data in a call, which its container sees instead of addresses.

Invariant: the container gets no address, host or credential, only `/vsihost/NUMBER/NAME`, which only the host can
resolve, for one call.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from gdal_mcp.remote.address import Address
from sandbox.workspace import Workspace, WorkspacePath

READ_BY: Final = "the server, not the container"
_HOST: Final = Workspace(Path("/vsihost"), writable=False)
# seconds that a description of remote data is valid, because servers do not announce changes
_FRESH: Final = 600


@dataclass(frozen=True, slots=True)
class Remote(WorkspacePath):
    """Remote data that the host reads for the container. `str` is the path in the container; use `label` for people."""

    address: Address = field(kw_only=True)
    # number of the period of `_FRESH` seconds in which the address was parsed
    period: int = field(default=0, kw_only=True, compare=False)


@dataclass(slots=True, eq=False)
class AddressTable:
    """The addresses of one draft, numbered from 1 in the order of their first use."""

    # raises ToolError if the text is not an address, or the principal may not read it
    parse: Callable[[str], Address]
    _places: dict[str, Remote] = field(default_factory=dict)

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(remote.address for remote in self._places.values())

    def place(self, text: str) -> Remote:
        """The remote data at an address. Raises ToolError."""
        if text not in self._places:
            address = self.parse(text)
            self._places[text] = Remote(
                _HOST,
                PurePosixPath(str(len(self._places) + 1), address.name),
                is_folder=address.is_tree,
                address=address,
                period=int(time.monotonic() // _FRESH),
            )
        return self._places[text]


def label(located: WorkspacePath) -> str:
    """The text to show to people: the path, or the address without its secrets."""
    return str(located.address) if isinstance(located, Remote) else str(located)


def local(places: Iterable[WorkspacePath]) -> tuple[WorkspacePath, ...]:
    """The paths in workspaces, without remote data."""
    return tuple(located for located in places if not isinstance(located, Remote))


def by_host(places: Iterable[WorkspacePath], size_of: Callable[[WorkspacePath], int]) -> list[dict[str, Any]]:
    """Remote data by host, in the form shown for approval.

    `bytes` is the total size of the files; unknown sizes count as 0.
    """
    rows: dict[str, dict[str, Any]] = {}
    for located in dict.fromkeys(places):
        if isinstance(located, Remote):
            origin = located.address.origin
            row = rows.setdefault(origin, {"host": origin, "read_by": READ_BY, "reads": [], "bytes": 0})
            beside = f" with {', '.join(located.address.sidecars)}" if located.address.sidecars else ""
            row["reads"].append(
                f"{located.address}{', wherever it lies' if located.address.item_asset else ''}{beside}"
            )
            row["bytes"] += size_of(located)
            row["folders"] = sorted({*row.get("folders", ()), located.address.folder})
    return list(rows.values())


def restore_addresses(text: str, addresses: Iterable[Address]) -> str:
    """Replaces the container's paths of remote data in a text by their addresses."""
    for number, address in enumerate(addresses, 1):
        folder = f"{_HOST.root}/{number}/"
        text = text.replace(f"{folder}{address.name}", str(address)).replace(folder, address.folder)
    return text


def without_secrets(value: Any, addresses: Sequence[Address]) -> Any:
    """JSON arguments without the secrets of their addresses, wherever these occur in a text."""
    if isinstance(value, Mapping):
        return {key: without_secrets(inner, addresses) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner, addresses) for inner in value]
    if isinstance(value, str):
        pairs = {pair for address in addresses for pair in address.secret}
        # longest first, because one secret may begin with another
        for key, secret in sorted(pairs, key=lambda pair: -len(pair[1])):
            value = value.replace(f"{key}={secret}", f"{key}=...")
    return value
