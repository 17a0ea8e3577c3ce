"""Finds remote data: the items of a STAC API, and the keys below a folder of a bucket.

All results are untrusted text. pystac-client builds the requests of a search and parses the pages. Each request goes
through the checks like any read; the library's own network code is never used.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address, parse
from gdal_mcp.remote.budgets import Meter, ReadFailed
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.remote.listing import Listed, listed
from sandbox.parsing import require_simple

_PAGE: Final = 8 << 20  # bytes: a page of items with all their properties
_MAX_VALUES: Final = 400_000  # members and elements of a page; a hundred items with many assets have 100,000
_MAX_PAGES: Final = 20  # pages of one search
_MAX_KEYS: Final = 1_000_000
_MAX_ASSETS: Final = 30  # assets reported for an item
_MAX_EXAMINED_ASSETS: Final = 500  # assets examined for an item
_DATA: Final = ("tiff", "zarr", "parquet", "geojson", "geopackage")  # parts of the media types of datasets
_TEXT: Final = 500  # characters of one text


def search(
    gateway: RemoteGateway, meter: Meter, api: Address, query: Mapping[str, Any], most: int
) -> list[tuple[dict[str, Any], list[Address]]]:
    """Up to `most` items that a STAC API finds, each with the addresses of the assets that look like datasets.

    Omits addresses that the principal may not read or that contain secrets. Raises ToolError, ReadFailed.
    """
    try:
        reader: Any = import_module("pystac_client.stac_api_io").StacApiIO
        item_search: Any = import_module("pystac_client.item_search").ItemSearch
        failed: Any = import_module("pystac_client.exceptions").APIError
    except ImportError as error:
        what = "searching STAC needs a library that is not installed."
        advice = "Install the server with its extra: gdal-sandbox-mcp[remote]."
        raise ToolError(Code.REMOTE_ERROR, Stage.RUN, what, advice) from error
    pages = _Pages(gateway, meter, api.origin)
    through = type("_Through", (reader,), {"request": pages.request})(max_retries=None)
    home = str(api).rstrip("/")
    url = home if home.endswith("/search") else f"{home}/search"
    try:
        results = item_search(url, stac_io=through, max_items=most, limit=min(most, 100), **query)
        return [_item(row, gateway, meter.call.principal) for row in islice(results.items_as_dicts(), most)]
    except (failed, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        what = f"{api.host} does not answer as a STAC API does, or a filter cannot be read"
        raise ReadFailed(what) from error


@dataclass(slots=True)
class _Pages:
    """Sends the requests of pystac-client. Drops its headers and those that a page asks for."""

    gateway: RemoteGateway
    meter: Meter
    # scheme, host and port of the API; a page can cause no request, and no credentials, to be sent to another origin
    origin: str
    count: int = 0

    def request(
        self,
        href: str,
        method: str | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> str:
        del headers
        self.count += 1
        if self.count > _MAX_PAGES:
            raise ReadFailed(f"the search has more than {_MAX_PAGES} pages")
        address = parse(href).hidden  # chosen by the API's server; it is sent back to it and never shown
        if address.origin != self.origin:
            raise ReadFailed(f"a page of {self.origin} leads to {address.origin}")
        body = None
        if method == "POST":
            body = json.dumps(parameters or {}).encode()
        else:
            rows = tuple((key, urlencode({"": value})[1:]) for key, value in (parameters or {}).items())
            address = replace(address, secret=(*address.secret, *rows))
        page = self.gateway.checks.document(address, self.meter, _PAGE, body)
        require_simple(page, _MAX_VALUES)
        return page.decode()


def keys(
    gateway: RemoteGateway, meter: Meter, folder: Address, most: int
) -> tuple[tuple[Listed, Address | None], ...]:
    """Up to `most` keys and folders below a folder of a bucket, each with its address. Raises ReadFailed."""
    rows = listed(folder, gateway.checks, meter, deep=False, most=_MAX_KEYS)
    return tuple(
        (row, _address(f"{str(folder).rstrip('/')}/{row.name}", gateway, meter.call.principal))
        for row in islice(rows, most)
    )


def _item(
    row: Mapping[str, Any], gateway: RemoteGateway, principal: str
) -> tuple[dict[str, Any], list[Address]]:
    """An item and the addresses of its datasets, data first."""
    assets, datasets = {}, []
    for name, asset in islice((row.get("assets") or {}).items(), _MAX_EXAMINED_ASSETS):
        href, kind = _text(asset.get("href")), _text(asset.get("type"))
        address = _address(str(asset.get("href")), gateway, principal)
        assets[_text(name)] = {
            "href": str(address or "") or href.partition("?")[0],
            "type": kind,
            "title": _text(asset.get("title")),
            "readable": address is not None,
        }
        if address is not None and any(word in kind for word in _DATA):
            datasets.append((_text(name), address))
    names = list(dict.fromkeys([*(name for name, _ in datasets), *assets]))
    shown = {
        "id": _text(row.get("id")),
        "collection": _text(row.get("collection")),
        "datetime": _text((row.get("properties") or {}).get("datetime")),
        "bbox": [float(number) for number in (row.get("bbox") or ())[:6]],
        "assets": {name: assets[name] for name in names[:_MAX_ASSETS]},
    }
    return shown, [address for _, address in datasets[:_MAX_ASSETS]]


def _address(text: str, gateway: RemoteGateway, principal: str) -> Address | None:
    """The address in a text; None if this principal may not read it or it contains secrets."""
    with suppress(ToolError):
        address = gateway.address(text, principal)
        return None if address.secret else address
    return None


def _text(value: Any) -> str:
    return value[:_TEXT] if isinstance(value, str) else ""
