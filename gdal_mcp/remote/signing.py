"""The URL and the credentials of a request for an address. This is the only module that reads credentials.

Libraries compute the signatures; none of them uses the network. They belong to the extra `remote` and are loaded on
demand.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from string import punctuation
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address
from gdal_mcp.settings.remote import PORTS, RemoteSource, read_secret

_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_only"
_AZURE_VERSION: Final = "2021-12-02"  # version of the interface of Azure
_TOKEN_SECONDS: Final = 900  # seconds that a token that we sign is valid


@dataclass(frozen=True, slots=True)
class Target:
    """The URL and headers of a request. `repr` leaves out parts that may be secret."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def resource(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


def place(source: RemoteSource, address: Address) -> Target:
    """The target of an address, without credentials."""
    if address.scheme in PORTS:
        rows = (*address.query, *address.secret)
        query = quote("&".join(f"{key}={value}" if value else key for key, value in rows), safe=punctuation)
        return Target(address.scheme, address.host.strip("[]"), address.port, address.path, query)
    # a wildcard certificate does not cover a bucket name with a dot
    in_path = bool(source.endpoint) or address.scheme == "gs" or "." in address.host
    usual = {
        "gs": "https://storage.googleapis.com",
        "az": f"https://{address.host}.blob.core.windows.net",
        "s3": f"https://{'' if in_path else f'{address.host}.'}s3.{source.region}.amazonaws.com",
    }
    url = urlsplit(source.endpoint or usual[address.scheme])
    key = quote(address.path, safe="/-_.~")
    inside = f"/{address.host}{key}" if in_path else key
    return Target(url.scheme, url.hostname or "", url.port or PORTS[url.scheme], inside)


def signed(source: RemoteSource, address: Address, target: Target, headers: Mapping[str, str]) -> Target:
    """The target with the source's credentials, which are added to `headers`. Raises ToolError."""
    own = dict(headers)
    query = [target.query]
    try:
        own |= {name: read_secret(reference) for name, reference in source.headers.items()}
        if source.bearer:
            own["Authorization"] = f"Bearer {read_secret(source.bearer)}"
        if source.service_account:
            own["Authorization"] = f"Bearer {_google_token(source.service_account)}"
        if source.sas:
            query.append(read_secret(source.sas).lstrip("?"))
        if source.account_key:
            query.append(_azure_signature(address, read_secret(source.account_key)))
        if address.scheme == "az":
            own["x-ms-version"] = _AZURE_VERSION
        if source.requester_pays:
            own["x-amz-request-payer"] = "requester"
        bare = Target(*target.origin, target.path, "&".join(filter(None, query)), own)
        return _sigv4(source, address, bare) if source.access_key else bare
    except ImportError as error:
        what = f"credentials of {address.scheme}:// need a library that is not installed."
        advice = "Install the server with its extra: gdal-sandbox-mcp[remote]."
        raise ToolError(Code.REMOTE_ERROR, Stage.RUN, what, advice) from error
    except ValueError as error:
        what = f"the credentials of {address.origin} cannot be used."
        advice = "They are in the file or variable that the settings of the server name, and may have been removed since the start."
        raise ToolError(Code.REMOTE_ERROR, Stage.RUN, what, advice) from error


def _sigv4(source: RemoteSource, address: Address, target: Target) -> Target:
    """An AWS Signature Version 4, for S3 and GCS."""
    from botocore.auth import S3SigV4Auth  # noqa: PLC0415 - an extra
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415
    from botocore.credentials import Credentials  # noqa: PLC0415

    assert source.access_key is not None
    assert source.secret_key is not None
    token = read_secret(source.session_token) if source.session_token else None
    keys = Credentials(read_secret(source.access_key), read_secret(source.secret_key), token)
    port = f":{target.port}" if target.port != PORTS[target.scheme] else ""
    url = f"{target.scheme}://{target.host}{port}{target.resource}"
    request = AWSRequest("GET", url, headers=dict(target.headers))
    request.context["payload_signing_enabled"] = False
    S3SigV4Auth(keys, "s3", "auto" if address.scheme == "gs" else source.region).add_auth(request)
    return Target(*target.origin, target.path, target.query, dict(request.headers.items()))


def _google_token(path: Path) -> str:
    """A token that the service account signs itself, so that no token server is needed."""
    signer, email = _google_signer(path, path.stat().st_mtime_ns)
    jwt: Any = import_module("google.auth.jwt")
    now = int(time.time())
    claims = {"iss": email, "sub": email, "scope": _GOOGLE_SCOPE, "iat": now, "exp": now + _TOKEN_SECONDS}
    return str(jwt.encode(signer, claims).decode())


@cache
def _google_signer(path: Path, _changed: int) -> tuple[Any, str]:
    crypt: Any = import_module("google.auth.crypt")
    signer = crypt.RSASigner.from_service_account_file(str(path))
    return signer, str(json.loads(path.read_text(encoding="utf-8"))["client_email"])


def _azure_signature(address: Address, key: str) -> str:
    """A shared access signature for reading this blob, or for listing a container, for 15 minutes."""
    from azure.storage import blob  # noqa: PLC0415 - an extra

    container, _, name = address.path.lstrip("/").partition("/")
    lasts: Any = {"account_key": key, "expiry": datetime.now(UTC) + timedelta(seconds=_TOKEN_SECONDS)}
    if name:
        may = blob.BlobSasPermissions(read=True)
        return str(blob.generate_blob_sas(address.host, container, name, permission=may, **lasts))
    may_list = blob.ContainerSasPermissions(list=True)
    return str(blob.generate_container_sas(address.host, container, permission=may_list, **lasts))
