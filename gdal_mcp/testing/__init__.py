"""For other people's tests of what they build on this server: sample data, a connected client, and the server in a container.

`samples` and `client` need nothing but the server itself; `fixtures` needs pytest, and `container` testcontainers: install
`gdal-sandbox-mcp[testing]`. Nothing of it is loaded by installing it.
"""
