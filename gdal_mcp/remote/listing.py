"""Lists the keys of a bucket below a folder, page by page: S3, GCS (the same protocol) and Azure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.parse import quote
from xml.parsers.expat import ExpatError, ParserCreate

from gdal_mcp.remote.address import Address
from gdal_mcp.remote.budgets import Meter, ReadFailed
from gdal_mcp.remote.checks import Checks
from gdal_mcp.settings.remote import PORTS

_PAGE: Final = 4 << 20  # bytes of XML; a thousand keys with the longest names take half of this
_MAX_ROWS: Final = 10_000  # keys of one page; buckets return a thousand, Azure five thousand
# `<` and `=` characters of one page; a key of Azure has 30 elements; also limits the attributes of an element
_MAX_MARKS: Final = 400_000
_MAX_LEVELS: Final = 10
_MAX_SIZE_DIGITS: Final = 19
_FILES: Final = ("Contents", "Blob")
_FOLDERS: Final = ("CommonPrefixes", "BlobPrefix")
_FOLLOWING: Final = ("NextMarker", "NextContinuationToken")
_FIELDS: Final = frozenset(
    "Key Name Prefix Size LastModified Properties/Content-Length Properties/Last-Modified".split()
)


@dataclass(frozen=True, slots=True)
class Listed:
    """One key below a folder. `name` is relative to the folder. Untrusted."""

    name: str
    size: int  # bytes; 0 for a folder
    is_folder: bool = False
    modified: str = ""


def listed(address: Address, checks: Checks, meter: Meter, *, deep: bool, most: int) -> Iterator[Listed]:
    """The keys below a folder of a bucket: all of them, or one level.

    Raises ReadFailed, also for more than `most` keys.
    """
    if address.scheme in PORTS:
        raise ReadFailed(f"{address.host} is a host; only buckets can be listed")
    path = address.path.lstrip("/")
    folder = path.partition("/")[2] if address.scheme == "az" else path
    folder = f"{folder.rstrip('/')}/" if folder.strip("/") else ""
    count, after = 0, ""
    while True:
        query = _query(address, folder, after, deep=deep)
        page = _parsed(checks.listing(address, meter, _PAGE, query), address, folder)
        for row in page.rows:
            count += 1
            if count > most:
                raise ReadFailed(f"{address.host}: there are more than {most} keys in that folder")
            yield row
        if not page.following or page.following == after:
            return
        after = page.following


def _query(address: Address, folder: str, after: str, *, deep: bool) -> str:
    """The query of a list request, sorted by name, as signatures require."""
    azure = address.scheme == "az"
    rows = {"comp": "list", "restype": "container"} if azure else {"list-type": "2"}
    rows |= {"prefix": folder} if folder else {}
    rows |= {} if deep else {"delimiter": "/"}
    rows |= {"marker" if azure else "continuation-token": after} if after else {}
    return "&".join(f"{key}={quote(value, safe='-_.~')}" for key, value in sorted(rows.items()))


class _Page:
    """One page of a list, parsed as a stream without building an element tree."""

    def __init__(self, folder: str) -> None:
        self.rows: list[Listed] = []
        self.following = ""
        self._folder = folder
        self._path: list[str] = []  # names of the open elements, without namespace prefixes
        self._text: list[str] = []  # text in the innermost open element
        self._fields: dict[str, str] = {}  # texts of the current row, by the path below its element
        self._row = 0  # depth of the current row's element; 0 outside rows

    def read(self, data: bytes) -> None:
        """Parses a page. Raises ReadFailed for a DOCTYPE, or for too many elements, levels or keys.

        Raises ExpatError or UnicodeDecodeError if the data is not XML in UTF-8.
        """
        if max(data.count(b"<"), data.count(b"=")) > _MAX_MARKS:
            raise ReadFailed("the list of keys has too many elements")
        data.decode()  # only UTF-8, because another encoding could hide declarations
        parser = ParserCreate("utf-8")
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text.append
        parser.buffer_text = True
        parser.Parse(data, True)  # noqa: FBT003 - it takes no keywords

    def _start(self, name: str, _attributes: Mapping[str, str]) -> None:
        self._path.append(name.rpartition(":")[2])
        self._text.clear()
        if len(self._path) > _MAX_LEVELS:
            raise ReadFailed("the list of keys has too many levels")
        if not self._row and self._path[-1] in (*_FILES, *_FOLDERS):
            self._row = len(self._path)
            self._fields.clear()

    def _end(self, _name: str) -> None:
        text = "".join(self._text).strip()
        self._text.clear()
        if self._row == len(self._path):
            self._add(self._path[-1] in _FOLDERS)
            self._row = 0
        elif self._row:
            field = "/".join(self._path[self._row :])
            if field in _FIELDS:
                self._fields.setdefault(field, text)
        elif len(self._path) == 2 and self._path[-1] in _FOLLOWING:  # directly below the root element
            self.following = self.following or text
        self._path.pop()

    def _add(self, is_folder: bool) -> None:  # noqa: FBT001 - one caller
        if len(self.rows) >= _MAX_ROWS:
            raise ReadFailed(f"a page of keys has more than {_MAX_ROWS} of them")
        field = self._fields.get
        name = (field("Prefix") if is_folder else field("Key")) or field("Name") or ""
        if not name.startswith(self._folder) or name == self._folder:
            return
        name = name[len(self._folder) :]
        if is_folder:
            self.rows.append(Listed(name.rstrip("/"), 0, is_folder=True))
            return
        size = field("Size") or field("Properties/Content-Length") or ""
        modified = field("LastModified") or field("Properties/Last-Modified") or ""
        known = int(size) if size.isdecimal() and len(size) < _MAX_SIZE_DIGITS else 0
        self.rows.append(Listed(name, known, modified=modified))


def _parsed(data: bytes, address: Address, folder: str = "") -> _Page:
    """A page of keys. Raises ReadFailed."""
    page = _Page(folder)
    try:
        page.read(data)
    except ReadFailed as error:
        raise ReadFailed(f"{address.host}: {error}") from error
    except (ExpatError, UnicodeDecodeError) as error:
        raise ReadFailed(f"{address.host} lists its keys in invalid XML") from error
    return page


def _refuse(*_declared: Any) -> NoReturn:
    raise ReadFailed("the list of keys contains declarations")
