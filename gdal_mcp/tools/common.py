"""Parts that several tools share: the context of a draft, types of arguments, and commands with one input and one
output.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, Output, Work
from gdal_mcp.policy.policy import Policy, Verdict, case, decide
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import Arguments, CallAnswer, Permits
from gdal_mcp.toolboxes.gdal.catalogue.binding import bind_either, render
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.model import Argument, Catalogue, Role
from gdal_mcp.toolboxes.gdal.catalogue.schema import SAME_NAMES
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths, Source
from gdal_mcp.toolboxes.gdal.preflight.service import Preflight

# a single text is accepted for a list, and numbers separated by commas
Listed = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Packed = BeforeValidator(lambda value: value.split(",") if isinstance(value, str) else value)
Options = Annotated[
    Mapping[str, str | int | float | bool] | Sequence[str],
    Listed,
    # pydantic's own schema is ten times as long, and every client reads it for every such argument
    WithJsonSchema({"type": ["object", "array"]}),
]


def _in_degrees(box: list[float]) -> list[float]:
    west, south, east, north = box
    if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90):
        raise ValueError(
            "bbox is west, south, east, north in degrees; west is above east across the antimeridian"
        )
    return box


Number = Annotated[float, Field(allow_inf_nan=False)]
Box = Annotated[list[Number], Packed, Field(min_length=4, max_length=4)]
DegreesBox = Annotated[
    list[Number],
    Field(min_length=4, max_length=4, description="West, south, east, north in degrees"),
    AfterValidator(_in_degrees),
]
DatasetPath = Annotated[str, Field(description="Dataset in a workspace")]
OutputPath = Annotated[str, Field(description="Where to write; the folder must exist")]
NewPath = Annotated[str, Field(description="Where to write; left out, a new file in the outputs folder")]
ExtraArguments = Annotated[
    list[str],
    Listed,
    Field(max_length=100, description='More switches of the command: ["--input-layer=roads"]'),
]

URI: Final[Mapping[str, Any]] = {"type": "string"}


def present_output(answer: CallAnswer) -> dict[str, Any]:
    """The path and URI of the first output; empty if the call had none."""
    return {"output": answer.output, "resource_uri": answer.uri} if answer.output is not None else {}


# properties of a tool that writes a dataset, whose path and URI are in its result
WRITES_OUTPUT: Final[Mapping[str, Any]] = {
    "writes": True,
    "replaces": True,
    "present": present_output,
    "own_keys": {"output": URI, "resource_uri": URI},
}


class DatasetArguments(Arguments):
    """Arguments of a tool that reads or writes a dataset. The names that algorithms and classic programs use are
    accepted too.
    """

    same_names = SAME_NAMES


@dataclass(frozen=True)
class DraftContext:
    """The workspaces, GDAL's catalogue, what this server permits, and the policy's settings for drafts of this
    caller.
    """

    paths: Paths
    settings: Settings
    surface: Permits
    preflight: Preflight
    catalogue: Catalogue
    verdict: Callable[[str, Draft], Verdict] = lambda tool, draft: decide(case(draft, tool, ""), Policy())
    principal: str = ""
    gateway: RemoteGateway | None = None  # reads remote data


def gdal_command(
    path: str,
    algorithms: Sequence[str],
    call_arguments: tuple[Mapping[str, Any], Sequence[str]],
    context: DraftContext,
    ends: tuple[Source, Output],
) -> Draft:
    """The draft of `gdal PATH` with one input and one output, and with arguments and further words that one of these
    algorithms accepts.

    Both paths are positional and absolute: the shortcut commands do not report why a dataset could not be opened when
    it is given as --input. Raises ToolError, ArgumentRefused.
    """
    source, output = ends
    if source.name.endswith("=?") or output.inside.endswith("=?"):
        raise ArgumentRefused("a name ends with =?, which asks GDAL for completions.", "Use another name.")
    binding = Context(context.catalogue, output.target.name, threads=context.paths.threads)
    bound = bind_either([context.catalogue.algorithms[name] for name in algorithms], *call_arguments, binding)
    read = [source.located]

    def resolve(argument: Argument, text: str) -> str:
        if argument.role is not Role.INPUT:
            raise ToolError(
                Code.INVALID_ARGUMENT,
                Stage.RESOLVE,
                "extra_args may only name inputs.",
                "Use the tool's own output.",
            )
        other = context.paths.source(text)
        read.append(other.located)
        return other.name

    resolved = bound.resolve(resolve)
    return Draft(
        Command("gdal", (*path.split(), *render(resolved), source.name, output.inside)),
        tuple(read),
        (output,),
        work=Work(
            bound.path,
            {argument.name: argument.values for argument in bound.arguments},
            (("input", source.located), *(("other", located) for located in read[1:])),
        ),
    )
