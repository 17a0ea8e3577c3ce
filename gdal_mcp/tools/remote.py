"""Tools for remote data: `stac_search` and `remote_list` find it, by requests of the server; `fetch` copies it."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from gdal_mcp.calls.refusals import denied
from gdal_mcp.plan import Command, Draft, Work
from gdal_mcp.remote.address import Address, is_address
from gdal_mcp.remote.budgets import Meter
from gdal_mcp.remote.finding import keys, search
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.toolboxes.base import Arguments, ImmediateResult, Tool, schema_and_draft
from gdal_mcp.toolboxes.gdal.catalogue.endings import usual_name
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.untrusted import UNTRUSTED, clean_value
from gdal_mcp.tools.common import WRITES_OUTPUT, DegreesBox, DraftContext, OutputPath

_DAY: Final = r"(\.\.|\d{4}(-\d\d(-\d\d(T\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d))?)?)?)"
_WHEN: Final = f"^{_DAY}(/{_DAY})?$"
_NEXT: Final = 5  # suggested calls
_DATA: Final = tuple(".tif .tiff .zarr .gpkg .fgb .parquet .shp .geojson .geojsonl .vrt .jp2 .nc .h5".split())


class StacSearchArguments(Arguments):
    api: str = Field(description="Address of a STAC API, as https://host/v1", max_length=2000)
    bbox: DegreesBox | None = None
    datetime: str | None = Field(
        None, description="RFC 3339, or a range as 2024-01-01/2024-02-01", max_length=100, pattern=_WHEN
    )
    collections: Annotated[list[str], Field(max_length=20)] | None = None
    query: dict[str, Any] | None = Field(None, description='As {"eo:cloud_cover": {"lt": 10}}')
    limit: Annotated[int, Field(ge=1, le=100)] = 10


class RemoteListArguments(Arguments):
    prefix: str = Field(description="Folder of a bucket, as s3://bucket/folder/", max_length=2000)
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


def _stac_search(arguments: StacSearchArguments, context: DraftContext) -> ImmediateResult:
    gateway = _gateway(context)
    api = gateway.address(arguments.api, context.principal)
    query = arguments.model_dump(include={"bbox", "datetime", "collections", "query"}, exclude_none=True)

    def ask(meter: Meter) -> Mapping[str, Any]:
        items = search(gateway, meter, api, query, arguments.limit)
        assets = (address for _, addresses in items for address in addresses)
        return {
            "count": len(items),
            "remote": {"host": api.host, "requests": meter.requests, "bytes": meter.read},
            UNTRUSTED: clean_value({"items": [item for item, _ in items]}),
            **_next(assets, "Describes an asset that was found."),
        }

    return ImmediateResult(ask=ask, addresses=(api,))


def _remote_list(arguments: RemoteListArguments, context: DraftContext) -> ImmediateResult:
    gateway = _gateway(context)
    folder = gateway.address(f"{arguments.prefix.rstrip('/')}/", context.principal)

    def ask(meter: Meter) -> Mapping[str, Any]:
        rows = keys(gateway, meter, folder, arguments.limit + 1)
        shown = rows[: arguments.limit]
        entries = [
            {"name": row.name}
            | ({"folder": True} if row.is_folder else {"size": row.size, "modified": row.modified})
            for row, _ in shown
        ]
        datasets = (address for row, address in shown if usual_name(row.name).endswith(_DATA))
        return {
            "count": len(shown),
            "more": len(rows) > len(shown),
            "remote": {"host": folder.host, "requests": meter.requests, "bytes": meter.read},
            UNTRUSTED: clean_value({"entries": entries}),
            **_next(datasets, "Describes one of what is listed."),
        }

    return ImmediateResult(ask=ask, addresses=(folder,))


def _gateway(context: DraftContext) -> RemoteGateway:
    """The access to remote data. Raises ToolError if this server reads none."""
    if context.gateway is None:
        raise denied("nothing remote is read here")
    return context.gateway


def _next(addresses: Iterable[Address | None], reason: str) -> Mapping[str, Any]:
    """Suggests calls for addresses, which were parsed and are allowed, in their canonical spelling."""
    known = list(dict.fromkeys(str(address) for address in addresses if address is not None))[:_NEXT]
    rows = [{"tool": "info", "reason": reason, "arguments": {"path": text}} for text in known]
    return {"next": rows} if rows else {}


_ASKS: Final[Mapping[str, Any]] = {"writes": False, "runs": False, "reaches_out": True}

STAC_SEARCH: Final = Tool(
    name="stac_search",
    title="Search a STAC API",
    description="Items of a STAC API by place, time and properties, with the addresses of their assets.",
    **schema_and_draft(StacSearchArguments, _stac_search),
    **_ASKS,
)

REMOTE_LIST: Final = Tool(
    name="remote_list",
    title="List a bucket",
    description="Files and folders below a folder of a bucket, with their sizes.",
    **schema_and_draft(RemoteListArguments, _remote_list),
    **_ASKS,
)


class FetchArguments(Arguments):
    url: str = Field(
        description="Address of a file, as https://host/x.tif or s3://bucket/x.tif", max_length=4000
    )
    output: OutputPath
    overwrite: bool = False


def _fetch(arguments: FetchArguments, context: DraftContext) -> Draft:
    """Drafts a copy of remote data.

    The container copies the file, and opens it as a dataset before it is published, as with every output.
    """
    if not is_address(arguments.url):
        advice = "Write it as https://host/file; files of a workspace are copied with dataset copy."
        raise ArgumentRefused("url is no address of remote data.", advice)
    source = context.paths.source(arguments.url)
    if source.located.is_folder:
        raise ArgumentRefused(
            "fetch brings one file, and that address stands for a folder of them.",
            "Convert it instead, which reads no more than it needs.",
        )
    output = context.paths.output(arguments.output, inputs=(source,), overwrite=arguments.overwrite)
    return Draft(
        Command("gdal", ("vsi", "copy", source.name, output.inside)),
        (source.located,),
        (output,),
        work=Work("vsi copy", named=(("source", source.located),)),
    )


FETCH: Final = Tool(
    name="fetch",
    title="Fetch a remote file",
    description="Brings a whole remote file into a workspace, once GDAL could read it as a dataset.",
    **schema_and_draft(FetchArguments, _fetch),
    required_keys=("output", "resource_uri"),
    like="vsi copy",
    **WRITES_OUTPUT,
)
