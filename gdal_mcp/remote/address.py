"""Parses the addresses of remote data that callers write, strictly. Pure: does not use the network.

https://host/x.tif            a file; `#with=ovr,tfw` names its sidecar files
https://host/x.zarr           a tree of files
s3://bucket/key, gs://bucket/key, az://account/container/key
stac+https://host/item#asset  an asset of a STAC item
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final, cast
from urllib.parse import quote, unquote, urlsplit

from gdal_mcp.settings.remote import PORTS, Scheme, canonical_host

SCHEMES: Final = ("https", "http", "s3", "gs", "az", "stac+https", "stac+http")
_LONGEST: Final = 4000  # characters; enough for a presigned URL of a cloud provider
# query parameters of signatures and tokens: never shown and never recorded
_SIGNING: Final = re.compile(
    r"x-(amz|goog)-[a-z-]+|awsaccesskeyid|googleaccessid|signature|expires|policy|key-pair-id|token|access_token"
    r"|s(v|s|rt|p|e|t|pr|r|ig|dd|ip|koid|ktid|kt|ke|ks|kv|aoid|uoid|cid|es)|api_?key|key"
)
_SIDECARS: Final = {
    ".shp": ("shx", "dbf", "prj", "cpg"),
    ".tab": ("dat", "map", "id", "ind"),
    ".mif": ("mid",),
}
_EXTENSION: Final = re.compile(r"[A-Za-z0-9]{1,8}(\.[A-Za-z0-9]{1,8})?")
_PLAIN: Final = re.compile(r"[^A-Za-z0-9_.-]")


class NotAnAddress(ValueError):
    """The text is not a valid address. The message gives the reason and never repeats the text."""


def is_address(text: str) -> bool:
    """True if a text looks like the address of remote data."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def plain_name(text: str) -> str:
    """A file's name as the container sees it: letters, digits, dots, hyphens, and `_` for any other character."""
    return _PLAIN.sub("_", text)[-120:].lstrip(".-") or "data"


@dataclass(frozen=True, slots=True)
class Address:
    """One address. Its text, `repr` and hash leave out its secrets.

    `path` begins with a slash. It is percent-encoded as requested, or the plain key of a bucket.
    """

    scheme: Scheme
    host: str  # in punycode; for a bucket its name, for Azure the account's name
    port: int  # 0 for buckets
    path: str
    query: tuple[tuple[str, str], ...] = ()  # the part that is not secret
    secret: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    item_asset: str = ""  # name of the asset, if the path is that of a STAC item
    sidecars: tuple[str, ...] = ()  # names of files in the same folder

    @property
    def name(self) -> str:
        """The name of the file or folder in the container."""
        last = unquote(self.path.rstrip("/").rpartition("/")[2])
        return plain_name(f"{last}.{self.item_asset}" if self.item_asset else last)

    @property
    def is_tree(self) -> bool:
        """True if the address covers all files below it."""
        return self.path.endswith("/") or self.path.lower().endswith((".zarr", ".zarr3"))

    @property
    def folder(self) -> str:
        """The scheme, host and folder, in the form of grants.

        STAC items keep their own scheme, because their assets may be on other hosts.
        """
        return f"{'stac+' if self.item_asset else ''}{self.origin}{self.path.rpartition('/')[0]}/"

    @property
    def origin(self) -> str:
        """The scheme and host, with the port if it is not the default."""
        port = f":{self.port}" if self.port not in (0, PORTS.get(self.scheme)) else ""
        return f"{self.scheme}://{self.host}{port}"

    @property
    def hidden(self) -> "Address":
        """The same address with its whole query treated as secret, for addresses that another server chose."""
        return replace(self, query=(), secret=(*self.query, *self.secret))

    @property
    def bucket(self) -> "Address":
        """The bucket itself, or the container of an Azure account."""
        top = f"/{self.path.split('/')[1]}" if self.scheme == "az" else "/"
        return Address(self.scheme, self.host, self.port, top)

    def beside(self, name: str) -> "Address":
        """The address of a file in the same folder, or below a tree. `name` is not encoded."""
        top = self.path.rstrip("/") if self.is_tree else self.path.rpartition("/")[0]
        below = name if self.port == 0 else quote(name)
        return Address(self.scheme, self.host, self.port, f"{top}/{below}", self.query, self.secret)

    def __str__(self) -> str:
        # names of parameters in a redirect or an asset may be secret, too, so only well-known names are shown
        hidden = (f"{key}=..." if _SIGNING.fullmatch(key.lower()) else "..." for key, _ in self.secret)
        query = "&".join((*(f"{key}={value}" for key, value in self.query), *hidden))
        text = f"{self.origin}{self.path}{'?' if query else ''}{query}"
        return f"stac+{text}#{self.item_asset}" if self.item_asset else text


