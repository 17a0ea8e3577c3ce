"""The settings of remote data: what the server may read for calls, within which limits, and with which credentials.

Nothing is readable by default. A credential is given by its place, `env:NAME` or `file:/path`, and read when it is used.
"""

import os
import re
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Final, Literal, Self, cast

import idna
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_settings import NoDecode

from gdal_mcp.settings.types import Names, Place, Size, size, split_names

Scheme = Literal["https", "http", "s3", "gs", "az"]
PORTS: Final = {"https": 443, "http": 80}
_AT: Final = re.compile(
    r"(?:(https?|s3|gs|az)://)?(\*\.)?([^/:@?#\[\]]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(/[^?#]*)?"
)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,62}")
_SECRET: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")


def canonical_host(text: str) -> str:
    """A host's name in the form of DNS: lower case, in punycode. Raises ValueError."""
    if text.startswith("[") or re.fullmatch(r"[0-9.]+", text):
        return text.lower()
    try:
        return idna.encode(text.removesuffix("."), uts46=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"{text[:80]!r} is not a host name") from error


def _reference(text: str) -> str:
    if not _SECRET.fullmatch(text):
        raise ValueError(
            "a credential is given by its place, env:NAME or file:/path, and never written into the settings"
        )
    read_secret(text)
    return text


def read_secret(reference: str) -> str:
    """The content of an environment variable or a file, stripped. Raises ValueError."""
    kind, _, name = reference.partition(":")
    try:
        value = os.environ.get(name, "") if kind == "env" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{reference} cannot be read") from error
    if not value.strip():
        raise ValueError(f"{reference} is empty")
    return value.strip()


Secret = Annotated[str, AfterValidator(_reference)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RemoteSource(_Table):
    """A host (exact or with a leading `*.`), a bucket, or a folder of one that may be read."""

    at: str = Field(
        description="`data.example.org`, `*.example.org`, `https://host:8443/cog/`, `s3://bucket/maps/`."
    )
    networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="Private networks that the host may be in. Otherwise addresses that are not public are refused.",
    )
    query: Names = Field(
        (), description="Query parameters that an address may have. They are shown and recorded."
    )
    bearer: Secret | None = Field(None, description="Token of the header `Authorization: Bearer`.")
    headers: dict[str, Secret] = Field(
        default_factory=dict, description="Other headers with credentials, by name."
    )
    access_key: Secret | None = Field(None, description="Key id of S3, or of GCS (an HMAC key).")
    secret_key: Secret | None = Field(None, description="Secret of the access key.")
    session_token: Secret | None = Field(None, description="Session token of temporary keys.")
    service_account: Place | None = Field(None, description="JSON file of a Google service account.")
    account_key: Secret | None = Field(None, description="Key of the Azure storage account.")
    sas: Secret | None = Field(None, description="Azure shared access signature.")
    region: str = Field("us-east-1", pattern=r"^[a-z0-9-]{1,40}$", description="Region of the bucket.")
    endpoint: str = Field(
        "", description="Address of an S3 service other than Amazon's, such as https://minio.example.org."
    )
    requester_pays: bool = Field(default=False, description="Whether the owner of the keys pays for reads.")

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        _ = self.parts
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key belong together; set both or none")
        if self.endpoint and not re.fullmatch(r"https?://[^/?#@]+", self.endpoint):
            raise ValueError("endpoint must be an address such as https://minio.example.org, without a path")
        return self

    @cached_property
    def parts(self) -> tuple[Scheme, str, int, str]:
        """Scheme, host or bucket, port and path of `at`. Raises ValueError."""
        match = _AT.fullmatch(self.at.strip())
        if match is None:
            raise ValueError(f"{self.at[:80]!r} is not a host, a bucket, or a folder of one")
        scheme = cast("Scheme", match[1] or "https")
        wild, name, port, path = match.group(2, 3, 4, 5)
        if scheme not in PORTS:
            if wild or port or not _BUCKET.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is not a bucket name")
            return scheme, name, 0, path or "/"
        host = canonical_host(name)
        if wild and "." not in host:
            raise ValueError(f"*.{host} is a whole top-level domain; write more of the name")
        return scheme, f"*.{host}" if wild else host, int(port or PORTS[scheme]), path or "/"

    def holds(self, scheme: str, host: str, port: int, path: str) -> bool:
        """True if an address is in this source. `/maps` is that folder, and not `/maps2`."""
        own, name, own_port, folder = self.parts
        named = host.endswith(name[1:]) if name.startswith("*.") else host == name
        inside = path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")
        return (scheme, port) == (own, own_port) and named and inside


def source_at(text: str) -> RemoteSource:
    """The source for a host, bucket or folder without credentials. Raises ValueError."""
    return RemoteSource.model_validate({"at": text})


class RemoteSettings(_Table):
    """The table `[remote]`. Without hosts and sources, nothing remote is read."""

    hosts: Names = Field((), description="Hosts, buckets and folders that need no other setting.")
    source: tuple[RemoteSource, ...] = Field(
        (),
        description="Hosts and buckets with credentials or other settings; the first that matches is used.",
    )
    ca: Place | None = Field(None, description="Additional certificate authorities, as PEM.")
    bytes_a_call: Annotated[int, size(1 << 16)] = Field(2 << 30, description="Bytes that one call may read.")
    requests_a_call: int = Field(10_000, ge=1, description="Requests of one call.")
    bytes_a_day: Annotated[int, size(1 << 16)] = Field(
        100 << 30, description="Bytes that one principal may read in a day (UTC)."
    )
    requests_a_day: int = Field(1_000_000, ge=1, description="Requests of one principal in a day.")
    connect_seconds: float = Field(5.0, gt=0, le=60, description="Seconds for a connection to be made.")
    silence_seconds: float = Field(10.0, gt=0, le=300, description="Seconds without a byte.")
    answer_seconds: float = Field(60.0, gt=0, le=3600, description="Seconds for one answer.")
    cache: Size = Field(4 << 30, description="Size of the cache of remote data on disk.")

    @model_validator(mode="after")
    def _readable(self) -> Self:
        _ = self.sources
        return self

    @cached_property
    def sources(self) -> tuple[RemoteSource, ...]:
        """All sources that may be read."""
        return (*self.source, *map(source_at, self.hosts))


REMOTE_KEYS: Final = frozenset((*RemoteSettings.model_fields, *RemoteSource.model_fields))

# hosts with commas between them replace the whole table; they are not merged with one from a source of lower priority
Remote = Annotated[
    RemoteSettings,
    NoDecode,
    BeforeValidator(lambda value: {"hosts": split_names(value)} if isinstance(value, str) else value),
]
