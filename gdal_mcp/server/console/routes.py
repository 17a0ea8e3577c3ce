"""The routes of a console, and its construction: for holders of tokens, and for the user who runs the server."""

import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict, dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Final

import anyio
import structlog
from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router

from gdal_mcp import __version__
from gdal_mcp.errors import ToolError
from gdal_mcp.policy.identity import Principal
from gdal_mcp.policy.tokens import TokensUnavailable
from gdal_mcp.records import figures
from gdal_mcp.records.artifacts import ArtifactStore
from gdal_mcp.records.audit_files import AuditUnavailable
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.records.registry import Artifact
from gdal_mcp.records.schema import RegistryUnavailable
from gdal_mcp.server.app import App, local_user
from gdal_mcp.server.console import runtime_file
from gdal_mcp.server.console.auth import ConsoleAuth, Refused, Verify
from gdal_mcp.server.console.browse import Browse
from gdal_mcp.server.console.downloads import Links, download
from gdal_mcp.server.console.identify import Identify
from gdal_mcp.server.console.live import Live, Stream
from gdal_mcp.server.console.page import Assets, GuardedRoute
from gdal_mcp.server.console.pictures import Pictures
from gdal_mcp.server.console.runtime_file import Advertisement
from gdal_mcp.server.console.service import GRANT_MINUTES, ConsoleService
from gdal_mcp.server.console.sessions import SECONDS, LoginTokens, Viewer
from gdal_mcp.server.console.workflows import Workflows, picture_operation
from gdal_mcp.server.http import address
from gdal_mcp.server.http.auth import Unavailable, peer_address
from gdal_mcp.settings import Settings
from sandbox.errors import SandboxError
from sandbox.workspace import Workspaces

