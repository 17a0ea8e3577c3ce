"""The keys of a bucket below a folder, page by page: of S3, of GCS, which speaks the same, and of Azure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

from gdal_mcp.remote.address import Address
from gdal_mcp.remote.checks import Checks
from gdal_mcp.remote.limits import Meter, ReadFailed
from gdal_mcp.settings.remote import PORTS

_PAGE: Final = 4 << 20  # bytes of XML: a thousand keys of the longest names take half of that
_DECLARES: Final = re.compile("<!(DOCTYPE|ENTITY)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listed:
    """One key below a folder; its name is what follows the folder's. Untrusted."""

    name: str
    size: int  # bytes; 0 of a folder
    is_folder: bool = False
    modified: str = ""


def listed(address: Address, checks: Checks, meter: Meter, *, deep: bool, most: int) -> Iterator[Listed]:
    """What is below a folder of a bucket: all of it, or one level. Raises ReadFailed, also beyond `most` keys."""
    if address.scheme in PORTS:
        raise ReadFailed(f"{address.host} is a host, and hosts have no list that could be relied on")
    path = address.path.lstrip("/")
    folder = path.partition("/")[2] if address.scheme == "az" else path
    folder = f"{folder.rstrip('/')}/" if folder.strip("/") else ""
    count, after = 0, ""
    while True:
        query = _query(address, folder, after, deep=deep)
        page = _parsed(checks.listing(address, meter, _PAGE, query), address)
        for row in _rows(page, folder):
            count += 1
            if count > most:
                raise ReadFailed(f"{address.host}: there are more than {most} keys in that folder")
            yield row
        following = _text(page, "NextMarker" if address.scheme == "az" else "NextContinuationToken")
        if not following or following == after:
            return
        after = following


def _query(address: Address, folder: str, after: str, *, deep: bool) -> str:
    """In the order of the names, as signatures want it."""
    azure = address.scheme == "az"
    rows = {"comp": "list", "restype": "container"} if azure else {"list-type": "2"}
    rows |= {"prefix": folder} if folder else {}
    rows |= {} if deep else {"delimiter": "/"}
    rows |= {"marker" if azure else "continuation-token": after} if after else {}
    return "&".join(f"{key}={quote(value, safe='-_.~')}" for key, value in sorted(rows.items()))


def _parsed(data: bytes, address: Address) -> ET.Element:
    """Without declarations, so that no entity is expanded; a coding that would hide them is not taken. Raises ReadFailed."""
    try:
        text = data.decode()
        if _DECLARES.search(text):
            raise ReadFailed(f"{address.host} lists its keys with declarations of its own")
        root = ET.fromstring(text)  # noqa: S314 - without declarations there is nothing to expand
    except (ET.ParseError, UnicodeDecodeError) as error:
        raise ReadFailed(f"{address.host} lists its keys in what is no XML") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _rows(page: ET.Element, folder: str) -> Iterator[Listed]:
    for one in page.iter():
        if one.tag in ("Contents", "Blob"):
            name = _text(one, "Key") or _text(one, "Name")
            size = _text(one, "Size") or _text(one, "Properties/Content-Length")
            modified = _text(one, "LastModified") or _text(one, "Properties/Last-Modified")
            if name.startswith(folder) and name != folder:
                known = int(size) if size.isdecimal() and len(size) < 19 else 0
                yield Listed(name[len(folder) :], known, modified=modified)
        elif one.tag in ("CommonPrefixes", "BlobPrefix"):
            name = _text(one, "Prefix") or _text(one, "Name")
            if name.startswith(folder) and name != folder:
                yield Listed(name[len(folder) :].rstrip("/"), 0, is_folder=True)


def _text(element: ET.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
