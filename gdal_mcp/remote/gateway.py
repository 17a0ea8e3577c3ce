"""Remote data of calls: addresses are parsed and checked before any request, and then opened for one call."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address, NotAnAddress, parse
from gdal_mcp.remote.budgets import CallBudget, DailyQuota, Meter, Quota, ReadFailed
from gdal_mcp.remote.checks import Checks
from gdal_mcp.remote.copies import BlockCache
from gdal_mcp.remote.files import FetchDeps
from gdal_mcp.remote.reading import AT_ONCE, RemoteFiles, RemoteReading, explained
from gdal_mcp.settings.remote import RemoteSettings
from sandbox.parsing import parse_json

_MAX_ADDRESSES: Final = 200  # addresses of one call
_MAX_ITEM: Final = 4 << 20  # bytes of a STAC item
_MAX_ITEM_VALUES: Final = 200_000  # members and elements of a STAC item; most have a thousand


class RemoteGateway:
    """Access of one server to remote data. Thread-safe."""

    def __init__(
        self,
        settings: RemoteSettings,
        folder: Path,
        quota: Quota,
        hosts_of: Callable[[str], Sequence[str] | None] = lambda _principal: None,
    ) -> None:
        """`folder` holds the cache. `hosts_of` restricts the settings for a principal; None leaves them unchanged."""
        self.settings = settings
        self.checks = Checks(settings, hosts_of)
        self._cache = BlockCache(folder, settings.cache)
        self._daily = DailyQuota(settings, quota)

    def address(self, text: str, principal: str) -> Address:
        """Parses an address that this principal may read. Sends no request. Raises ToolError."""
        try:
            address = parse(text)
        except NotAnAddress as error:
            what = f"an address cannot be used: {error}."
            advice = "Write it as https://host/file, s3://bucket/key, gs://bucket/key or az://account/container/key."
            raise ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, what, advice) from error
        self.checks.listed(address, principal)
        return address

    def open(
        self,
        addresses: Sequence[Address],
        *,
        principal: str,
        call_id: str,
        deadline: float,
        within: tuple[str, ...] | None = None,
    ) -> RemoteReading:
        """Starts looking up the addresses for one call, until `deadline` (time.monotonic()). Returns at once.

        `within` are the hosts and folders in the approval, which redirects may not leave; None if the call needed no
        approval. The asset of a STAC item may be anywhere that the settings allow. Raises ToolError for too many
        addresses; `RemoteReading.require_found` reports those that are not found.
        """
        with explained():
            if len(addresses) > _MAX_ADDRESSES:
                raise ReadFailed(f"a call reads at most {_MAX_ADDRESSES} addresses, not {len(addresses)}")
        call = self._daily.begin(principal, deadline)
        work, finding = (ThreadPoolExecutor(AT_ONCE, f"remote-{what}-{call_id}") for what in ("read", "find"))
        deps = FetchDeps(self.checks, self._cache, work)
        sources = {
            str(number): finding.submit(self._source, address, call, deps, within)
            for number, address in enumerate(addresses, 1)
        }
        return RemoteReading(sources, call, (work, finding), partial(self._daily.end, call))

    @contextmanager
    def asking(
        self, principal: str, deadline: float, ended: threading.Event | None = None
    ) -> Iterator[Meter]:
        """A meter for requests of a tool itself, such as lists, until `ended` is set.

        Failures in the block become ToolErrors.
        """
        call = self._daily.begin(principal, deadline)
        call.ended = ended or call.ended
        try:
            with explained():
                yield Meter(call)
        finally:
            self._daily.end(call)

    def close(self) -> None:
        """Closes connections and the cache. Call it once no reading is open."""
        self.checks.close()
        self._cache.close()

    def _source(
        self, address: Address, call: CallBudget, deps: FetchDeps, within: tuple[str, ...] | None
    ) -> RemoteFiles:
        """Opens the source of an address; for a STAC item, that of its asset. Raises ToolError, ReadFailed."""
        if not address.item_asset:
            return RemoteFiles(address, address, deps, Meter(call, within))
        item = replace(address, item_asset="")
        text = self.checks.document(item, Meter(call, within), _MAX_ITEM)
        try:
            href = parse_json(text, _MAX_ITEM_VALUES)["assets"][address.item_asset]["href"]
            asset = parse(urljoin(str(replace(item, query=(), secret=())), href))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            what = f"{address.host}: the item does not have that asset, or the asset has no address"
            raise ReadFailed(what) from error
        # the item, not the caller, chose the query
        self.checks.listed(asset.hidden, call.principal)
        return RemoteFiles(asset.hidden, address, deps, Meter(call))
