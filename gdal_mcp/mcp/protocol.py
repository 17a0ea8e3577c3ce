"""The parts of the protocol that do not depend on the tools, in both eras: capabilities, tasks, subscriptions, sealed state."""

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
from gdal_mcp.mcp import panel, tasks
from gdal_mcp.mcp.subscriptions import Subscriptions, serve_subscriptions
from gdal_mcp.mcp.tasks import Context

_log = structlog.get_logger()

LIST_SECONDS: Final = 300  # how long a client may keep what never changes while the server runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What `ProtocolServer` needs besides the SDK's own arguments."""

    call_tool: Callable[[Context, t.CallToolRequestParams], Awaitable[Any]]
    who: Callable[[Context], Principal]  # who sent a request
    subscriptions: Subscriptions
    state_seconds: float  # how long a question can be answered


class ProtocolServer(Server[Any]):
    """A server whose capabilities are the same, and true, in both eras."""

    def __init__(self, name: str, parts: Parts, **named: Any) -> None:
        super().__init__(name, **named)
        self.subscriptions = parts.subscriptions
        self._lists = parts.subscriptions.lists
        self.add_request_handler("server/discover", t.RequestParams, self._discover)
        # not by the SDK's argument: a task is a result that its type does not know
        self.add_request_handler("tools/call", t.CallToolRequestParams, parts.call_tool)
        tasks.serve_tasks(self, parts.who)
        self.extensions[panel.EXTENSION] = {}
        serve_subscriptions(self, parts.subscriptions)
        # a key of this process: it accepts no state but its own
        keys, seconds = [os.urandom(32)], parts.state_seconds
        security = RequestStateSecurity(keys=keys, ttl=seconds, bind_principal=lambda ctx: parts.who(ctx).id)
        self.middleware += [RequestStateBoundary(security, default_audience=name), without_leaks]

    @property
    def server_info(self) -> t.Implementation:
        """Without the icons: it goes into every result of the new protocol, and `server/discover` has them."""
        return super().server_info.model_copy(update={"icons": None})

    def get_capabilities(
        self,
        _notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> t.ServerCapabilities:
        """Names the lists that do change. The SDK would name none of them over HTTP, and all in the new protocol."""
        found = super().get_capabilities(
            None, experimental_capabilities, extensions, protocol_version=protocol_version
        )
        for kind in ("tools", "prompts", "resources"):
            if (one := getattr(found, kind)) is not None:
                one.list_changed = getattr(self._lists, kind)
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
    """How long each result may be cached, and by whom. Principals that share a server may have different tools.

    Resources are private and change with every call, so they are never cached: clients ask again, or subscribe.
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
    """For a list that fits one page: raises MCPError for a cursor, since this server gave none out."""
    if params is not None and params.cursor is not None:
        raise MCPError(t.INVALID_PARAMS, "The cursor is not from this server. Start again without one.")


async def without_leaks(ctx: Context, call_next: CallNext) -> Any:
    """Logs an exception that no handler expected, and replies without its text, which may hold data."""
    try:
        return await call_next(ctx)
    except MCPError:
        raise
    except ValidationError as error:  # of the protocol's parameters; the pipeline checks a tool's arguments
        raise MCPError(t.INVALID_PARAMS, "Invalid params") from error
    except Exception as error:  # the outermost handler of every request
        _log.exception("request_failed", method=ctx.method)
        raise MCPError(t.INTERNAL_ERROR, "Internal error") from error
