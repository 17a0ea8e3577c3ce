"""The hand-written tools. Nothing registers itself: `gdal_mcp.toolboxes.surface` chooses those of a server."""