def parse(text: str) -> Address:
    """Parses a text. Raises NotAnAddress."""
    web = text.lower().startswith(("http", "stac"))
    if len(text) > _LONGEST or not text.isprintable() or "\\" in text or (web and " " in text):
        raise NotAnAddress("it is too long, or contains blanks, backslashes or control characters")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise NotAnAddress("it cannot be read as an address") from error
    scheme, is_item = url.scheme.removeprefix("stac+"), url.scheme.startswith("stac+")
    if url.scheme not in SCHEMES or not url.hostname:
        raise NotAnAddress(
            f"it begins with none of {', '.join(f'{scheme}://' for scheme in SCHEMES)} and a host"
        )
    if "@" in url.netloc:
        raise NotAnAddress("it must not contain a user or a password; credentials are set by the operator")
    if is_item != bool(url.fragment and not url.fragment.startswith("with=")):
        raise NotAnAddress("`#asset` names an asset of a STAC item, as in stac+https://host/item.json#visual")
    path = _path(url.path, bucket=scheme not in PORTS)
    query = _query(url.query, bucket=scheme not in PORTS)
    hidden = tuple(row for row in query if _SIGNING.fullmatch(row[0].lower()))
    try:
        name = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
        host = url.netloc if scheme not in PORTS else canonical_host(name)
    except ValueError as error:
        raise NotAnAddress(str(error)) from error
    return Address(
        cast("Scheme", scheme),
        host,
        port or PORTS.get(scheme, 0),
        path,
        tuple(row for row in query if row not in hidden),
        hidden,
        url.fragment if is_item else "",
        () if is_item else _sidecars(path, url.fragment.removeprefix("with=")),
    )


def folder_of(text: str) -> str:
    """A host, a bucket or a folder, in the form of `Address.folder`. Raises NotAnAddress."""
    address = text if "://" in text else f"https://{text}"
    if "?" in text or "#" in text:
        raise NotAnAddress("a folder has no query and no fragment")
    name = "any#any" if address.startswith("stac+") else "any"
    return parse(f"{address.rstrip('/')}/{name}").folder


def _path(path: str, *, bucket: bool) -> str:
    """The path as requested. Parent references and encoded slashes are refused, so that a prefix match is reliable."""
    plain = path if bucket else unquote(path)
    # some servers ignore everything after a semicolon in a name
    climbs = any(segment.partition(";")[0] in (".", "..") for segment in plain.split("/"))
    if climbs or "//" in plain or not plain.isprintable():
        raise NotAnAddress("its path contains `.`, `..`, an empty folder or control characters")
    if not bucket and re.search("%(2f|5c|00|25)", path, re.IGNORECASE):
        raise NotAnAddress("its path contains an encoded slash, backslash, percent sign or zero")
    if path in ("", "/") and not (bucket and path):
        raise NotAnAddress("it names no file")
    return path if bucket else quote(path, safe="/%:@!$&'()*+,;=~")


def _query(query: str, *, bucket: bool) -> tuple[tuple[str, str], ...]:
    """The query as pairs that are not decoded, because a signature covers the exact text."""
    if not query:
        return ()
    if bucket:
        raise NotAnAddress("the address of a bucket has no query")
    rows = tuple((key, value) for key, _, value in (part.partition("=") for part in query.split("&")))
    if any(key.lower() == "x-amz-request-payer" for key, _ in rows):
        raise NotAnAddress("it asks for requester pays, which only the operator can set: `requester_pays`")
    return rows


def _sidecars(path: str, named: str) -> tuple[str, ...]:
    """The names of a file's sidecar files: those of its format, and those that the address names."""
    last = unquote(path.rpartition("/")[2])
    stem, dot, extension = last.rpartition(".")
    usual = [f"{stem}.{ending}" for ending in _SIDECARS.get(f"{dot}{extension}".lower(), ())]
    for ending in filter(None, named.split(",")):
        if not _EXTENSION.fullmatch(ending):
            raise NotAnAddress("`#with=` names endings such as ovr, aux.xml or tfw")
        # appended as in x.tif.ovr and x.tif.aux.xml, or replaced as in x.tfw
        usual.append(f"{last}.{ending}" if ending in ("ovr", "aux.xml", "msk") else f"{stem}.{ending}")
    return tuple(dict.fromkeys(usual))
