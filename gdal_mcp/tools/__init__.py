"""The hand-written tools. Nothing registers itself: `gdal_mcp.surface` chooses those of a server."""
