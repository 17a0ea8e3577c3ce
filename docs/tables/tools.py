"""Tables of the tools, of GDAL's algorithms, and of what is known about them."""

from collections import Counter

from docs.tables.markdown import Lines, Parts, first_sentence, table, words
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import Tool
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import Role
from gdal_mcp.toolboxes.gdal.datasets.operations import ALWAYS_ASKED, FILE_OPERATIONS
from gdal_mcp.toolboxes.gdal.discovery.prompts import prompts
from gdal_mcp.toolboxes.gdal.faults import faults
from gdal_mcp.toolboxes.gdal.preflight.predict import effect
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.listing import core
from gdal_mcp.tools.toolbox import TOOLSETS


def _tools() -> Lines:
    def effect(tool: Tool) -> str:
        if not tool.runs:
            return "tells"
        return "writes, may replace" if tool.replaces else "writes" if tool.writes else "reads"

    rows = [
        (f"`{tool.name}`", effect(tool), first_sentence(tool.description))
        for tool in (*core(packaged()), *CLASSIC)
    ]
    yield from table(("tool", "effect", "what it does"), rows)


def _toolsets() -> Lines:
    """The tools of each toolset, as a server with only that toolset lists them."""
    rows = []
    for name, text in words("toolsets", TOOLSETS).items():
        alone = Settings.model_construct(toolsets=(name,), tools=(), exclude_tools=(), read_only=False)
        rows.append((f"`{name}`", str(len(toolboxes(alone).surface(alone).listed)), text))
    yield from table(("toolset", "tools", "what is in it"), rows)


def _algorithms() -> Lines:
    """Every command of `gdal` by its first word, with a mark for file operations."""
    groups: dict[str, list[str]] = {}
    for path in packaged().algorithms:
        first, _, rest = path.partition(" ")
        mark = (path in FILE_OPERATIONS) * "\\*" + (path in ALWAYS_ASKED) * "\\*"
        groups.setdefault(first if rest else "", []).append(f"{rest or first}{mark}")
    rows = [
        (f"`{name}`" if name else "", str(len(names)), ", ".join(names)) for name, names in groups.items()
    ]
    yield from table(("gdal", "commands", "names"), rows)
    yield ""
    yield (
        "\\* a file operation: the files of a dataset are recognised by their names, and links are not followed. "
        "\\*\\* Also asks for approval each time, whatever `approval` says."
    )


def _predictions() -> Lines:
    """The commands of `gdal` by what the check of a workflow predicts about their outputs."""
    rows: dict[str, list[str]] = {
        "raster: size, extent, CRS, bands, data type, nodata value": [],
        "layer: CRS, geometry type, fields": [],
        "as its last step or its input": [],
        "not predicted": [],
        "no output": [],
        "changes files in place, so it cannot be a step": [],
    }
    raster, layer, by_step, unknown, reads, changes = rows.values()
    for path, algorithm in packaged().algorithms.items():
        roles = {argument.role for argument in algorithm.arguments}
        kind = {"raster": raster, "layer": layer}.get(effect(path))
        if kind is None and (path == "convert" or path.endswith("pipeline")):
            kind = by_step
        if kind is None:
            kind = changes if Role.UPDATE in roles else unknown if Role.OUTPUT in roles else reads
        kind.append(f"`{path}`")
    yield from table(
        ("output", "commands", "names"),
        ((name, str(len(paths)), ", ".join(paths)) for name, paths in rows.items()),
    )


def _roles() -> Lines:
    """Numbers of arguments of algorithms and pipeline steps, by role."""
    catalogue = packaged()
    algorithms = Counter(
        argument.role for algorithm in catalogue.algorithms.values() for argument in algorithm.arguments
    )
    steps = Counter(
        argument.role for step in catalogue.steps.values() for argument in step.algorithm.arguments
    )
    sentences = words("roles", Role)
    rows = [(f"`{role}`", sentences[str(role)], str(algorithms[role]), str(steps[role])) for role in Role]
    yield from table(("role", "what the server does with it", "of algorithms", "of steps"), rows)


def _prompts() -> Lines:
    rows = [
        (
            f"`{prompt.name}`",
            ", ".join(f"`{value.name}`" for value in prompt.values),
            first_sentence(prompt.description),
        )
        for prompt in prompts(packaged()).values()
    ]
    yield from table(("prompt", "values", "what it is for"), rows)


def _gdal_faults() -> Lines:
    """Known faults of GDAL, as `gdal-mcp doctor` shows them for the image in use."""
    for name, fault in faults().items():
        link = f"[{fault.seen}]({fault.upstream})" if fault.upstream else fault.seen
        yield f"- **`{name}`** ({link}; {'probed' if fault.probe else 'not probed'}). When: {fault.condition}. {fault.effect} {fault.workaround}"


PARTS: Parts = {
    "tools": _tools,
    "toolsets": _toolsets,
    "algorithms": _algorithms,
    "predictions": _predictions,
    "roles": _roles,
    "prompts": _prompts,
    "gdal-faults": _gdal_faults,
}
