"""The panel that clients with MCP Apps show beside a call's result: a map as one page that loads nothing else.

It is made of modules of the console, so both draw the same map and follow the same rule: text is inserted as text,
never as markup. The page allows its own three scripts and one style sheet, by their digests, and embedded pictures;
it can connect to nothing. Clients without the extension get the PNG that is in the result anyway, and no reference to
the panel.
"""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Final

import mcp_types as t

from gdal_mcp.server.mcp.tasks import Context

EXTENSION: Final = "io.modelcontextprotocol/ui"
MEDIA_TYPE: Final = "text/html;profile=mcp-app"
URI: Final = "ui://gdal-mcp/result.html"
# no origin is allowed for anything, so a host that follows this policy allows no request
_META: Final = {
    "ui": {
        "csp": {"connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": []},
        "prefersBorder": True,
    }
}
_LINKS: Final = re.compile(r"^import .*\n|^export (?=async function|function|const)", re.MULTILINE)


def is_supported(ctx: Context) -> bool:
    """True if the client shows such panels."""
    capabilities = ctx.session.client_capabilities
    declared = ((capabilities.extensions if capabilities else None) or {}).get(EXTENSION) or {}
    types = declared.get("mimeTypes")
    return isinstance(types, list | tuple) and MEDIA_TYPE in types


def content() -> t.ReadResourceResult:
    page = t.TextResourceContents(uri=URI, mime_type=MEDIA_TYPE, text=_page(), _meta=_META)
    return t.ReadResourceResult(contents=[page])


@cache
def _page() -> str:
    # the guard is the first script, so that even the map's library runs under it
    guard = f"{{\n{_module('trusted.js')}guardMarkup(null);\n}}"
    own = f"{{\n{_module('dom.js')}{_module('map.js')}{_file('gdal_mcp.server.mcp', 'panel.js')}}}"
    scripts = (guard, _file("gdal_mcp.server.console", "static/vendor/leaflet.js"), own)
    style = "".join(
        _file("gdal_mcp.server.console", f"static/{name}") for name in ("vendor/leaflet.css", "style.css")
    )
    allowed = " ".join(map(_digest, scripts))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types default"
    )
    land = _file("gdal_mcp.server.console", "static/vendor/land.json")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>GDAL result</title>\n<style>{style}</style>\n</head><body>\n"
        f'<main id="main"></main>\n<script type="application/json" id="land">{land}</script>\n'
        f"{''.join(f'<script>{script}</script>{chr(10)}' for script in scripts)}</body></html>\n"
    )


def _file(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _module(name: str) -> str:
    """The text of a module of the console without its imports and exports, to be embedded in a script."""
    return _LINKS.sub("", _file("gdal_mcp.server.console", f"static/{name}"))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
