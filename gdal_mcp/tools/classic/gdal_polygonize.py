"""`gdal_polygonize`."""

from typing import Annotated

from pydantic import Field

from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.tools.common import URI, DatasetPath, NewPath
from gdal_mcp.tools.drivers import Format, vector_format
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed

LAYER = "out"  # the program's own default


class PolygonizeArguments(Arguments):
    src_dataset: DatasetPath
    dst_vector: NewPath | None = None
    band: Annotated[int, Field(ge=1, le=65_535)] | None = Field(
        None, description="Band to polygonize, from 1"
    )
    mask: DatasetPath | None = Field(None, description="Raster whose zero pixels are left out")
    field_name: str | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$", description="Attribute for the value; DN"
    )


def _draft(arguments: PolygonizeArguments, desk: DraftContext) -> Draft:
    source = desk.paths.input(arguments.src_dataset)
    mask = desk.paths.input(arguments.mask) if arguments.mask is not None else None
    inputs = (source, *([mask] if mask else []))
    driver = vector_format(desk.catalogue, None, arguments.dst_vector)
    if arguments.dst_vector is None:
        output = desk.paths.new_output(f"{source.path.stem}_polygons", driver.extension)
    else:
        output = desk.paths.output(arguments.dst_vector, inputs=inputs, overwrite=False, update=True)
    options = ["-q"]
    if arguments.band is not None:
        options += ["-b", str(arguments.band)]
    if mask is not None:
        options += ["-mask", str(mask)]
    if not output.update:
        options += ["-f", driver.name]
    layer = _layer(driver, output)
    names = [layer, arguments.field_name] if arguments.field_name else [layer] if layer != LAYER else []
    return Draft(
        Command("gdal_polygonize", (*options, str(source), output.inside, *names)), inputs, (output,)
    )


def _layer(driver: Format, output: Output) -> str:
    """A shapefile is its layer: under another name the program would write another file beside it."""
    stem = output.target.path.stem
    return stem if driver.name == "ESRI Shapefile" and not stem.startswith("-") else LAYER


GDAL_POLYGONIZE = Tool(
    name="gdal_polygonize",
    title="gdal_polygonize",
    description="Makes polygons of connected pixels of equal value. As the program does, it appends to an existing dst_vector, "
    'which is kept for undo. Example: {"src_dataset": "classes.tif", "field_name": "class"}.',
    schema=schema_of(PolygonizeArguments),
    draft=typed(PolygonizeArguments, _draft),
    present=lambda answer: {"vector_uri": answer.uri},
    own_keys={"vector_uri": URI},
    required_keys=("vector_uri",),
    like="raster polygonize",
    writes=True,
    replaces=True,
)
