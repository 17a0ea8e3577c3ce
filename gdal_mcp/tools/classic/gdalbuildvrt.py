"""`gdalbuildvrt`."""

from typing import Literal

from pydantic import Field

from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import URI, DatasetPath, NewPath
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed


class BuildVrtArguments(Arguments):
    src_datasets: list[DatasetPath] = Field(
        min_length=1, max_length=1000, description="Rasters to mosaic, last on top"
    )
    dst_vrt: NewPath | None = None
    resolution: Literal["highest", "lowest", "average"] | None = Field(
        None, description="Resolution when the sources differ"
    )
    separate: bool = Field(default=False, description="Each source becomes a band of its own")


def _draft(arguments: BuildVrtArguments, desk: DraftContext) -> Draft:
    sources = desk.paths.inputs(arguments.src_datasets)
    if arguments.dst_vrt is None:
        output = desk.paths.new_output(f"{sources[0].path.stem}_mosaic", ".vrt")
    else:
        output = desk.paths.output(arguments.dst_vrt, inputs=sources, overwrite=True)
    options = []
    if arguments.resolution:
        options += ["-resolution", arguments.resolution]
    if arguments.separate:
        options.append("-separate")
    command = Command(
        "gdalbuildvrt", tuple(options), tuple(map(str, sources)), output.inside, "output-inputs"
    )
    return Draft(command, sources, (output,))


GDALBUILDVRT = Tool(
    name="gdalbuildvrt",
    title="gdalbuildvrt",
    description="Makes a virtual mosaic of rasters, or a stack with separate. "
    'Example: {"src_datasets": ["n43.tif", "n44.tif"], "dst_vrt": "dem.vrt"}.',
    schema=schema_of(BuildVrtArguments),
    draft=typed(BuildVrtArguments, _draft),
    present=lambda answer: {"vrt_uri": answer.uri},
    own_keys={"vrt_uri": URI},
    required_keys=("vrt_uri",),
    like="raster mosaic",
    writes=True,
    replaces=True,
)
