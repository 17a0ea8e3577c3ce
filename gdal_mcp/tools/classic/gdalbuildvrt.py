"""`gdalbuildvrt`."""

from typing import Any, Literal

from pydantic import Field

from gdal_mcp.paths import Paths
from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import DatasetPath, NewPath
from gdal_mcp.tools.model import Answer, Arguments, Tool, Written


class BuildVrtArguments(Arguments):
    src_datasets: list[DatasetPath] = Field(
        min_length=1, max_length=1000, description="Rasters to mosaic, last on top"
    )
    dst_vrt: NewPath | None = None
    resolution: Literal["highest", "lowest", "average"] | None = Field(
        None, description="Resolution when the sources differ"
    )
    separate: bool = Field(default=False, description="Each source becomes a band of its own")


class BuildVrtResult(Written):
    vrt_uri: str = Field(
        description="file:// URI of the VRT; it refers to its sources, which stay where they are"
    )


def _draft(arguments: BuildVrtArguments, paths: Paths) -> Draft:
    sources = paths.inputs(arguments.src_datasets)
    if arguments.dst_vrt is None:
        output = paths.new_output(f"{sources[0].path.stem}_mosaic", ".vrt")
    else:
        output = paths.output(arguments.dst_vrt, inputs=sources, overwrite=True)
    options = []
    if arguments.resolution:
        options += ["-resolution", arguments.resolution]
    if arguments.separate:
        options.append("-separate")
    command = Command(
        "gdalbuildvrt", tuple(options), tuple(map(str, sources)), output.inside, "output-inputs"
    )
    return Draft(command, sources, output)


def _present(answer: Answer) -> dict[str, Any]:
    return {"vrt_uri": answer.uri}


GDALBUILDVRT = Tool(
    name="gdalbuildvrt",
    title="gdalbuildvrt",
    description="Makes a virtual mosaic of rasters, or a stack with separate. "
    'Example: {"src_datasets": ["n43.tif", "n44.tif"], "dst_vrt": "dem.vrt"}.',
    arguments=BuildVrtArguments,
    result=BuildVrtResult,
    draft=_draft,
    present=_present,
    writes=True,
    replaces=True,
)
