"""The server's settings: one frozen value, read once.

From the lowest to the highest: defaults, the TOML file, `GDAL_MCP_*` variables, explicit values (the command
line). A key or a variable that is not known is an error, so that a misspelt limit never silently stays at its
default.
"""

from gdal_mcp.settings.fields import Settings
from gdal_mcp.settings.file import PREFIX, SettingsError
from gdal_mcp.settings.load import load_settings

__all__ = ["PREFIX", "Settings", "SettingsError", "load_settings"]
