"""What a server has of the protocol whatever its tools are, in both eras: capabilities, tasks, subscriptions, sealed state."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as t
import structlog
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gdal_mcp.access.identity import Principal
from gdal_mcp.mcp import tasks
from gdal_mcp.mcp.subscriptions import Subscriptions, serve_subscriptions
from gdal_mcp.mcp.tasks import Context

_log = structlog.get_logger()

LIST_SECONDS: Final = 300  # how long a client may keep what never changes while the server runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a server is completed with."""

    call_tool: Callable[[Context, t.CallToolRequestParams], Awaitable[Any]]
    who: Callable[[Context], Principal]  # sent a request
    subscriptions: Subscriptions
    state_seconds: float  # how long a question may be answered


class ProtocolServer(Server[Any]):
    """A server whose capabilities are the same, and true, in both eras."""

    def __init__(self, name: str, parts: Parts, **named: Any) -> None:
        super().__init__(name, **named)
        self.subscriptions = parts.subscriptions
        self._lists = parts.subscriptions.lists
        self.add_request_handler("server/discover", t.RequestParams, self._discover)
        # no argument of the SDK's: a task is a result that its type does not know
        self.add_request_handler("tools/call", t.CallToolRequestParams, parts.call_tool)
        tasks.serve_tasks(self, parts.who)
        serve_subscriptions(self, parts.subscriptions)
        # a key of this process's: a state that it did not make is worth nothing to it
        keys, seconds = [os.urandom(32)], parts.state_seconds
        security = RequestStateSecurity(keys=keys, ttl=seconds, bind_principal=lambda ctx: parts.who(ctx).id)
        self.middleware += [RequestStateBoundary(security, default_audience=name), without_leaks]

    @property
    def server_info(self) -> t.Implementation:
        """As it goes into every result of the new protocol: without the icons, which are in its first answer."""
        return super().server_info.model_copy(update={"icons": None})

    def get_capabilities(
        self,
        _notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> t.ServerCapabilities:
        """With the lists that do change. The SDK would name none of them over HTTP, and all in the new protocol."""
        found = super().get_capabilities(
            None, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        if found.tools is not None:
            found.tools.list_changed = self._lists.tools
        if found.prompts is not None:
            found.prompts.list_changed = self._lists.prompts
        if found.resources is not None:
            found.resources.list_changed = self._lists.resources
        return found

    async def _discover(self, ctx: Context, _params: t.RequestParams) -> t.DiscoverResult:
        told = super().server_info.model_dump(by_alias=True, mode="json", exclude_none=True)
        return t.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=self.get_capabilities(protocol_version=ctx.protocol_version),
            instructions=self.instructions,
            _meta={SERVER_INFO_META_KEY: told},
        )


def cache_hints(*, shared: bool) -> dict[CacheableMethod, CacheHint]:
    """For every result that may be kept. Principals that share a server may each have tools of their own.

    Resources are everybody's own, and change with every call: they are asked for anew, or subscribed to.
    """
    lasting = LIST_SECONDS * 1000
    everybodys, own = CacheHint(lasting, "public"), CacheHint(0, "private")
    return {
        "server/discover": everybodys,
        "tools/list": CacheHint(lasting, "private") if shared else everybodys,
        "prompts/list": everybodys,
        "resources/templates/list": everybodys,
        "resources/list": own,
        "resources/read": own,
    }


def whole(params: t.PaginatedRequestParams | None) -> None:
    """For a list of one page. Raises MCPError for a cursor, since this server gave none out."""
    if params is not None and params.cursor is not None:
        raise MCPError(
            t.INVALID_PARAMS, "The cursor is not one that this server gave. Start again without one."
        )


async def without_leaks(ctx: Context, call_next: CallNext) -> Any:
    """An exception that no handler expected is logged here and told to nobody: its text may hold data."""
    try:
        return await call_next(ctx)
    except MCPError:
        raise
    except (
        ValidationError
    ) as error:  # of the protocol's own parameters; a tool's arguments are the pipeline's business
        raise MCPError(t.INVALID_PARAMS, "Invalid params") from error
    except Exception as error:  # the outermost handler of every request
        _log.exception("request_failed", method=ctx.method)
        raise MCPError(t.INTERNAL_ERROR, "Internal error") from error
