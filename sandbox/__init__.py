"""Runs one job in one hardened, single-use container.

Knows nothing of GDAL, MCP, HTTP or SQL. Import names from their modules; nothing is re-exported here.
"""

# the only thing that this package knows of who uses it: labels of containers and a folder in each workspace are named so
PRODUCT = "gdal-mcp"
