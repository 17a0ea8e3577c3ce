"""The hand-written tools. Nothing registers itself: `gdal_mcp.tools.listing.ALL` names every one."""
