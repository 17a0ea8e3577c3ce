"""All checks between an address and its bytes, in order.

1. The address is in the settings, and the policy allows it for the principal: `listed`.
2. Its host is looked up once. Every resolved IP address must be public or in a network that the settings allow for
the host. The connection goes to one of these addresses, so there is no second lookup with another result. TLS still
proves the host's name.
3. We build the complete request: GET, Range, If-Match or If-None-Match, identity encoding, and the credentials of the
setting that allows the address. The environment adds nothing: no proxy, no .netrc, no cookies.
4. At most three redirects are followed, by our own code. The target passes checks 1 and 2 and must be in a folder
that the approver saw. Another host gets no credentials.
5. The response must be 206 with exactly the requested range, with the same file length and version as before, and
with exactly the stated number of bytes.
6. Bytes and requests are counted for the call and for its principal's day before a request is sent. Retries count,
too.

Connecting, silence and the whole response have time limits, and no request lasts longer than its call. Messages name
the host and the problem. They never contain text of a response, an address or a credential.
"""

import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urljoin, urlsplit

import httpcore2

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address, parse
from gdal_mcp.remote.budgets import Meter, Missing, ReadFailed, Shares
from gdal_mcp.remote.network import DEADLINE, CheckedNetwork, Deadline
from gdal_mcp.remote.record import Version
from gdal_mcp.remote.signing import Target, place, signed
from gdal_mcp.settings import SettingsError
from gdal_mcp.settings.remote import PORTS, RemoteSettings, RemoteSource, source_at

_MAX_REDIRECTS: Final = 3
_RETRIES: Final = 2
_BUSY: Final = (429, 502, 503, 504)
_PATIENCE: Final = 5.0  # seconds; the longest Retry-After of a server that we wait for
_AT_ONCE: Final = 64  # concurrent requests of the whole server; one principal can use at most half
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
# networks that `is_global` does not refuse in every supported Python: reserved for protocols and documentation (RFC
# 6890, 9637), or leading to internal addresses (NAT64, 6to4 with its relays, Teredo, site-local)
_NOT_OUTSIDE: Final = tuple(
    ipaddress.ip_network(network)
    for network in "192.0.0.0/24 192.88.99.0/24 64:ff9b::/96 64:ff9b:1::/48 2001::/23 2002::/16 3fff::/20 fec0::/10".split()
)
_GLOBAL_V6: Final = ipaddress.ip_network("2000::/3")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """A response that passed all checks. `version` is the file's; `data` is empty if the file is `unchanged`."""

    data: bytes
    version: Version
    final: Address
    unchanged: bool = False


