"""The settings determine once which tools a server has."""

import json
import re
from pathlib import Path

import pytest

from gdal_mcp.calls.refusals import tool_hint
from gdal_mcp.server.mcp import render
from gdal_mcp.settings import SettingsError, load_settings
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.surface import Surface
from tests.boxes import known_tools, surface

META = {"gdal_search", "gdal_describe", "gdal_read", "gdal_write"}


def loaded_surface(**settings: object) -> Surface:
    return surface(load_settings(workspaces=(Path("/srv/data"),), **settings))


def names(**settings: object) -> set[str]:
    return {tool.name for tool in loaded_surface(**settings).listed}


def test_the_default_set_is_small_and_complete() -> None:
    assert META | {"info", "convert", "reproject", "pipeline", "preview", "list_workspace"} <= names()
    assert 15 <= len(names()) - len(META) <= 20


# misspelt names with the intended tools
NEAR = {
    "hilshade": "raster hillshade", "prevew": "preview", "raster slop": "raster slope", "convrt": "convert",
    "reprojet": "reproject", "quer": "query", "raster_reprojct": "raster reproject", "vector_bufer": "vector buffer",
    "zonal_stat": "raster zonal-stats", "raster_polygonise": "raster polygonize", "contur": "raster contour",
    "clipp": "vector clip", "vector_dissolv": "vector dissolve", "find_csr": "find_crs", "gdal_serch": "gdal_search",
    "list_workspaces": "list_workspace", "mosaick": "raster mosaic", "rasterise": "vector rasterize",
    "translate": "gdal_translate",
    "vector_explode": "vector explode-collections",
}  # fmt: skip
FAR = """nope xyzzy foo banana qwerty magic weather email python sudo delete_everything read_file write_file list_files
open_url browse asdf do_it hello everything""".split()


@pytest.mark.parametrize("name", NEAR)
def test_misspelt_name_suggests_the_intended_tool(name: str) -> None:
    assert f"`{NEAR[name]}`" in tool_hint(name, loaded_surface())


@pytest.mark.parametrize("name", FAR)
def test_unrecognised_name_suggests_only_the_search(name: str) -> None:
    assert re.findall("`(.+?)`", tool_hint(name, loaded_surface())) == ["gdal_search"]
    assert tool_hint(name, loaded_surface(toolsets=("vsi",), exclude_tools=("gdal_search",))) == ""


def test_the_default_list_is_under_twenty_kilobytes() -> None:
    shown = map(render.tool, loaded_surface().listed)
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in shown]
    assert len(json.dumps({"tools": listed}, ensure_ascii=False, separators=(",", ":")).encode()) < 20_000


def test_toolset_holds_exactly_its_group_and_all_everything() -> None:
    for group in ["raster", "vector", "mdim", "dataset", "driver", "vsi"]:
        group_tools = names(toolsets=(group,))
        assert group_tools
        assert all(name.startswith(f"{group}_") for name in group_tools)
        assert set(loaded_surface(toolsets=(group,)).callable) == group_tools
    assert names(toolsets=("all",)) == set(known_tools())
    assert len(known_tools()) > 118
    assert names(tools=("raster_hillshade",)) == names() | {"raster_hillshade"}


@pytest.mark.claim("args.tools-chosen-at-start")
def test_an_exclusion_wins_over_everything_else() -> None:
    gone = ("raster_hillshade", "gdal_write", "gdalwarp")
    surface = loaded_surface(toolsets=("all",), tools=("raster_hillshade",), exclude_tools=gone)
    assert not {*gone} & set(surface.callable)
    assert not surface.permits("raster hillshade")
    assert surface.permits("raster slope")


@pytest.mark.claim("args.exclusion-whole")
def test_excluded_algorithm_takes_every_tool_that_runs_it() -> None:
    for excluded, gone, stay in [
        ("raster reproject", {"reproject", "gdalwarp", "raster_reproject"}, {"vector_reproject", "info"}),
        ("raster_info", {"info", "gdalinfo", "raster_info"}, {"vector_info", "convert"}),
        ("vector info", {"info", "vector_info"}, {"gdalinfo", "raster_info"}),
        ("vector convert", {"convert", "vector_convert"}, {"gdal_translate", "raster_convert"}),
        ("raster pipeline", {"pipeline", "raster_pipeline"}, {"vector_pipeline"}),
        ("raster clip", {"gdal_translate", "raster_clip"}, {"vector_clip", "convert"}),
        ("raster stack", {"gdal_merge", "gdalbuildvrt", "raster_stack"}, {"raster_mosaic"}),
        ("reproject", {"reproject"}, {"gdalwarp", "raster_reproject"}),
        ("gdalwarp", {"gdalwarp"}, {"reproject", "raster_reproject"}),
        ("info", {"info"}, {"gdalinfo", "raster_info", "vector_info"}),
    ]:
        surface = loaded_surface(toolsets=("all",), exclude_tools=(excluded,))
        assert not gone & set(surface.callable)
        assert stay <= set(surface.callable)


@pytest.mark.claim("args.exclusion-whole")
def test_no_tool_outlives_its_model_algorithm() -> None:
    for path in {tool.like for tool in known_tools().values() if tool.like}:
        left = loaded_surface(toolsets=("all",), exclude_tools=(path,)).callable.values()
        assert [tool.name for tool in left if tool.like == path] == []


@pytest.mark.claim("args.exclusion-whole")
def test_dispatching_tool_is_excluded_with_any_variant() -> None:
    for name in ["info", "convert", "pipeline"]:
        kinds = [path for path in packaged().algorithms if path.endswith(f" {name}")]
        assert len(kinds) > 1
        for kind in kinds:
            surface = loaded_surface(exclude_tools=(kind,))
            assert not surface.permits(name)
            assert not surface.permits(kind)
            assert all(surface.permits(other) for other in kinds if other != kind)


@pytest.mark.claim("args.tools-chosen-at-start")
def test_a_reading_server_has_no_tool_that_writes() -> None:
    surface = loaded_surface(read_only=True, toolsets=("all",))
    assert surface.callable
    assert not [tool.name for tool in surface.callable.values() if tool.writes]
    assert {"info", "gdal_read", "raster_info"} <= set(surface.callable)
    assert not {"gdal_write", "convert", "vsi_delete"} & set(surface.callable)


def test_a_name_that_means_nothing_stops_the_start() -> None:
    for settings in (
        {"tools": ("raster_hilshade",)},
        {"exclude_tools": ("nothing",)},
        {"toolsets": ("rasters",)},
    ):
        with pytest.raises(SettingsError):
            loaded_surface(**settings)
