"""Hundreds of silent connections to the console of a server on stdio."""

import queue
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal

from gdal_mcp.server.app import running
from gdal_mcp.server.console import local_server
from gdal_mcp.settings import load_settings

SILENT = 400  # more than the console accepts at once


@pytest.mark.claim("http.silence-keeps-nobody-out", "console.strangers-bounded")
def test_console_answers_during_hundreds_of_silent_connections(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    settings = load_settings(
        workspaces=[str(tmp_path / "ws")], state_dir=str(tmp_path / "state"), console_port=0
    )
    opened: queue.SimpleQueue[str] = queue.SimpleQueue()
    with running(settings) as app, start_blocking_portal() as portal:
        scope = portal.call(anyio.CancelScope)

        async def serve() -> None:
            with scope:
                await local_server.serve(app, opened.put)

        served = portal.start_task_soon(serve)
        try:
            url = opened.get(timeout=60)
            host, port = urlsplit(url).hostname, urlsplit(url).port
            assert host is not None
            assert port is not None
            with ExitStack() as stack:
                for _ in range(4):
                    for _ in range(SILENT // 4):
                        stack.enter_context(socket.create_connection((host, port), 60))
                    assert httpx2.get(url, timeout=60, trust_env=False).status_code == 200
        finally:
            portal.call(scope.cancel)
            served.result(60)
