"""`gdal_merge`."""

from pydantic import Field

from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import URI, DatasetPath, NewPath, Number, number
from gdal_mcp.tools.drivers import raster_format
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed


class MergeArguments(Arguments):
    src_datasets: list[DatasetPath] = Field(
        min_length=1, max_length=1000, description="Rasters to merge, last on top"
    )
    dst_dataset: NewPath | None = None
    n: Number | None = Field(None, description="Pixel value of the sources that is not copied")
    separate: bool = Field(default=False, description="Each source becomes a band of its own")


def _draft(arguments: MergeArguments, desk: DraftContext) -> Draft:
    sources = desk.paths.inputs(arguments.src_datasets)
    driver = raster_format(desk.catalogue, None, arguments.dst_dataset)
    if arguments.dst_dataset is None:
        output = desk.paths.new_output(f"{sources[0].path.stem}_merge", driver.extension)
    else:
        output = desk.paths.output(arguments.dst_dataset, inputs=sources, overwrite=False, update=True)
    options = ["-o", output.inside, "-of", driver.name]
    if arguments.n is not None:
        options += ["-n", number(arguments.n)]
    if arguments.separate:
        options.append("-separate")
    command = Command("gdal_merge", tuple(options), tuple(map(str, sources)), layout="inputs-output")
    return Draft(command, sources, (output,))


GDAL_MERGE = Tool(
    name="gdal_merge",
    title="gdal_merge",
    description="Merges rasters of one CRS into one. As the program does, it pastes into an existing dst_dataset, which is kept "
    'for undo. Loads whole rasters into memory. Example: {"src_datasets": ["a.tif", "b.tif"], "n": 0}.',
    schema=schema_of(MergeArguments),
    draft=typed(MergeArguments, _draft),
    present=lambda answer: {"merged_uri": answer.uri},
    own_keys={"merged_uri": URI},
    required_keys=("merged_uri",),
    like="raster mosaic",
    writes=True,
    replaces=True,
)