class Checks:
    """Sends the checked requests of one server. Thread-safe."""

    def __init__(self, settings: RemoteSettings, hosts_of: Callable[[str], Sequence[str] | None]) -> None:
        """`hosts_of` restricts the settings for a principal; None leaves them unchanged. Raises SettingsError."""
        self.settings = settings
        self._hosts_of = hosts_of
        context = ssl.create_default_context() if settings.sources else None  # slow, so only if it is needed
        try:
            if settings.ca is not None and context is not None:
                context.load_verify_locations(settings.ca)
        except OSError as error:  # includes the errors of ssl
            raise SettingsError(f"remote.ca: {settings.ca} cannot be read as certificates in PEM.") from error
        self._shares = Shares(_AT_ONCE)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=context,
            max_connections=_AT_ONCE,
            keepalive_expiry=30.0,
            network_backend=CheckedNetwork(lambda host, port: resolved(host, port, settings.sources)),
        )

    def close(self) -> None:
        self._pool.close()

    # 1. allowed addresses

    def listed(self, address: Address, principal: str, *, followed: bool = False) -> RemoteSource:
        """The setting that allows an address. Raises ToolError (NETWORK_BLOCKED), which names the setting to add.

        The query of a redirect was chosen by the other server, so sending it reveals nothing new.
        """
        where = (address.scheme, address.host, address.port, address.path)
        source = next((source for source in self.settings.sources if source.holds(*where)), None)
        line = address.origin.removeprefix("https://")
        if source is None:
            raise _blocked(
                f"the server does not read from {line}, or not from that folder",
                f'`--remote {line}`, or `hosts = ["{line}"]` under [remote] of the settings file',
            )
        hosts = self._hosts_of(principal)
        if hosts is not None and not any(source_at(text).holds(*where) for text in hosts):
            raise _blocked(
                f"the policy does not let you read from {line}",
                f'`remote = ["{line}"]` in your [[principal]] entry of the policy file',
            )
        unknown = [key for key, _ in address.query if key not in source.query]
        if unknown and not followed:
            raise _blocked(
                f"addresses of {line} may not use the parameter {unknown[0][:40]!r}",
                f'`query = ["{unknown[0][:40]}"]` in its [[remote.source]]',
            )
        return source

    # 3. to 6. one request

    def range(self, address: Address, meter: Meter, start: int, size: int, known: Version) -> CheckedAnswer:
        """Reads `size` bytes of a file, or fewer at its end. Raises ReadFailed."""
        headers = {"Range": f"bytes={start}-{start + size - 1}"}
        if known.validator == "etag":
            headers["If-Match"] = known.etag
        request = _Request(lambda answer: _check_range(answer, start, size, None), size, headers)
        checked = self._send(address, meter, request)
        if not checked.version.same(known):
            raise ReadFailed(f"{address.host}: the file changed while it was read")
        return checked

    def look(self, address: Address, meter: Meter, size: int, cached: Version | None) -> CheckedAnswer:
        """Reads the beginning of a file, or confirms that the cached version is current. Raises ReadFailed."""
        headers = {"Range": f"bytes=0-{size - 1}"}
        if cached is not None:
            headers["If-None-Match"] = cached.etag
        return self._send(
            address, meter, _Request(lambda answer: _check_range(answer, 0, size, cached), size, headers)
        )

    def document(self, address: Address, meter: Meter, most: int, body: bytes | None = None) -> bytes:
        """Reads a document of at most `most` bytes. With a JSON body, sends it as a POST. Raises ReadFailed."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return self._send(address, meter, _Request(_check_complete, most, headers, body)).data

    def listing(self, address: Address, meter: Meter, most: int, query: str) -> bytes:
        """Reads a page of the keys below a folder of a bucket, as XML of at most `most` bytes. Raises ReadFailed."""
        return self._send(address, meter, _Request(_check_complete, most, listing=query)).data

    def _send(self, address: Address, meter: Meter, request: "_Request") -> CheckedAnswer:
        """Sends a request with redirects and retries. Raises ReadFailed, also if a check raises ToolError."""
        try:
            source = self.listed(address, meter.call.principal)
            now = address.bucket if request.listing else address
            at = replace(place(source, now), query=request.listing) if request.listing else place(source, now)
            home, signs = at.origin, True
            own = {**request.headers, "User-Agent": "gdal-sandbox-mcp", "Accept-Encoding": "identity"}
            for _ in range(_MAX_REDIRECTS + 1):
                target = signed(source, now, at, own) if signs else replace(at, headers=own)
                answer = self._with_retries(target, meter, request, now)
                if isinstance(answer, CheckedAnswer):
                    return answer
                now = _redirect_target(answer, at)
                next_source = self.listed(now, meter.call.principal, followed=True)
                _require_approved(now, at, meter)
                at = place(next_source, now)
                # another host gets no credentials, and after a redirect by another host none are sent at all
                signs = signs and next_source is source and at.origin == home
                if request.body is not None:
                    raise ReadFailed(f"{address.host} redirects a request for a list, which is not followed")
        except ToolError as error:
            raise ReadFailed(f"{error.message} {error.suggestion}".rstrip(".")) from error
        raise ReadFailed(f"{address.host} redirects more than {_MAX_REDIRECTS} times")

    def _with_retries(
        self, target: Target, meter: Meter, request: "_Request", now: Address
    ) -> "CheckedAnswer | str":
        """The response or the redirect target. Retries if the server was busy or the connection was lost."""
        for attempt in range(_RETRIES + 1):
            try:
                return self._once(target, meter, request, now)
            except _Retry as retry:
                wait = min(retry.after or 0.2 * 2**attempt, _PATIENCE)
                if attempt == _RETRIES or wait >= meter.call.left():
                    raise ReadFailed(f"{target.host}: {retry}") from retry
                if meter.call.ended.wait(wait):
                    raise ReadFailed("the call ended") from retry
        raise AssertionError("the last attempt returns or raises")

    def _once(self, target: Target, meter: Meter, request: "_Request", now: Address) -> "CheckedAnswer | str":
        settings = self.settings
        longest = min(settings.answer_seconds, meter.call.left())
        timeout = {
            "connect": min(settings.connect_seconds, longest),
            "read": settings.silence_seconds,
            "write": settings.silence_seconds,
            "pool": longest,
        }
        url = httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.resource)
        sent = self._pool.stream(
            "GET" if request.body is None else "POST",
            url,
            headers=list(target.headers.items()),
            content=request.body,
            extensions={"timeout": timeout},
        )
        token = DEADLINE.set(Deadline(meter.call, time.monotonic() + longest))
        try:
            with (
                self._shares.one(meter.call),
                meter.call.request(request.most, meter, now.origin) as came,
                sent as response,
            ):
                answer = _Answer(target.host, response.status, response.headers)
                if answer.status in (301, 302, 303, 307, 308):
                    return answer.one("location")
                answer.require_no_failure()
                size, version, unchanged = request.judge(answer)
                data = b"" if unchanged else _body(response.iter_stream(), size, request.most, answer, came)
                return CheckedAnswer(data, version, now, unchanged)
        except httpcore2.TimeoutException as error:
            meter.call.left()
            raise ReadFailed(f"{target.host} did not answer in time") from error
        except (httpcore2.NetworkError, httpcore2.RemoteProtocolError) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise ReadFailed(f"the certificate of {target.host} is not trusted") from error
            raise _Retry("the connection was refused or lost") from error
        except (httpcore2.ProtocolError, ValueError) as error:
            raise ReadFailed(f"{target.host} sent an invalid HTTP response") from error
        finally:
            DEADLINE.reset(token)


# 2. allowed connections


def resolved(host: str, port: int, sources: Iterable[RemoteSource]) -> list[str]:
    """The IP addresses of a host, looked up once. Raises ReadFailed unless connections to all of them are allowed."""
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ReadFailed(f"{host} cannot be resolved") from error
    addresses = [str(row[4][0]) for row in rows]
    networks = [network for source in sources if _covers(source, host, port) for network in source.networks]
    if not addresses or not all(is_allowed(text, networks) for text in addresses):
        raise ReadFailed(
            f"{host} has an address that is not public; the person who runs the server can allow it with `networks` in its [[remote.source]]"
        )
    return addresses


def is_allowed(text: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    """True if an IP address is public or in one of the networks."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    if any(address in network for network in networks):
        return True
    outside = address.is_global and not address.is_multicast and not address.is_reserved
    known = isinstance(address, ipaddress.IPv4Address) or address in _GLOBAL_V6
    return outside and known and not any(address in network for network in _NOT_OUTSIDE)


