"""The way of addresses into a call: parsed and allowed before anything is asked, then opened for one call."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.remote.address import Address, NotAnAddress, parse
from gdal_mcp.remote.record import SourceRead
from gdal_mcp.settings.remote import RemoteSettings, Source, source_at
from sandbox.questions import Answerer


class Reading(Answerer, Protocol):
    """What one call reads: answers the questions of its container, and keeps what was read."""

    names: tuple[str, ...]  # as the container sees the addresses, in their order: /vsihost/1/x.tif
    expected_bytes: int  # of all files together, where their sizes are known
    failure: str | None  # the first read that failed; the call has failed with it, whatever GDAL says

    def record(self) -> tuple[SourceRead, ...]: ...


class Door:
    """What one server may read over the network. For several threads."""

    def __init__(
        self,
        settings: RemoteSettings,
        hosts_of: Callable[[str], Sequence[str] | None] = lambda _principal: None,
    ) -> None:
        """`hosts_of` narrows the settings for a principal; None leaves them as they are."""
        self._settings = settings
        self._hosts_of = hosts_of

    def address(self, text: str, principal: str) -> Address:
        """The address that a text is, if this principal may read it. Asks nothing of the network. Raises ToolError."""
        try:
            address = parse(text)
        except NotAnAddress as error:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.VALIDATE,
                f"an address cannot be used: {error}.",
                "Write it as https://host/file.",
            ) from error
        self.listed(address, principal)
        return address

    def listed(self, address: Address, principal: str) -> Source:
        """The setting that allows an address. Raises ToolError (NETWORK_BLOCKED) with the line that would."""
        where = (address.scheme, address.host, address.port, address.path)
        source = next((one for one in self._settings.sources if one.holds(*where)), None)
        line = address.origin.removeprefix("https://")
        if source is None:
            raise _blocked(
                f"the server does not read from {address.origin}.",
                f'Who runs the server can allow it: `--remote {line}`, or `hosts = ["{line}"]` under [remote] of the settings file.',
            )
        given = self._hosts_of(principal)
        if given is not None and not any(source_at(text).holds(*where) for text in given):
            raise _blocked(
                f"the server's policy does not let you read from {address.origin}.",
                f'Who runs the server can allow it: `remote = ["{line}"]` in your [[principal]] entry of the policy file.',
            )
        unknown = [key for key, _ in address.query if key not in source.query]
        if unknown:
            raise _blocked(
                f"addresses of {address.origin} may not have the parameter {unknown[0][:40]!r}.",
                f'Who runs the server can allow it: `query = ["{unknown[0][:40]}"]` in its [[remote.source]].',
            )
        return source


def _blocked(message: str, suggestion: str) -> ToolError:
    return ToolError(Code.NETWORK_BLOCKED, Stage.VALIDATE, message, suggestion)
