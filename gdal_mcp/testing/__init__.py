"""Tools for tests of projects that build on this server: sample data, a connected client, and the server in a
container.

`samples` and `client` need nothing but the server; `fixtures` needs pytest, and `container` needs testcontainers:
install `gdal-sandbox-mcp[testing]`.
"""
