"""`gdal_rasterize`."""

from typing import Annotated

from pydantic import Field

from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import URI, DatasetPath, NewPath, Number, number
from gdal_mcp.tools.drivers import raster_format
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed

Pixels = Annotated[int, Field(ge=1, le=2_000_000)]


class RasterizeArguments(Arguments):
    src_vector: DatasetPath
    burn_value: Number = Field(description="Value to burn into the pixels")
    width: Pixels = Field(description="Width of the output in pixels")
    height: Pixels = Field(description="Height of the output in pixels")
    extent: list[Number] = Field(
        min_length=4, max_length=4, description="[minX, minY, maxX, maxY] in the CRS of the vector"
    )
    dst_raster: NewPath | None = None
    invert: bool = Field(default=False, description="Burn outside the polygons instead")


def _draft(arguments: RasterizeArguments, desk: DraftContext) -> Draft:
    source = desk.paths.input(arguments.src_vector)
    driver = raster_format(desk.catalogue, None, arguments.dst_raster)
    if arguments.dst_raster is None:
        output = desk.paths.new_output(f"{source.path.stem}_raster", driver.extension)
    else:
        output = desk.paths.output(arguments.dst_raster, inputs=(source,), overwrite=True)
    options = ["-burn", number(arguments.burn_value), "-ts", str(arguments.width), str(arguments.height)]
    options += ["-te", *map(number, arguments.extent), "-of", driver.name]
    if arguments.invert:
        options.append("-i")
    command = Command("gdal_rasterize", tuple(options), (str(source),), output.inside, "inputs-output")
    return Draft(command, (source,), (output,))


GDAL_RASTERIZE = Tool(
    name="gdal_rasterize",
    title="gdal_rasterize",
    description="Burns vector geometries into a new raster of a given size and extent. Example: "
    '{"src_vector": "lakes.gpkg", "burn_value": 1, "width": 512, "height": 512, "extent": [0, 40, 10, 50]}.',
    schema=schema_of(RasterizeArguments),
    draft=typed(RasterizeArguments, _draft),
    present=lambda answer: {"raster_uri": answer.uri},
    own_keys={"raster_uri": URI},
    required_keys=("raster_uri",),
    like="vector rasterize",
    writes=True,
    replaces=True,
)