def _covers(source: RemoteSource, host: str, port: int) -> bool:
    scheme, own, own_port, _ = source.parts
    if scheme not in PORTS:
        url = urlsplit(source.endpoint)
        return bool(source.endpoint) and (url.hostname, url.port or PORTS[url.scheme]) == (host, port)
    return own_port == port and (host == own.strip("[]") or (own.startswith("*.") and host.endswith(own[1:])))


# 4. allowed redirects


def _redirect_target(location: str, at: Target) -> Address:
    """The address that a redirect leads to. Raises ReadFailed if it is not valid."""
    try:
        address = parse(urljoin(f"{at.scheme}://{at.host}:{at.port}{at.path}", location).partition("#")[0])
    except ValueError as error:
        raise ReadFailed(f"{at.host} redirects to an invalid address") from error
    return replace(address.hidden, sidecars=())


def _require_approved(address: Address, at: Target, meter: Meter) -> None:
    """Raises ReadFailed if the call was approved by a person and this address was not part of the approval."""
    within = meter.within
    if within is not None and not f"{address.origin}{address.path}".startswith(within):
        raise ReadFailed(
            f"{at.host} redirects to {address.origin}, which was not approved; an approver can allow it: "
            f"`gdal-mcp grants new` with `--reads {address.origin}/` in addition to what it already reads"
        )


