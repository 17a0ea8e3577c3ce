"""Runs one job in one hardened, single-use container. Does not depend on GDAL, MCP, HTTP or SQL.

Import names from their modules; nothing is re-exported here.
"""

# the prefix of container labels, and the name of the server's folder in each workspace
PRODUCT = "gdal-mcp"
