"""`run_python`: its arguments, how they are used, and its description for the model."""

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import Field, field_validator

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, Output, OutputKind, PrintedOutput, Review, Work
from gdal_mcp.toolboxes.base import Arguments, CallAnswer, DraftScope, Tool, schema_and_draft
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.toolboxes.untrusted import UNTRUSTED
from gdal_mcp.toolboxes.wheels import WheelImage
from sandbox.workspace import WorkspacePath

NAME: Final = "run_python"
PYTHON_IMAGE: Final = WheelImage("python")
SHOWN: Final = (  # packages in the image, in the order of the description for the model
    *("numpy", "scipy", "pandas", "geopandas", "pyogrio", "shapely", "pyproj", "rasterio"),
    *("xarray", "pyarrow", "networkx", "scikit-learn", "matplotlib"),
)
LONGEST_CODE: Final = 64 << 10  # characters; a person has to read the code
MOST_LINES: Final = 2000  # lines; two codes of this length are compared within a fifth of a second
SHARE_OF_TIME: Final = 0.9  # share of a call's time for its code, so that its output can still be reported
_KINDS: Final[Mapping[str, OutputKind]] = {".csv": "table", ".tsv": "table", ".npy": "array"}

_Path = Annotated[str, Field(min_length=1, max_length=4096)]


class RunPythonArguments(Arguments):
    code: str = Field(
        description="Python; the value of a last expression comes back", max_length=LONGEST_CODE
    )
    inputs: list[_Path] = Field(
        [], description="Files and folders of the workspaces; the code sees no others", max_length=64
    )
    outputs: list[_Path] = Field(
        [],
        description="Files to write, or folders with a `/` at the end; anything else is lost",
        max_length=32,
    )
    timeout: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Seconds; the server's own limit is the most"
    )
    arguments: dict[str, Any] = Field({}, description="JSON values for the code")

    @field_validator("code")
    @classmethod
    def _is_text(cls, code: str) -> str:
        if "\0" in code or not code.strip():
            raise ValueError("it is Python, without zero bytes")
        if code.count("\n") + code.count("\r") >= MOST_LINES:
            raise ValueError(f"a person reads it, so it has at most {MOST_LINES} lines")
        code.encode()  # half of a surrogate pair is not text; a UnicodeError is a ValueError
        return code


def run_python_tool() -> Tool:
    packages = ", ".join(f"{name} {PYTHON_IMAGE.locked[name]}" for name in SHOWN)
    return Tool(
        name=NAME,
        title="Run Python",
        description=f"""Runs Python beside the data, for what no other tool does. A person approves each call after reading the code, so keep it short and plain.
Packages: GDAL (osgeo, with exceptions), {packages}.
`from gdal_mcp_job import inputs, outputs, arguments, progress, result`: `inputs["a.tif"]` is the path to read and `outputs["b.tif"]` the path to write for the names of the call; `result(value)` returns JSON (NaN becomes null), `progress(0.5, "half")` tells how far it is.
Back come the last expression's value, what was printed, `result`, open Matplotlib figures as pictures, and a description of each output.
1. {{"code": "import rasterio\\nfrom gdal_mcp_job import inputs\\nwith rasterio.open(inputs['dem.tif']) as dem:\\n    band = dem.read(1, masked=True)\\nfloat(band.mean())", "inputs": ["dem.tif"]}}
2. {{"code": "import geopandas\\nfrom gdal_mcp_job import *\\nroads = geopandas.read_file(inputs['roads.gpkg'])\\nroads.to_crs(3035).buffer(arguments['metres']).to_file(outputs['near.gpkg'])\\nresult({{'roads': len(roads)}})", "inputs": ["roads.gpkg"], "outputs": ["near.gpkg"], "arguments": {{"metres": 50}}}}
3. {{"code": "import networkx\\nfrom gdal_mcp_job import *\\ngraph = networkx.Graph(arguments['edges'])\\nresult(networkx.shortest_path(graph, 1, 3))", "arguments": {{"edges": [[1, 2], [2, 3]]}}}}
Not there: network, pip, other files of the workspaces, subprocess pools, a display, anything of an earlier call.""",
        **schema_and_draft(RunPythonArguments, _draft),
        writes=True,
        replaces=True,
        present=present,
        like=NAME,
    )


def _draft(arguments: RunPythonArguments, scope: DraftScope) -> Draft:
    paths = Paths(scope.workspaces, scope.settings.outputs_folder, scope.call_id, as_new=scope.as_new)
    inputs = {text: paths.input(text) for text in arguments.inputs}
    outputs = {text: _output(text, paths, tuple(inputs.values())) for text in arguments.outputs}
    _refuse_unpublishable(tuple(outputs.values()))
    located = tuple(dict.fromkeys(inputs.values()))
    most = scope.limits.wall_seconds * SHARE_OF_TIME
    digest = hashlib.sha256(arguments.code.encode()).hexdigest()
    extra = {
        "code": arguments.code,
        "arguments": arguments.arguments,
        "named": {text: str(located) for text, located in inputs.items()},
        "written": {text: output.inside for text, output in outputs.items()},
        "seconds": min(arguments.timeout or most, most),
    }
    return Draft(
        Command("python", (f"sha256:{digest}",), tuple(map(str, located)), extra=extra),
        located,
        tuple(outputs.values()),
        work=Work(NAME),
        printed=PrintedOutput(is_json=True),
        review=Review(always_needs_approval=True, code=arguments.code),
    )


def _output(text: str, paths: Paths, inputs: tuple[WorkspacePath, ...]) -> Output:
    by_name = _KINDS.get(PurePosixPath(text).suffix.lower(), "dataset")
    kind: OutputKind = "folder" if text.endswith("/") else by_name
    return paths.output(text.rstrip("/") or text, inputs=inputs, overwrite=True, kind=kind)


def _refuse_unpublishable(outputs: tuple[Output, ...]) -> None:
    """Raises ToolError for outputs that cannot be staged and published together."""
    if len({output.target.name for output in outputs}) != len(outputs):
        what = "two outputs have the same name"
        fix = "Give each output a name of its own, even in another folder."
    elif len({output.target.workspace.root for output in outputs}) > 1:
        what, fix = "the outputs are in several workspaces", "Write all of them to one workspace."
    else:
        return
    what = f"{what}; they are published together or not at all."
    raise ToolError(Code.INVALID_ARGUMENT, Stage.RESOLVE, what, fix)


def present(answer: CallAnswer) -> Mapping[str, Any]:
    """The tool's answer: all of it is the code's own report, about data that anybody may have written."""
    report = answer.parsed if isinstance(answer.parsed, dict) else {}
    keys = ("result", "value", "printed", "printed_bytes_dropped")
    return {UNTRUSTED: {key: report[key] for key in keys if key in report}}
