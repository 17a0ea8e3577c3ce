"""What several tools share: option texts, numbers, and the result of the GDAL commands that write."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from gdal_mcp.tools.model import Answer, Written

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
