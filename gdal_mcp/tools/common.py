"""What several tools share: option texts, numbers, and the result of the GDAL commands that write."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from gdal_mcp.catalogue.binding import Bound, render
from gdal_mcp.catalogue.load import catalogue
from gdal_mcp.catalogue.model import Algorithm, Role
from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.paths import Paths
from gdal_mcp.plan import Command, Draft, Output
from gdal_mcp.tools.model import Answer, Written
from sandbox.workspace import Located

Options = Annotated[
    Mapping[str, str | int | float | bool] | Sequence[str],
    Field(description='GDAL options, as {"COMPRESS": "DEFLATE"} or ["COMPRESS=DEFLATE"]'),
]
Number = Annotated[float, Field(allow_inf_nan=False)]
DatasetPath = Annotated[
    str, Field(description="Dataset in a workspace: relative to the first workspace, absolute, or file:///")
]
OutputPath = Annotated[
    str, Field(description="Where to write, in a writable workspace; its folder must exist")
]
NewPath = Annotated[
    str, Field(description="Where to write; left out, a uniquely named file in the outputs folder")
]


ExtraArguments = Annotated[
    list[str],
    Field(
        max_length=100,
        description='More switches of the GDAL command, such as ["--input-layer=roads", "--skip-errors"]; paths in them are '
        "resolved like any path, and what is not known to be safe is refused",
    ),
]


class CommandResult(Written):
    """The result of `gdal convert` and its like."""

    output: str = Field(description="Absolute path of the published output")
    resource_uri: str | None = Field(description="file:// URI of the output, readable as an MCP resource")
    stderr: str = Field(description="What GDAL printed on stderr: untrusted text")


def present_command(answer: Answer) -> dict[str, Any]:
    return {"output": answer.output, "resource_uri": answer.uri, "stderr": answer.stderr}


def option_texts(options: Mapping[str, Any] | Sequence[str] | None) -> tuple[str, ...]:
    """KEY=VALUE texts of options given either way; true and false become YES and NO."""
    if options is None:
        return ()
    if isinstance(options, Mapping):
        return tuple(f"{key}={_option_value(value)}" for key, value in options.items())
    return tuple(options)


def _option_value(value: Any) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def numbers(values: Sequence[float]) -> str:
    return ",".join(number(value) for value in values)


def algorithms(*paths: str) -> tuple[Algorithm, ...]:
    """Algorithms of the catalogue by their command paths, such as `raster convert`."""
    return tuple(catalogue().algorithms[path] for path in paths)


def gdal_command(path: str, bound: Bound, paths: Paths, ends: tuple[Located, Output]) -> Draft:
    """`gdal PATH` from an input to an output.

    Both are positional: they are absolute, and the shortcut commands do not say why a dataset could not be opened when it
    is given as --input.
    """
    source, output = ends
    more: list[Located] = []

    def resolve(role: Role, text: str) -> str:
        if role is not Role.INPUT:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.RESOLVE,
                "extra_args may only name inputs.",
                "Use the tool's own output.",
            )
        more.append(paths.input(text))
        return str(more[-1])

    words = render(bound.resolve(resolve))
    command = Command("gdal", (*path.split(), *words, str(source), output.inside))
    return Draft(command, (source, *more), output)
