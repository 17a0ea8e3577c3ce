"""The tools that a client gets from a server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import mcp_types as t
import pytest
from mcp.shared.exceptions import MCPError

from tests.e2e.mcp.talk import Person, Place, Talk, inside

pytestmark = pytest.mark.engine

DATA = ("dem.tif", "zones.gpkg")
Serve = Callable[..., Talk]


@pytest.fixture(scope="module")
def serve(own: Place) -> Iterator[Serve]:
    """`serve(option, ...)`: a client of a server with these options."""
    with ExitStack() as stack:

        def make(*options: str) -> Talk:
            command = own.command("--approval", "never", *options)
            return stack.enter_context(inside(command, person=Person()))

        yield make


def listed(talk: Talk) -> list[t.Tool]:
    return talk.ask("list_tools", cache_mode="bypass").tools


@pytest.mark.claim("args.tools-chosen-at-start")
def test_calls_never_change_the_list(serve: Serve):
    talk = serve()
    before = [tool.model_dump_json() for tool in listed(talk)]
    talk.done("gdal_describe", algorithm="vector buffer")
    talk.done("gdal_write", algorithm="raster slope", arguments={"input": "dem.tif", "output": "slope.tif"})
    assert [tool.model_dump_json() for tool in listed(talk)] == before


SPELT = (
    "raster hillshade", "raster_hillshade", "gdal raster hillshade", "RASTER HILLSHADE",
    "raster-hillshade",
)  # fmt: skip
OUT = ("--exclude-tools", "raster_hillshade,gdal vector buffer,dataset-delete,info", "--toolsets", "all")


@pytest.mark.claim("args.tools-chosen-at-start")
def test_what_is_excluded_is_nowhere(serve: Serve, own: Place):
    talk = serve(*OUT)
    names = {tool.name for tool in listed(talk)}
    assert not names & {"raster_hillshade", "vector_buffer", "dataset_delete", "info"}
    for name in ("raster_hillshade", "info", "dataset_delete"):
        with pytest.raises(MCPError) as caught:
            talk.call(name, input="dem.tif", output="x.tif", path="dem.tif")
        assert caught.value.error.code == -32602
    shade = {"input": "dem.tif", "output": "x.tif"}
    for spelling in SPELT:
        assert talk.failed("gdal_write", algorithm=spelling, arguments=shade)["code"] == "DENIED"
    for text in (
        "read dem.tif ! hillshade ! write x.tif",
        "read dem.tif ! tee [ Hillshade ! write y.tif ] ! write x.tif",
        "read zones.gpkg ! buffer --distance=1 ! write x.gpkg",
    ):
        assert talk.failed("pipeline", steps=text)["code"] == "DENIED"
        error = talk.failed("gdal_write", algorithm="pipeline", arguments={"pipeline": text})
        assert error["code"] == "DENIED"
    assert talk.failed("gdal_describe", algorithm="raster hillshade")["code"] == "DENIED"
    hits = talk.done("gdal_search", query="hillshade")["hits"]
    assert "hillshade" not in str([hit.get("path", hit.get("algorithm")) for hit in hits])
    talk.failed("validate_call", tool="raster_hillshade", arguments=shade)
    assert not own.path("x.tif").exists()


@pytest.mark.claim("args.tools-chosen-at-start")
def test_a_reading_server_has_no_way_to_write(serve: Serve, own: Place):
    talk = serve("--read-only", "--toolsets", "all")
    for name in ("convert", "gdal_write", "pipeline", "raster_hillshade", "vsi_delete", "gdal_translate"):
        with pytest.raises(MCPError):
            talk.call(name, input="dem.tif", output="x.tif")
    before = sorted(own.workspace.iterdir())
    for algorithm, arguments in (
        ("raster hillshade", {"input": "dem.tif", "output": "x.tif"}),
        ("dataset delete", {"filename": ["dem.tif"]}),
        ("vsi move", {"source": "dem.tif", "destination": "y.tif"}),
        ("raster pixel-info", {"input": "dem.tif", "position": [1, 1], "output": "x.gpkg"}),
        ("dataset identify", {"filename": ["dem.tif"], "output": "x.gpkg"}),
    ):
        talk.failed("gdal_read", algorithm=algorithm, arguments=arguments)
    assert sorted(own.workspace.iterdir()) == before
    assert talk.done("gdal_read", algorithm="raster info", arguments={"input": "dem.tif"})
