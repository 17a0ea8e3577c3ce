"""The page's own files, and the headers of every response of the console."""

from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# `trusted-types`: a script of the page cannot insert text as markup
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types default"
)
_ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


@dataclass(frozen=True, slots=True)
class GuardedRoute:
    """An application whose responses all get the console's headers."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_ALWAYS)
                headers.setdefault("Content-Security-Policy", POLICY)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        # without `app`, an unknown path is answered here, and not by an enclosing application
        inside = {name: value for name, value in scope.items() if name != "app"}
        # no valid path is that long, and the router fails for a number with more than 4300 digits
        app = self.app if len(scope["path"]) < 1000 else Response("There is no such page.\n", 404)
        await app(inside, receive, guarded)


class Assets(StaticFiles):
    """The page's own files."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        try:
            reply = await super().get_response(path, scope)
        except HTTPException as error:
            return Response("There is no such page.\n", error.status_code, media_type="text/plain")
        reply.headers["Cache-Control"] = "no-cache"
        return reply