PATH: Final = "/console"
_DAY: Final = 86_400.0  # seconds
_NOT_LET_IN: Final = (401, 403)
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Console:
    """One console. `secure` is True if browsers reach it only over HTTPS."""

    service: ConsoleService
    auth: ConsoleAuth
    live: Live
    pictures: Pictures
    workflows: Workflows
    identify: Identify
    browse: Browse
    secure: bool = False
    links: Links = field(default_factory=Links)
    # for work that takes long: one at a time
    _one: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    def routes(self) -> list[BaseRoute]:
        service, workflows = self.service, self.workflows
        api = [
            self._route("POST", "/decide/{id}", service.decide, "approved"),
            self._route("POST", "/allow/{id}", service.allow, "minutes"),
            self._route("POST", "/cancel/{id}", service.cancel),
            self._route("POST", "/undo/{id}", self._undo),
            self._route("POST", "/revoke/{id}", service.revoke),
            self._route("POST", "/link/{number:int}", self._link),
            self._route("POST", "/audit/verify", self._for_admin(_verified)),
            self._route("POST", "/doctor", self._for_admin(_examined)),
            self._route("GET", "/me", self._me),
            self._route("GET", "/questions/{id}", service.question),
            self._route("GET", "/calls", service.history, "q", "outcome", "cursor", "checks"),
            self._route("GET", "/calls/{id}", service.call),
            self._route("GET", "/outputs", service.outputs, "cursor"),
            self._route("GET", "/pictures/{number:int}", self._drawn(service.artifact)),
            self._route("GET", "/legends/{number:int}", self._legend),
            self._route("POST", "/values/{number:int}", self._values, "position"),
            self._route("GET", "/questions/{id}/picture/{number:int}", self._drawn(service.replaced)),
            self._route("GET", "/files", self.browse.rows, "path", "cursor"),
            self._route("GET", "/files/picture", self._file_picture, "path"),
            self._route("POST", "/folder", self._folder, "path"),
            self._route("GET", "/workflows/{id}", workflows.show),
            self._route("GET", "/workflows/{id}/picture/{step}", self._step_picture),
            self._route("POST", "/workflows/{id}/retry", workflows.retry, "step"),
            self._route("GET", "/grants", service.grants),
            self._route("GET", "/figures", self._for_admin(_figures)),
            self._route("GET", "/audit", self._for_admin(_checkpoint)),
            Route("/live", self._answered(self._live), methods=["GET"]),
            Route("/login", self._answered(self._login), methods=["POST"]),
            Route("/logout", self._answered(self._logout), methods=["POST"]),
        ]
        inside = Router(
            [
                Mount("/api", routes=api),
                Route("/files/{link}", self._answered(self._file), methods=["GET"]),
                Mount("/", Assets(packages=[("gdal_mcp.server.console", "static")], html=True)),
            ]
        )
        return [
            Route(PATH, RedirectResponse(f"{PATH}/", 308), methods=["GET"]),
            Mount(PATH, GuardedRoute(inside)),
        ]

    def _route(self, method: str, path: str, work: Callable[..., Any], *fields: str) -> Route:
        """A route that answers with the result of `work`.

        `work` gets the viewer, the parameters in the path, and these fields of the query, or of the body of a POST.
        """

        async def answer(request: Request) -> Any:
            viewer = await self.auth.viewer(request)
            parameters = await self.auth.body(request) if method == "POST" else request.query_params
            values = (viewer, *request.path_params.values(), *map(parameters.get, fields))
            return await (work(*values) if iscoroutinefunction(work) else run_sync(work, *values))

        return Route(path, self._answered(answer), methods=[method])

    def _answered(
        self, handler: Callable[[Request], Awaitable[Any]]
    ) -> Callable[[Request], Awaitable[Response | Stream]]:
        async def answer(request: Request) -> Response | Stream:
            try:
                result = await handler(request)
            except Refused as refused:
                if refused.status in _NOT_LET_IN:
                    _log.info("console_refused", peer=peer_address(request.scope), status=refused.status)
                return JSONResponse({"error": refused.reason}, refused.status)
            except ToolError as error:
                return JSONResponse({"error": f"{error.message} {error.suggestion}"}, 409)
            except SandboxError as error:
                return JSONResponse({"error": str(error)}, 409)
            except (AuditUnavailable, RegistryUnavailable, TokensUnavailable, Unavailable) as error:
                _log.warning("console_failed", reason=str(error))
                return JSONResponse({"error": "The server cannot do that now. See its log."}, 503)
            return result if isinstance(result, Response | Stream) else JSONResponse(result)

        return answer

    async def _login(self, request: Request) -> Response:
        session = await self.auth.enter(request)
        _log.info("console_login", peer=peer_address(request.scope), principal=session.principal.id)
        reply = JSONResponse({"key": session.key, "principal": session.principal.id})
        reply.set_cookie(
            self.auth.cookie,
            session.id,
            max_age=int(SECONDS),
            path=PATH,
            secure=self.secure,
            httponly=True,
            samesite="strict",
        )
        return reply

    async def _logout(self, request: Request) -> Response:
        await self.auth.viewer(request)
        self.auth.leave(request)
        reply = JSONResponse({})
        reply.delete_cookie(self.auth.cookie, path=PATH)
        return reply

    async def _me(self, viewer: Viewer) -> Any:
        try:
            workspaces = self._workspaces(viewer).items
        except ToolError:  # a principal who only approves may have no workspace
            workspaces = ()
        return {
            "principal": viewer.name,
            "decides": viewer.decides,
            "admin": viewer.is_admin,
            "version": __version__,
            "minutes": GRANT_MINUTES,
            "workspaces": [str(workspace.root) for workspace in workspaces],
            "outcomes": sorted(figures.OUTCOMES),
            **self._setup(),
        }

    def _setup(self) -> dict[str, Any]:
        """The settings of this server that are available without examining the host."""
        app, settings = self.service.app, self.service.app.settings
        image = app.hosting.known_image() or settings.image or next(iter(app.toolboxes.items)).image.reference
        return {
            "approval": settings.approval,
            "policy": str(settings.policy) if settings.policy else None,
            "image": image,
        }

    def _workspaces(self, viewer: Viewer) -> Workspaces:
        """All workspaces for administrators; for others, those in the policy. Raises ToolError if there are none."""
        app = self.service.app
        return app.workspaces if viewer.is_admin else app.entitlements.of(viewer.name).workspaces

    async def _live(self, request: Request) -> Stream:
        viewer = await self.auth.viewer(request)

        async def still_valid() -> bool:
            try:
                return await self.auth.viewer(request) == viewer
            except (Refused, TokensUnavailable, Unavailable):
                return False

        return Stream(self.live, viewer, still_valid)

    async def _undo(self, viewer: Viewer, call_id: str) -> Any:
        undone, changed = await run_sync(self.service.undo, viewer, call_id)
        self.service.app.pipeline.changes.announce(changed)
        return undone

    def _drawn(self, find: Callable[..., Artifact]) -> Callable[..., Awaitable[Response]]:
        """A handler that answers with the picture of the output that `find` returns."""

        async def handler(viewer: Viewer, *named: Any) -> Response:
            artifact = await run_sync(find, viewer, *named)
            return _png(await self.pictures.of(artifact, viewer, self._workspaces(viewer)))

        return handler

    async def _step_picture(self, viewer: Viewer, call_id: str, step: str) -> Response:
        allowed, store = self._workspaces(viewer), self.workflows.store
        artifact = await run_sync(self.workflows.artifact, viewer, allowed, call_id, step)
        results = Workspaces((store.workspace,))
        operation = picture_operation(store, artifact.path)
        return _png(await self.pictures.of(artifact, viewer, results, operation))

    async def _file_picture(self, viewer: Viewer, path: str | None) -> Response:
        return _png(await self.pictures.of_input(path or "", viewer, self._workspaces(viewer)))

    async def _folder(self, viewer: Viewer, path: object) -> Any:
        return await run_sync(self.browse.make_folder, viewer, self._workspaces(viewer), path)

    async def _legend(self, viewer: Viewer, number: int) -> Any:
        artifact = await run_sync(self.service.artifact, viewer, number)
        return await run_sync(self.pictures.legend, artifact, self._workspaces(viewer))

    async def _values(self, viewer: Viewer, number: int, position: object) -> Any:
        artifact = await run_sync(self.service.artifact, viewer, number)
        return await self.identify.values(artifact, viewer, self._workspaces(viewer), position)

    async def _link(self, viewer: Viewer, number: int) -> Any:
        await run_sync(self.service.artifact, viewer, number)
        return {"href": f"files/{self.links.new(viewer, number)}"}

    async def _file(self, request: Request) -> Response:
        viewer, number = self.links.take(request.path_params["link"])
        artifact = await run_sync(self.service.artifact, viewer, number)
        response: Response = await run_sync(download, self._workspaces(viewer), artifact)
        return response

    def _for_admin(self, work: Callable[[App], Any]) -> Callable[..., Awaitable[Any]]:
        """A handler for administrators. Such work may take long, so it is done one at a time."""

        async def handler(viewer: Viewer) -> Any:
            if not viewer.is_admin:
                raise Refused(403, "That needs the scope gdal:admin.")
            return await run_sync(work, self.service.app, limiter=self._one)

        return handler