# 5. valid responses


class _Retry(Exception):
    """The request may succeed if it is repeated. `after` is the delay in seconds that the server asked for."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to an address.

    `judge` checks the response and returns the number of bytes, the file's version, and True if the body is empty
    because the known version is current.
    """

    judge: "Callable[[_Answer], tuple[int | None, Version, bool]]"
    most: int  # bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    listing: str = ""  # query string of a request for a list of keys


@dataclass(frozen=True, slots=True)
class _Answer:
    host: str
    status: int
    headers: Sequence[tuple[bytes, bytes]]

    def one(self, name: str) -> str:
        """The value of a header; "" if it is missing. Raises ReadFailed if it is repeated, too long or not ASCII."""
        values = [value.decode("latin-1") for key, value in self.headers if key.lower() == name.encode()]
        if len(values) > 1 or any(not re.fullmatch("[ -~]{0,4096}", value) for value in values):
            raise ReadFailed(f"{self.host} sends an invalid header")
        return values[0].strip() if values else ""

    def require_no_failure(self) -> None:
        """Checks the status and the encoding. Raises Missing, _Retry, ReadFailed."""
        if self.status in (404, 410):
            raise Missing(f"{self.host}: there is no such file")
        if self.status == 412:
            raise ReadFailed(f"{self.host}: the file changed while it was read")
        if self.status in _BUSY:
            after = self.one("retry-after")
            raise _Retry(f"HTTP {self.status}", float(after) if after.isdecimal() and len(after) < 6 else 0.0)
        if self.status in (401, 403):
            raise ReadFailed(f"{self.host}: HTTP {self.status}; set its credentials in [[remote.source]]")
        if self.status not in (200, 206, 304, 416):
            raise ReadFailed(f"{self.host}: HTTP {self.status}")
        if self.one("content-encoding") not in ("", "identity"):
            raise ReadFailed(f"{self.host} uses a content encoding that was not requested")

    def version(self, length: int) -> Version:
        return Version(length, self.one("etag"), self.one("last-modified"))


def _check_range(answer: _Answer, start: int, size: int, known: Version | None) -> tuple[int, Version, bool]:
    """Checks the response to a range request. Raises ReadFailed.

    Returns the number of bytes, the file's version, and True if the body is empty because the known version is
    current.
    """
    if answer.status == 304 and known is not None:
        return 0, known, True
    is_empty = answer.status == 416 and answer.one("content-range") == "bytes */0"
    if start == 0 and (is_empty or (answer.status == 200 and answer.one("content-length") == "0")):
        return 0, answer.version(0), False
    if answer.status != 206:
        raise ReadFailed(f"{answer.host} does not support range requests")
    match = _CONTENT_RANGE.fullmatch(answer.one("content-range"))
    if match is None:
        raise ReadFailed(f"{answer.host} does not state the range of its answer")
    first, last, total = (int(text) for text in match.groups())
    if first != start or last != min(start + size, total) - 1 or last < first:
        raise ReadFailed(f"{answer.host} answers a different range than was requested")
    return last - first + 1, answer.version(total), False


def _check_complete(answer: _Answer) -> tuple[None, Version, bool]:
    if answer.status != 200:
        raise ReadFailed(f"{answer.host}: HTTP {answer.status}")
    return None, answer.version(0), False


def _body(parts: Iterable[bytes], size: int | None, most: int, answer: _Answer, came: list[int]) -> bytes:
    """Reads exactly `size` bytes or, if `size` is None, up to `most`. Raises ReadFailed, _Retry."""
    data = bytearray()
    most = most if size is None else size
    for part in parts:
        data += part
        came[0] = min(len(data), most)
        if len(data) > most:
            raise ReadFailed(f"{answer.host} sends more bytes than requested")
    if size is not None and len(data) != size:
        raise _Retry("the answer was shorter than announced")
    return bytes(data)


def _blocked(why: str, line: str) -> ToolError:
    advice = f"The person who runs the server can allow it: {line}."
    return ToolError(Code.NETWORK_BLOCKED, Stage.VALIDATE, f"{why}.", advice)
