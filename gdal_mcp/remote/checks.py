"""Every check between an address and its bytes, in order.

1. The address lies in what the settings list, and in what the policy leaves to the principal: `listed`.
2. Its host is looked up once. Each address found is public or in a network that is listed for it, and the connection goes to
   one of them: there is no second look-up whose answer could differ. TLS still proves the host's name.
3. The request is ours from its first byte: GET, Range, If-Match or If-None-Match, identity, and the credentials of the setting
   that allowed the address. Nothing of the environment is in it: no proxy, no .netrc, no cookie.
4. A redirect is followed by hand, three times at most; where it leads is checked as in 1 and 2, lies in a folder that the
   approver of the call saw, and another host gets no credentials.
5. The answer is 206 with the very range, of the same length and version as before, and not one byte more or less.
6. Bytes and requests are counted for the call and for its principal's day before they are asked for; repeated ones count.
   Connecting, silence and the whole answer have their longest times, and none lasts longer than its call.

Messages name the host and what was wrong. No text of an answer, no address and no credential is in them.
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
_PATIENCE: Final = 5.0  # seconds that a server may ask us to wait before a request is repeated
_AT_ONCE: Final = 64  # requests of the whole server; one principal alone has half of them
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
# not refused by `is_global` of every Python that we run on, though they are for protocols and documents (RFC 6890, 9637),
# or lead to addresses inside: NAT64, 6to4 with its relays, Teredo, site-local
_NOT_OUTSIDE: Final = tuple(
    ipaddress.ip_network(one)
    for one in "192.0.0.0/24 192.88.99.0/24 64:ff9b::/96 64:ff9b:1::/48 2001::/23 2002::/16 3fff::/20 fec0::/10".split()
)
_GLOBAL_V6: Final = ipaddress.ip_network("2000::/3")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """A checked answer. `version` and `data` are those of the file; an unchanged one comes without data."""

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
        context = ssl.create_default_context() if settings.sources else None  # which takes a while
        try:
            if settings.ca is not None and context is not None:
                context.load_verify_locations(settings.ca)
        except OSError as error:  # ssl's own errors among them
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

    # 1. what is listed

    def listed(self, address: Address, principal: str, *, followed: bool = False) -> RemoteSource:
        """The setting that allows an address. Raises ToolError (NETWORK_BLOCKED) that names the setting to add.

        The query of a redirect was chosen by the other server, so sending it reveals nothing new.
        """
        where = (address.scheme, address.host, address.port, address.path)
        source = next((one for one in self.settings.sources if one.holds(*where)), None)
        line = address.origin.removeprefix("https://")
        if source is None:
            raise _blocked(
                f"the server does not read from {line}, or not from that folder",
                f'`--remote {line}`, or `hosts = ["{line}"]` under [remote] of the settings file',
            )
        given = self._hosts_of(principal)
        if given is not None and not any(source_at(text).holds(*where) for text in given):
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
        """`size` bytes of a file, fewer only at its end. Raises ReadFailed."""
        headers = {"Range": f"bytes={start}-{start + size - 1}"}
        if known.validator == "etag":
            headers["If-Match"] = known.etag
        request = _Request(lambda answer: _check_range(answer, start, size, None), size, headers)
        checked = self._send(address, meter, request)
        if not checked.version.same(known):
            raise ReadFailed(f"{address.host}: the file changed while it was read")
        return checked

    def look(self, address: Address, meter: Meter, size: int, held: Version | None) -> CheckedAnswer:
        """The beginning of a file, or that the cached version is current. Raises ReadFailed."""
        headers = {"Range": f"bytes=0-{size - 1}"}
        if held is not None:
            headers["If-None-Match"] = held.etag
        return self._send(
            address, meter, _Request(lambda answer: _check_range(answer, 0, size, held), size, headers)
        )

    def document(self, address: Address, meter: Meter, most: int, body: bytes | None = None) -> bytes:
        """A document of at most `most` bytes; with a JSON body, the answer to a POST of it. Raises ReadFailed."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        return self._send(address, meter, _Request(_whole, most, headers, body)).data

    def listing(self, address: Address, meter: Meter, most: int, query: str) -> bytes:
        """A page of the keys below a folder of a bucket, as XML of at most `most` bytes. Raises ReadFailed."""
        return self._send(address, meter, _Request(_whole, most, listing=query)).data

    def _send(self, address: Address, meter: Meter, request: "_Request") -> CheckedAnswer:
        """One checked answer, after redirects and retries. Raises ReadFailed, also for a ToolError of a check."""
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
                found = self.listed(now, meter.call.principal, followed=True)
                _require_approved(now, at, meter)
                at = place(found, now)
                # another host gets no credentials, and none are used again once another host has redirected the request
                signs = signs and found is source and at.origin == home
                if request.body is not None:
                    raise ReadFailed(f"{address.host} redirects a request for a list, which is not followed")
        except ToolError as error:
            raise ReadFailed(f"{error.message} {error.suggestion}".rstrip(".")) from error
        raise ReadFailed(f"{address.host} redirects more than {_MAX_REDIRECTS} times")

    def _with_retries(
        self, target: Target, meter: Meter, request: "_Request", now: Address
    ) -> "CheckedAnswer | str":
        """The answer, or the redirect target; retried if the server was busy or the connection was lost."""
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
        kept = DEADLINE.set(Deadline(meter.call, time.monotonic() + longest))
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
            DEADLINE.reset(kept)


