"""Examples that the help of each command ends with, by the command's words. Each is a command line that the program takes."""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "gdal-mcp setup",
        "gdal-mcp clients install claude-desktop --workspace ~/maps",
        """gdal-mcp call info '{"path": "dem.tif"}' --workspace ~/maps""",
    ),
    "serve": (
        "gdal-mcp serve --workspace ~/maps",
        "gdal-mcp serve --transport http --workspace /srv/maps",
    ),
    "call": (
        """gdal-mcp call info '{"path": "dem.tif"}' --workspace ~/maps""",
        """gdal-mcp call convert '{"input": "dem.tif", "output": "web.tif", "output_format": "COG"}' --yes""",
        """gdal-mcp call preview '{"path": "dem.tif"}' --save dem.png""",
        """gdal-mcp call raster_hillshade - < arguments.json""",
    ),
    "run": (
        "gdal-mcp run flood_depth.yaml --param level=320 --workspace ~/maps",
        "gdal-mcp run flood_depth.yaml --check --junit check.xml",
    ),
    "workflow": ("gdal-mcp workflow from-calls 3f9a4c1be2d07a55 8cb349f65870dd80 > flow.yaml",),
    "workflow from-calls": ("gdal-mcp workflow from-calls 3f9a4c1be2d07a55 8cb349f65870dd80 > flow.yaml",),
    "tools": ("gdal-mcp tools", "gdal-mcp tools --all --json"),
    "doctor": ("gdal-mcp doctor --workspace ~/maps", "gdal-mcp doctor --all", "gdal-mcp doctor --escape"),
    "setup": ("gdal-mcp setup", "gdal-mcp setup --image small", "gdal-mcp setup --toolbox python"),
    "settings": ("gdal-mcp settings", "gdal-mcp settings memory approval"),
    "catalogue": ("gdal-mcp catalogue refresh", "gdal-mcp catalogue build"),
    "catalogue build": ("gdal-mcp catalogue build --image small --output gdal-small.json",),
    "catalogue refresh": ("gdal-mcp catalogue refresh --image ghcr.io/osgeo/gdal:ubuntu-full-3.14.0",),
    "token": ("gdal-mcp token new ann --scope gdal:read", "gdal-mcp token list"),
    "token new": (
        "gdal-mcp token new ann",
        "gdal-mcp token new ci --scope gdal:read --scope gdal:write --days 30",
    ),
    "token list": ("gdal-mcp token list",),
    "token revoke": ("gdal-mcp token revoke ann",),
    "console": ("gdal-mcp console --open",),
    "clients": (
        "gdal-mcp clients --workspace ~/maps",
        "gdal-mcp clients install cursor --workspace ~/maps",
    ),
    "clients install": ("gdal-mcp clients install claude-desktop --workspace ~/maps",),
    "approve": ("gdal-mcp approve", "gdal-mcp approve 3f9a --no"),
    "grants": ("gdal-mcp grants", "gdal-mcp grants new convert ~/maps --for 2h"),
    "grants list": ("gdal-mcp grants list --json",),
    "grants new": ("gdal-mcp grants new convert ~/maps --for 2h",),
    "grants revoke": ("gdal-mcp grants revoke 3f9a",),
    "policy": ("""gdal-mcp policy check convert '{"input": "a.tif", "output": "b.tif"}'""",),
    "policy check": (
        """gdal-mcp policy check convert '{"input": "a.tif", "output": "b.tif"}' --principal token:ann""",
    ),
    "audit": ("gdal-mcp audit verify", "gdal-mcp audit tail -n 20"),
    "audit verify": ("gdal-mcp audit verify",),
    "audit rotate": ("gdal-mcp audit rotate",),
    "audit tail": ("gdal-mcp audit tail -n 20 --json",),
    "backup": ("gdal-mcp backup /srv/backup/monday --state-dir /var/lib/gdal-mcp",),
    "replay": ("gdal-mcp replay 3f9a4c1be2d07a55 --workspace ~/maps",),
    "undo": ("gdal-mcp undo --workspace ~/maps", "gdal-mcp undo 3f9a4c1be2d07a55 --workspace ~/maps"),
}
