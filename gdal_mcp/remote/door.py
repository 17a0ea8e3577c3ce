"""The way of addresses into a call: parsed and allowed before anything is asked, then opened for that call.

What a principal reads in a day (UTC) is on disk when its calls end; until then this server counts it in memory.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address, NotAnAddress, parse
from gdal_mcp.remote.checks import Allowance, Checks, Meter, Missing, Quota, ReadFailed
from gdal_mcp.remote.copies import Copies
from gdal_mcp.remote.files import Means
from gdal_mcp.remote.reading import AT_ONCE, Reading, opened
from gdal_mcp.settings.remote import RemoteSettings

PREFIX: Final = "/vsihost/"
_MAX_ADDRESSES: Final = 200  # of one call
_MAX_ITEM: Final = 4 << 20  # bytes of a STAC item


class Door:
    """What one server may read over the network. For several threads."""

    def __init__(
        self,
        settings: RemoteSettings,
        folder: Path,
        quota: Quota,
        hosts_of: Callable[[str], Sequence[str] | None] = lambda _principal: None,
    ) -> None:
        """`folder` takes what is kept of what was read. `hosts_of` narrows the settings for a principal; None leaves them."""
        self.settings = settings
        self.checks = Checks(settings, hosts_of)
        self._copies = Copies(folder, settings.cache)
        self._day = _Day(settings, quota)

    def address(self, text: str, principal: str) -> Address:
        """The address that a text is, if this principal may read it. Asks nothing of the network. Raises ToolError."""
        try:
            address = parse(text)
        except NotAnAddress as error:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                f"an address cannot be used: {error}.",
                "Write it as https://host/file, s3://bucket/key, gs://bucket/key or az://account/container/key.",
            ) from error
        self.checks.listed(address, principal)
        return address

    def open(self, addresses: Sequence[Address], *, principal: str, call_id: str, deadline: float) -> Reading:
        """Finds the addresses, and is ready to read them for one call, until `deadline` by time.monotonic(). Blocking.

        Raises ToolError: NOT_FOUND, NETWORK_BLOCKED, REMOTE_ERROR.
        """
        if len(addresses) > _MAX_ADDRESSES:
            raise _failed(
                f"a call reads at most {_MAX_ADDRESSES} addresses, and this one names {len(addresses)}"
            )
        call = self._allowance(principal, deadline)
        work = ThreadPoolExecutor(AT_ONCE, f"remote-{call_id}")
        means = Means(self.checks, self._copies, work)
        names = tuple(f"{PREFIX}{number}/{one.name}" for number, one in enumerate(addresses, 1))
        sources: dict[str, Any] = {}
        reading = Reading(names, sources, call, work, partial(self._day.ended, call))
        try:
            with ThreadPoolExecutor(AT_ONCE, f"remote-open-{call_id}") as opening, _explained():
                made = [opening.submit(self._source, one, call, means) for one in addresses]
                # those that were found are known to the reading, and closed with it, before a failure of others is raised
                sources |= {
                    str(number): one.result() for number, one in enumerate(made, 1) if not one.exception()
                }
                for one in made:
                    one.result()
        except BaseException:
            reading.close()
            raise
        return reading

    @contextmanager
    def asking(self, principal: str, deadline: float) -> Iterator[Meter]:
        """For requests of a tool itself, such as lists. What fails in it is a ToolError."""
        call = self._allowance(principal, deadline)
        try:
            with _explained():
                yield Meter(call)
        finally:
            self._day.ended(call)

    def close(self) -> None:
        """Once no reading is open."""
        self.checks.close()
        self._copies.close()

    def _allowance(self, principal: str, deadline: float) -> Allowance:
        settings = self.settings
        begun = self._day.begun(principal)
        return Allowance(principal, deadline, settings.bytes_a_call, settings.requests_a_call, begun)

    def _source(self, asked: Address, call: Allowance, means: Means) -> Any:
        address = self._asset(asked, call) if asked.item_asset else asked
        return opened(address, asked, call, means)

    def _asset(self, asked: Address, call: Allowance) -> Address:
        """Where an asset of a STAC item lies, if it may be read. Raises ToolError, ReadFailed."""
        item = replace(asked, item_asset="")
        text = self.checks.document(item, Meter(call), _MAX_ITEM)
        try:
            href = json.loads(text)["assets"][asked.item_asset]["href"]
            found = parse(urljoin(str(replace(item, query=(), secret=())), href))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ReadFailed(
                f"{asked.host}: the item has no such asset, or the asset has no address"
            ) from error
        # whatever its query says is the item's word, not the caller's
        found = replace(found, query=(), secret=(*found.query, *found.secret))
        self.checks.listed(found, call.principal)
        return found


class _Day:
    """What principals read today, with what their running calls have read so far. For several threads."""

    def __init__(self, settings: RemoteSettings, quota: Quota) -> None:
        self._settings, self._quota = settings, quota
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, int]] = {}  # on disk, when the last call began or ended
        self._read: Counter[str] = Counter()  # by calls that run
        self._requests: Counter[str] = Counter()

    def begun(self, principal: str) -> Callable[[int, int], None]:
        """The account of a call, to which it tells bytes and requests before it makes them; it raises ReadFailed."""
        kept = self._quota.remote_used(principal)
        with self._lock:
            self._kept[principal] = kept

        def spend(read: int, requests: int) -> None:
            with self._lock:
                kept_bytes, kept_requests = self._kept[principal]
                over = kept_bytes + self._read[principal] + read > self._settings.bytes_a_day
                over = (
                    over
                    or kept_requests + self._requests[principal] + requests > self._settings.requests_a_day
                )
                if over and requests:  # what is given back is always taken
                    raise ReadFailed(
                        "you have read as much today as you may (`bytes_a_day`, `requests_a_day`)"
                    )
                self._read[principal] += read
                self._requests[principal] += requests

        return spend

    def ended(self, call: Allowance) -> None:
        principal = call.principal
        self._quota.remote_spent(principal, call.read, call.requests)
        kept = self._quota.remote_used(principal)
        with self._lock:
            self._kept[principal] = kept
            self._read[principal] -= call.read
            self._requests[principal] -= call.requests


@contextmanager
def _explained() -> Iterator[None]:
    """A failed read before the call ran, as its error."""
    try:
        yield
    except Missing as error:
        raise ToolError(
            Code.NOT_FOUND,
            Stage.RESOLVE,
            f"{error}.",
            "Check the address; remote_list shows what a bucket holds.",
        ) from error
    except ReadFailed as error:
        raise _failed(str(error)) from error


def _failed(why: str) -> ToolError:
    return ToolError(
        Code.REMOTE_ERROR,
        Stage.RESOLVE,
        f"{why}.",
        "Nothing ran. Check the address, or try again later if the server that holds the data was at fault.",
    )