# 2. where a connection goes


def resolved(host: str, port: int, sources: Iterable[RemoteSource]) -> list[str]:
    """The addresses of a host, looked up once; all of them may be connected to. Raises ReadFailed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ReadFailed(f"{host} cannot be resolved") from error
    addresses = [str(row[4][0]) for row in found]
    networks = [one for source in sources if _stands_for(source, host, port) for one in source.networks]
    if not addresses or not all(is_allowed(text, networks) for text in addresses):
        raise ReadFailed(
            f"{host} has an address that is not public; the person who runs the server can allow it with `networks` in its [[remote.source]]"
        )
    return addresses


def is_allowed(text: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    """True if a connection may go to an address: a public one, or one in the networks."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    if any(address in network for network in networks):
        return True
    outside = address.is_global and not address.is_multicast and not address.is_reserved
    known = isinstance(address, ipaddress.IPv4Address) or address in _GLOBAL_V6
    return outside and known and not any(address in network for network in _NOT_OUTSIDE)


def _stands_for(source: RemoteSource, host: str, port: int) -> bool:
    scheme, own, own_port, _ = source.parts
    if scheme not in PORTS:
        found = urlsplit(source.endpoint)
        return bool(source.endpoint) and (found.hostname, found.port or PORTS[found.scheme]) == (host, port)
    return own_port == port and (host == own.strip("[]") or (own.startswith("*.") and host.endswith(own[1:])))


# 4. where a redirect leads


def _redirect_target(location: str, at: Target) -> Address:
    """Raises ReadFailed for a location that is not a valid address."""
    try:
        found = parse(urljoin(f"{at.scheme}://{at.host}:{at.port}{at.path}", location).partition("#")[0])
    except ValueError as error:
        raise ReadFailed(f"{at.host} redirects to an invalid address") from error
    return replace(found.hidden, sidecars=())


def _require_approved(address: Address, at: Target, meter: Meter) -> None:
    """Raises ReadFailed if a person approved the call without this location."""
    within = meter.within
    if within is not None and not f"{address.origin}{address.path}".startswith(within):
        raise ReadFailed(
            f"{at.host} redirects to {address.origin}, which was not approved; an approver can allow it: "
            f"`gdal-mcp grants new` with `--reads {address.origin}/` in addition to what it already reads"
        )


# 5. what an answer must be


class _Retry(Exception):
    """The request may succeed if it is repeated. `after` is the delay that the server asked for, in seconds."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to an address, and how its answer is checked: the number of bytes, their version, and whether the body is empty."""

    judge: "Callable[[_Answer], tuple[int | None, Version, bool]]"
    most: int  # bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    listing: str = ""  # the query of a list of keys


@dataclass(frozen=True, slots=True)
class _Answer:
    host: str
    status: int
    headers: Sequence[tuple[bytes, bytes]]

    def one(self, name: str) -> str:
        """A header; empty if it is missing. Raises ReadFailed if it is repeated, too long or not ASCII."""
        found = [value.decode("latin-1") for key, value in self.headers if key.lower() == name.encode()]
        if len(found) > 1 or any(not re.fullmatch("[ -~]{0,4096}", value) for value in found):
            raise ReadFailed(f"{self.host} sends an invalid header")
        return found[0].strip() if found else ""

    def require_no_failure(self) -> None:
        """Raises Missing, _Retry, ReadFailed."""
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
    """The number of bytes, their version, and whether the body is empty because the known version is current. Raises ReadFailed."""
    if answer.status == 304 and known is not None:
        return 0, known, True
    is_empty = answer.status == 416 and answer.one("content-range") == "bytes */0"
    if start == 0 and (is_empty or (answer.status == 200 and answer.one("content-length") == "0")):
        return 0, answer.version(0), False
    if answer.status != 206:
        raise ReadFailed(f"{answer.host} does not support range requests")
    found = _CONTENT_RANGE.fullmatch(answer.one("content-range"))
    if found is None:
        raise ReadFailed(f"{answer.host} does not state the range of its answer")
    first, last, total = (int(text) for text in found.groups())
    if first != start or last != min(start + size, total) - 1 or last < first:
        raise ReadFailed(f"{answer.host} answers a different range than was requested")
    return last - first + 1, answer.version(total), False


def _whole(answer: _Answer) -> tuple[None, Version, bool]:
    if answer.status != 200:
        raise ReadFailed(f"{answer.host}: HTTP {answer.status}")
    return None, answer.version(0), False


def _body(parts: Iterable[bytes], size: int | None, most: int, answer: _Answer, came: list[int]) -> bytes:
    """Exactly that many bytes or, if the length is unknown, up to `most`. Raises ReadFailed, _Retry."""
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
