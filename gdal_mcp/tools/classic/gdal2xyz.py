"""`gdal2xyz`."""

from typing import Annotated, Literal

from pydantic import Field

from gdal_mcp.plan import Command, Draft
from gdal_mcp.tools.common import URI, DatasetPath, NewPath
from gdal_mcp.tools.model import Arguments, DraftContext, Tool, schema_of, typed

Band = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,4}$")]


class XyzArguments(Arguments):
    dataset: DatasetPath
    dst_csv: NewPath | None = None
    skip_nodata: bool = Field(default=False, description="Leave out pixels without data")
    bands: list[Band] | None = Field(
        None, min_length=1, max_length=1000, description='Bands to write, from "1"'
    )
    output_format: Literal["CSV", "numpy"] = Field(
        "CSV",
        description="CSV: rows of x,y,values; numpy: a .npy array of float64, one row per pixel: x, y, values",
    )


def _draft(arguments: XyzArguments, desk: DraftContext) -> Draft:
    source = desk.paths.input(arguments.dataset)
    as_array = arguments.output_format == "numpy"
    kind: Literal["array", "table"] = "array" if as_array else "table"
    if arguments.dst_csv is None:
        output = desk.paths.new_output(f"{source.path.stem}_xyz", ".npy" if as_array else ".csv", kind)
    else:
        output = desk.paths.output(arguments.dst_csv, inputs=(source,), overwrite=True, kind=kind)
    options = [] if as_array else ["-csv"]
    if arguments.skip_nodata:
        options.append("-skipnodata")
    for band in arguments.bands or ():
        options += ["-b", band]
    library = {
        "skip_nodata": arguments.skip_nodata,
        "band_nums": [int(band) for band in arguments.bands or ("1",)],
    }
    command = Command(
        "gdal2xyz",
        tuple(options),
        (str(source),),
        output.inside,
        "inputs-output",
        as_array=library if as_array else None,
    )
    return Draft(command, (source,), (output,))


GDAL2XYZ = Tool(
    name="gdal2xyz",
    title="gdal2xyz",
    description="Writes the pixels of a raster as a table of x, y and band values. "
    'Example: {"dataset": "dem.tif", "dst_csv": "dem.csv", "skip_nodata": true}.',
    schema=schema_of(XyzArguments),
    draft=typed(XyzArguments, _draft),
    present=lambda answer: {"xyz_uri": answer.uri},
    own_keys={"xyz_uri": URI},
    required_keys=("xyz_uri",),
    like="raster as-features",
    writes=True,
    replaces=True,
)
