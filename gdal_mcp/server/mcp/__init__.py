"""The only importer of `mcp`."""
