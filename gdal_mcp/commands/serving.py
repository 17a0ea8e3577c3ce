"""`gdal-mcp serve`: puts a server together and serves until its clients or a signal end it."""

from gdal_mcp.commands.exits import Exit
from gdal_mcp.mcp.process import stand
from gdal_mcp.settings import Settings

# The server's parts are imported where they are used: those of stdio in half the time, by `lean_imports`.


def over_stdio(settings: Settings) -> Exit:
    """Serves one client over stdin and stdout until it leaves. Raises SandboxError and what `running` does."""
    from gdal_mcp.mcp.lean import lean_imports

    with lean_imports():
        import anyio

        from gdal_mcp.app import running
        from gdal_mcp.mcp.stdio import serve

    with running(settings) as app:
        stand()
        anyio.run(serve, app)
    return Exit.DONE


def over_http(settings: Settings) -> Exit:
    """Serves over HTTP until a signal ends the process. Raises SettingsError, SandboxError and what `running` does."""
    import anyio

    from gdal_mcp.app import running
    from gdal_mcp.web.server import prepare, serve

    bound = prepare(settings)
    with running(settings) as app:
        stand()
        anyio.run(serve, app, bound)
    return Exit.DONE
