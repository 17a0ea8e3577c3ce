"""How to test what you build on this server. Run: `pytest examples/testing`."""

from pathlib import Path

import pytest

from gdal_mcp.testing.client import CallFailed, GdalMcpClient


def columns(client: GdalMcpClient, path: str) -> int:
    """Stands for your own code: it asks the server and makes something of the answer."""
    return int(client.call("info", path=path)["size"][0])


def test_it_reads_a_dataset(gdal_mcp_client: GdalMcpClient) -> None:
    assert columns(gdal_mcp_client, "dem.tif") == 24


def test_it_writes_what_a_person_allows(gdal_mcp_client: GdalMcpClient, gdal_mcp_workspace: Path) -> None:
    gdal_mcp_client.call("convert", input="dem.tif", output="copy.tif")
    assert (gdal_mcp_workspace / "copy.tif").stat().st_size > 0
    assert len(gdal_mcp_client.person.asked) == 1


def test_it_takes_no_for_an_answer(gdal_mcp_client: GdalMcpClient, gdal_mcp_workspace: Path) -> None:
    gdal_mcp_client.person.yes = False
    with pytest.raises(CallFailed) as caught:
        gdal_mcp_client.call("convert", input="dem.tif", output="copy.tif")
    assert caught.value.code == "DENIED"
    assert not (gdal_mcp_workspace / "copy.tif").exists()


@pytest.mark.anyio
async def test_it_works_from_asynchronous_code(gdal_mcp_client: GdalMcpClient) -> None:
    said = await gdal_mcp_client.acall("info", path="dem.tif")
    assert said["size"] == [24, 16]
