"""`gdalwarp`."""

from typing import Literal

from pydantic import Field

from gdal_mcp.gdal.catalogue.crs import check_crs
from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import URI, DatasetPath, NewPath
from gdal_mcp.tools.drivers import raster_format
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed


class WarpArguments(Arguments):
    src_datasets: list[DatasetPath] = Field(
        min_length=1, max_length=1000, description="Rasters to warp and mosaic, last on top"
    )
    t_srs: str = Field(
        description="Target CRS: EPSG:3857, another authority code, WKT, PROJJSON or a PROJ string"
    )
    dst_dataset: NewPath | None = None
    r: (
        Literal[
            "near",
            "nearest",
            "bilinear",
            "cubic",
            "cubicspline",
            "lanczos",
            "average",
            "rms",
            "mode",
            "min",
            "max",
            "med",
            "q1",
            "q3",
            "sum",
        ]
        | None
    ) = Field(None, description="Resampling; near is the default")
    overwrite: bool = Field(
        default=False, description="Replace an existing dst_dataset instead of warping into it"
    )


def _draft(arguments: WarpArguments, desk: DraftContext) -> Draft:
    sources = desk.paths.inputs(arguments.src_datasets)
    driver = raster_format(desk.catalogue, None, arguments.dst_dataset)
    if arguments.dst_dataset is None:
        output = desk.paths.new_output(f"{sources[0].path.stem}_warp", driver.extension)
    else:
        output = desk.paths.output(
            arguments.dst_dataset,
            inputs=sources,
            overwrite=arguments.overwrite,
            update=not arguments.overwrite,
        )
    options = ["-t_srs", check_crs(arguments.t_srs)]
    if not output.update:
        options += ["-of", driver.name]
    if arguments.r:
        options += ["-r", "near" if arguments.r == "nearest" else arguments.r]
    if arguments.overwrite:
        options.append("-overwrite")
    command = Command("gdalwarp", tuple(options), tuple(map(str, sources)), output.inside, "inputs-output")
    return Draft(command, sources, (output,))


GDALWARP = Tool(
    name="gdalwarp",
    title="gdalwarp",
    description="Reprojects and mosaics rasters. As the program does, it warps into an existing dst_dataset unless overwrite is "
    'true; either way the old file is kept for undo. Example: {"src_datasets": ["a.tif", "b.tif"], "t_srs": "EPSG:3857"}.',
    schema=schema_of(WarpArguments),
    draft=typed(WarpArguments, _draft),
    present=lambda answer: {"output_uri": answer.uri},
    own_keys={"output_uri": URI},
    required_keys=("output_uri",),
    like="raster reproject",
    writes=True,
    replaces=True,
)
