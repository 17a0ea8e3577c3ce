"""The only line that is needed."""

pytest_plugins = ["gdal_mcp.testing.fixtures"]