def _png(picture: bytes | None) -> Response:
    if picture is None:
        raise Refused(404, "No preview is available.")
    return Response(picture, media_type="image/png")


def _figures(app: App) -> dict[str, Any]:
    """The statistics of the last day and in total. Raises RegistryUnavailable."""
    return {"since": "24h", **figures.figures(app.registry, app.toolboxes.tools, time.time() - _DAY)}


def _checkpoint(app: App) -> dict[str, Any]:
    """The last checkpoint of the audit log. Raises AuditUnavailable."""
    at = app.audit.checkpoint()
    return {"path": str(app.audit.path), "records": at.seq, "checkpoint": str(at)}


def _verified(app: App) -> dict[str, Any]:
    """The result of verifying the whole audit log. Raises AuditUnavailable."""
    verification = verify(app.audit.path)
    return {**asdict(verification), "checkpoint": str(verification.last)}


def _examined(app: App) -> dict[str, Any]:
    from gdal_mcp.server.operations.examine import examine_in_process  # noqa: PLC0415 - where it is asked for

    return examine_in_process(app.settings)


def home_url(settings: Settings, port: int) -> str | None:
    """The address of the console of a server over HTTP; None if it has no console."""
    return None if settings.console == "off" else f"{address.base_url(settings, port)}{PATH}/"


def console_routes(
    app: App, port: int, authenticate: Callable[[Headers], Awaitable[Principal | None]]
) -> list[BaseRoute]:
    """The routes of the console; none if the settings turn it off.

    `authenticate` returns the principal for a request's headers. A server without authentication still requires a
    session, which only the link of `gdal-mcp console` opens.
    """
    settings = app.settings
    if (home := home_url(settings, port)) is None:
        return []

    async def verify(token: str) -> Principal | None:
        return await authenticate(Headers({"authorization": f"Bearer {token}"}))

    advert = advertisement(app, home)
    runtime_file.put(settings.state_dir, advert)
    # the page accepts no requests from other origins, even those that may call the protocol
    origins = address.origins(settings.model_copy(update={"http_origins": ()}), port)
    return build_console(app, advert, origins, None if settings.no_auth else verify).routes()


def advertisement(app: App, url: str) -> Advertisement:
    workspaces = tuple(str(workspace.root) for workspace in app.workspaces.items)
    return Advertisement(app.owner.id, url, secrets.token_urlsafe(32), workspaces, time.time())


def build_console(
    app: App, advertisement: Advertisement, origins: Collection[str], verify: Verify | None
) -> Console:
    # Browsers distinguish cookies by host and name, not by port, so two servers on one host need different names.
    auth = ConsoleAuth(
        local_user(), LoginTokens(advertisement.secret), f"gdal-mcp-{app.owner.id}", origins, verify
    )
    secure = advertisement.address.startswith("https:")
    store = ArtifactStore(app.registry)
    pictures, identify = Pictures(app, store), Identify(app, store)
    return Console(
        ConsoleService(app), auth, Live(app), pictures, Workflows(app), identify, Browse(app), secure=secure
    )
