"""A security-first MCP server for GDAL: one call, one single-use container."""

__version__ = "0.1.0"
