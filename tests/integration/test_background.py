"""Failures of a server's background work do not end the server."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from gdal_mcp.server.mcp import background
from tests.integration.memory_server import server


def test_unlistable_leftovers_are_retried_while_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "REAP_SECONDS", 0.0)
    with server(tmp_path) as memory_server, monkeypatch.context() as failing:
        hosting: Any = memory_server.pipeline.execution.hosting
        again, attempts = anyio.Event(), 0

        def answer() -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 2:
                anyio.from_thread.run_sync(again.set)
            raise PermissionError("the folder of containers is closed")

        async def reap_twice() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(background.reap, replace(memory_server.app, hosting=hosting))
                await again.wait()
                group.cancel_scope.cancel()

        failing.setattr(hosting.host.engine, "answer", answer)
        anyio.run(reap_twice)
