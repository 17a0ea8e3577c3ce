"""Fixtures for pytest. Use `pytest_plugins = ["gdal_mcp.testing.fixtures"]` in the topmost `conftest.py`.

They run a real server and real containers: the engine and the GDAL image must exist (`gdal-mcp setup`).
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from mcp import StdioServerParameters

from gdal_mcp.testing.client import GdalMcpClient, connected
from gdal_mcp.testing.samples import write_samples
from gdal_mcp.testing.workflows import WorkflowRunner

# what finds the engine, the image and this package; no other setting of the user who runs the tests reaches the server
_PASSED_ON: Final = (
    *("PATH", "PYTHONPATH", "HOME", "XDG_RUNTIME_DIR"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
    *("GDAL_MCP_IMAGE", "GDAL_MCP_ENGINE", "GDAL_MCP_RUNTIME", "KUBECONFIG"),
)


@pytest.fixture
def gdal_mcp_workspace(tmp_path: Path) -> Path:
    """A folder with `dem.tif` and `places.geojson`, which the server may read and write."""
    folder = tmp_path / "gdal-mcp-workspace"
    folder.mkdir()
    folder.chmod(0o755)  # containers run as another user if this process is root
    write_samples(folder)
    return folder


@pytest.fixture
def gdal_mcp_settings() -> Mapping[str, str]:
    """Settings of the server as variables, such as `{"GDAL_MCP_READ_ONLY": "1"}`; override it to change them."""
    return {}


@pytest.fixture
def gdal_mcp_server(
    gdal_mcp_workspace: Path, gdal_mcp_settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> StdioServerParameters:
    """Starts a server on that workspace: the argument for `mcp.Client`."""
    state = tmp_path_factory.mktemp("gdal-mcp-state")
    serve = ["-m", "gdal_mcp", "serve", "--workspace", str(gdal_mcp_workspace), "--state-dir", str(state)]
    ours = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return StdioServerParameters(command=sys.executable, args=serve, env={**ours, **gdal_mcp_settings})


@pytest.fixture
def gdal_mcp_client(gdal_mcp_server: StdioServerParameters) -> Iterator[GdalMcpClient]:
    """A client of a running server on that workspace, which answers yes to every question."""
    with connected(gdal_mcp_server) as client:
        yield client


@pytest.fixture
def gdal_mcp_workflow(gdal_mcp_client: GdalMcpClient) -> WorkflowRunner:
    """Checks and runs workflow files on that workspace."""
    return WorkflowRunner(gdal_mcp_client)
