"""The settings of remote data: what the server may read for its calls, within which bounds, and with which credentials.

Nothing is readable by default. A credential is named by where it is kept, `env:NAME` or `file:/path`, and read when it is used.
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

from gdal_mcp.settings.types import Names, Place, Size, split_names

Scheme = Literal["https", "http", "s3", "gs", "az"]
PORTS: Final = {"https": 443, "http": 80}
_AT: Final = re.compile(
    r"(?:(https?|s3|gs|az)://)?(\*\.)?([^/:@?#\[\]]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(/[^?#]*)?"
)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,62}")
_SECRET: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")


def canonical_host(text: str) -> str:
    """A host's name as DNS has it: lower case, in punycode. Raises ValueError."""
    if text.startswith("[") or re.fullmatch(r"[0-9.]+", text):
        return text.lower()
    try:
        return idna.encode(text.removesuffix("."), uts46=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"{text[:80]!r} is no name of a host") from error


def _reference(text: str) -> str:
    if not _SECRET.fullmatch(text):
        raise ValueError(
            "a credential is named by where it is kept, env:NAME or file:/path, and never written out"
        )
    read_secret(text)
    return text


def read_secret(reference: str) -> str:
    """What an environment variable or a file holds, without the white space around it. Raises ValueError."""
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


class Source(_Table):
    """What may be read: a host, exact or with `*.` before it, a bucket, or what lies below one of their folders."""

    at: str = Field(
        description="`data.example.org`, `*.example.org`, `https://host:8443/cog/`, `s3://bucket/maps/`."
    )
    networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (),
        description="Private networks in which the host may be; addresses that are not public are refused otherwise.",
    )
    query: Names = Field(
        (), description="Parameters that an address may have in its query; they are shown and recorded."
    )
    bearer: Secret | None = Field(None, description="Token of the header `Authorization: Bearer`.")
    headers: dict[str, Secret] = Field(
        default_factory=dict, description="Other headers with credentials, by name."
    )
    access_key: Secret | None = Field(None, description="Key id of S3, or of GCS (an HMAC key).")
    secret_key: Secret | None = Field(None, description="The secret that belongs to it.")
    session_token: Secret | None = Field(None, description="The token of temporary keys.")
    service_account: Place | None = Field(None, description="JSON file of a service account of Google.")
    account_key: Secret | None = Field(None, description="Key of the storage account of Azure.")
    sas: Secret | None = Field(None, description="Shared access signature of Azure.")
    region: str = Field("us-east-1", pattern=r"^[a-z0-9-]{1,40}$", description="Region of the bucket.")
    endpoint: str = Field(
        "", description="Address of another S3 than Amazon's, such as https://minio.example.org."
    )
    requester_pays: bool = Field(
        default=False, description="Whether the owner of the keys pays for what is read."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        _ = self.parts
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key belong together; set both or none")
        if self.endpoint and not re.fullmatch(r"https?://[^/?#@]+", self.endpoint):
            raise ValueError("the endpoint is an address such as https://minio.example.org, without a path")
        return self

    @cached_property
    def parts(self) -> tuple[Scheme, str, int, str]:
        """Scheme, host or bucket, port and path that `at` stands for. Raises ValueError."""
        found = _AT.fullmatch(self.at.strip())
        if found is None:
            raise ValueError(f"{self.at[:80]!r} is no host, no bucket and no folder of one")
        scheme = cast("Scheme", found[1] or "https")
        wild, name, port, path = found.group(2, 3, 4, 5)
        if scheme not in PORTS:
            if wild or port or not _BUCKET.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is no name of a bucket")
            return scheme, name, 0, path or "/"
        host = canonical_host(name)
        if wild and "." not in host:
            raise ValueError(f"*.{host} would be a whole top-level domain; name more of it")
        return scheme, f"*.{host}" if wild else host, int(port or PORTS[scheme]), path or "/"

    def holds(self, scheme: str, host: str, port: int, path: str) -> bool:
        """Whether an address lies in it. A folder without a slash at its end is that folder, not all that begins like it."""
        own, name, own_port, folder = self.parts
        named = host.endswith(name[1:]) if name.startswith("*.") else host == name
        inside = path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")
        return (scheme, port) == (own, own_port) and named and inside


def source_at(text: str) -> Source:
    """What a host, bucket or folder alone stands for. Raises ValueError."""
    return Source.model_validate({"at": text})


class RemoteSettings(_Table):
    """The table `[remote]`. Without hosts and sources nothing is read over the network."""

    hosts: Names = Field(
        (), description="Hosts, buckets and folders that need nothing more to be said of them."
    )
    source: tuple[Source, ...] = Field(
        (), description="Those that need credentials or more; the first that fits counts."
    )
    ca: Place | None = Field(None, description="Further certificate authorities, as PEM.")
    bytes_a_call: Size = Field(2 << 30, ge=1 << 16, description="What one call may read.")
    requests_a_call: int = Field(10_000, ge=1, description="Requests of one call.")
    bytes_a_day: Size = Field(
        100 << 30, ge=1 << 16, description="What one principal may read in a day (UTC)."
    )
    requests_a_day: int = Field(1_000_000, ge=1, description="Requests of one principal in a day.")
    connect_seconds: float = Field(5.0, gt=0, le=60, description="Longest time until a connection stands.")
    silence_seconds: float = Field(10.0, gt=0, le=300, description="Longest time without a byte.")
    answer_seconds: float = Field(60.0, gt=0, le=3600, description="Longest time of one answer.")
    cache: Size = Field(4 << 30, ge=0, description="What is kept on disk of what was read, in all.")

    @model_validator(mode="after")
    def _readable(self) -> Self:
        _ = self.sources
        return self

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Everything that may be read."""
        return (*self.source, *map(source_at, self.hosts))


REMOTE_KEYS: Final = frozenset((*RemoteSettings.model_fields, *Source.model_fields))

# hosts alone, with commas between them, are a whole table: what they stand above is not mixed with them
Remote = Annotated[
    RemoteSettings,
    NoDecode,
    BeforeValidator(lambda value: {"hosts": split_names(value)} if isinstance(value, str) else value),
]
