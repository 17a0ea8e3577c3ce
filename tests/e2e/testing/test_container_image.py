"""A test that starts the server in a container gets instructions to build the image if the engine lacks it."""

from pathlib import Path

import pytest

from gdal_mcp.testing.container import GdalMcpContainer

pytestmark = pytest.mark.engine


def test_missing_image_names_its_build_command_leaving_nothing(tmp_path: Path):
    container = GdalMcpContainer(tmp_path, image="gdal-mcp-that-nobody-built")
    with pytest.raises(RuntimeError) as caught:
        container.start()
    assert "docker build -t gdal-mcp-that-nobody-built ." in str(caught.value)
    assert not container._state.exists()
