"""The paths of remote data in a call: what its container sees instead of addresses.

Invariant: the container gets no address, host or credential, only `/vsihost/NUMBER/NAME`, which only the host can resolve, for one call.
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
_FRESH: Final = 600  # seconds for which a description of remote data is used: servers announce no changes


@dataclass(frozen=True, slots=True)
class Remote(WorkspacePath):
    """Remote data that the host reads for the container. Its text is the path in the container; `label` is for people."""

    address: Address = field(kw_only=True)
    period: int = field(default=0, kw_only=True, compare=False)  # in which it was named


@dataclass(slots=True, eq=False)
class AddressTable:
    """The addresses of one draft, each with its number from 1 on, in the order in which they are named."""

    parse: Callable[[str], Address]  # raises ToolError for what is no address, or none that may be read
    _places: dict[str, Remote] = field(default_factory=dict)

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(one.address for one in self._places.values())

    def place(self, text: str) -> Remote:
        """Raises ToolError."""
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
    """What people are shown: the path, or the address without its secrets."""
    return str(located.address) if isinstance(located, Remote) else str(located)


def local(places: Iterable[WorkspacePath]) -> tuple[WorkspacePath, ...]:
    """The paths in a workspace."""
    return tuple(one for one in places if not isinstance(one, Remote))


def by_host(places: Iterable[WorkspacePath], size_of: Callable[[WorkspacePath], int]) -> list[dict[str, Any]]:
    """Remote data by host, as shown for approval. Bytes are those of the files, 0 if unknown."""
    rows: dict[str, dict[str, Any]] = {}
    for one in dict.fromkeys(places):
        if isinstance(one, Remote):
            origin = one.address.origin
            row = rows.setdefault(origin, {"host": origin, "read_by": READ_BY, "reads": [], "bytes": 0})
            beside = f" with {', '.join(one.address.sidecars)}" if one.address.sidecars else ""
            row["reads"].append(
                f"{one.address}{', wherever it lies' if one.address.item_asset else ''}{beside}"
            )
            row["bytes"] += size_of(one)
            row["folders"] = sorted({*row.get("folders", ()), one.address.folder})
    return list(rows.values())


def restore_addresses(text: str, addresses: Iterable[Address]) -> str:
    """Replaces the container's paths of remote data in a text by their addresses."""
    for number, address in enumerate(addresses, 1):
        folder = f"{_HOST.root}/{number}/"
        text = text.replace(f"{folder}{address.name}", str(address)).replace(folder, address.folder)
    return text


def without_secrets(value: Any, addresses: Sequence[Address]) -> Any:
    """Arguments as JSON, without what is secret in their addresses, wherever in a text these stand."""
    if isinstance(value, Mapping):
        return {key: without_secrets(inner, addresses) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(inner, addresses) for inner in value]
    if isinstance(value, str):
        pairs = {pair for one in addresses for pair in one.secret}
        for key, secret in sorted(pairs, key=lambda pair: -len(pair[1])):  # one may begin like another
            value = value.replace(f"{key}={secret}", f"{key}=...")
    return value
