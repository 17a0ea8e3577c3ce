"""`gdal_translate`."""

from typing import Annotated, Literal

from pydantic import Field

from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import URI, DatasetPath, NewPath, Number, number
from gdal_mcp.tools.drivers import raster_format
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed

Band = Annotated[str, Field(pattern=r"^([1-9][0-9]{0,4}|mask(,[1-9][0-9]{0,4})?)$")]


class TranslateArguments(Arguments):
    src_dataset: DatasetPath
    dst_dataset: NewPath | None = None
    output_format: str | None = Field(
        None, description="Driver short name such as GTiff, COG, PNG; else by extension"
    )
    bands: list[Band] | None = Field(
        None, min_length=1, max_length=1000, description='Bands to keep, from "1", or "mask"'
    )
    projwin: list[Number] | None = Field(
        None,
        min_length=4,
        max_length=4,
        description="Window to cut: [ulx, uly, lrx, lry] in the CRS of the raster",
    )
    resample_alg: (
        Literal["nearest", "bilinear", "cubic", "cubicspline", "lanczos", "average", "rms", "mode"] | None
    ) = None


def _draft(arguments: TranslateArguments, desk: DraftContext) -> Draft:
    source = desk.paths.input(arguments.src_dataset)
    driver = raster_format(desk.catalogue, arguments.output_format, arguments.dst_dataset)
    if arguments.dst_dataset is None:
        output = desk.paths.new_output(f"{source.path.stem}_translate", driver.extension)
    else:
        output = desk.paths.output(arguments.dst_dataset, inputs=(source,), overwrite=True)
    options = ["-of", driver.name]
    for band in arguments.bands or ():
        options += ["-b", band]
    if arguments.projwin:
        options += ["-projwin", *map(number, arguments.projwin)]
    if arguments.resample_alg:
        options += ["-r", arguments.resample_alg]
    command = Command("gdal_translate", tuple(options), (str(source),), output.inside, "inputs-output")
    return Draft(command, (source,), (output,))


GDAL_TRANSLATE = Tool(
    name="gdal_translate",
    title="gdal_translate",
    description="Converts a raster to another format, band selection or window. An existing dst_dataset is replaced and kept "
    'for undo. Example: {"src_dataset": "scene.tif", "dst_dataset": "red.png", "bands": ["1"], "output_format": "PNG"}.',
    schema=schema_of(TranslateArguments),
    draft=typed(TranslateArguments, _draft),
    present=lambda answer: {"output_uri": answer.uri},
    own_keys={"output_uri": URI},
    required_keys=("output_uri",),
    like="raster convert",
    writes=True,
    replaces=True,
)
