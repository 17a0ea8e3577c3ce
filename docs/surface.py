"""What a client can ask for: tools, toolsets, algorithms, roles of arguments, prompts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from docs.page import complete, first_sentence, table
from gdal_mcp.gdal.catalogue.load import catalogue, packaged
from gdal_mcp.gdal.catalogue.model import Algorithm, Role
from gdal_mcp.gdal.datasets.operations import ALWAYS_ASKED, FILE_OPERATIONS
from gdal_mcp.mcp.prompts import prompts
from gdal_mcp.settings import Settings
from gdal_mcp.toolbox import Tool
from gdal_mcp.toolboxes import toolboxes
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.listing import core
from gdal_mcp.tools.toolbox import TOOLSETS

SETS: Mapping[str, str] = {
    "core": "what is picked by hand, and the four tools that reach the rest; listed when nothing is said",
    "raster": "one tool for each algorithm of `gdal raster`",
    "vector": "one tool for each algorithm of `gdal vector`",
    "mdim": "multidimensional data, such as netCDF and Zarr",
    "dataset": "identify, check, copy, rename and delete datasets of any kind",
    "driver": "what belongs to one format, such as the check of a Cloud Optimized GeoTIFF",
    "vsi": "files, folders and seek-optimised ZIP archives",
    "classic": "the eight classic programs",
    "all": "everything",
}

ROLES: Mapping[Role, str] = {
    Role.INPUT: "looked up in the workspaces; a dataset or file that is read",
    Role.OUTPUT: "sent to staging and published when all went well",
    Role.UPDATE: "worked on as a copy, which then takes the place of the file",
    Role.SIDECAR: "a further file beside the output",
    Role.VALUE: "checked: a number, a choice, a name, an option of the allow-lists; opens nothing",
    Role.EXPRESSION: "read by a parser of ours: SQL, formulas, geometries, pipelines",
    Role.HOST_OWNED: "decided by the server, such as whether to replace",
    Role.FORBIDDEN: "never passed on, with the reason in the answer",
}


def tools() -> Iterator[str]:
    rows = [
        (f"`{tool.name}`", _effect(tool), first_sentence(tool.description))
        for tool in (*core(packaged()), *CLASSIC)
    ]
    yield from table(("tool", "effect", "what it does"), rows)


def _effect(tool: Tool) -> str:
    if not tool.runs:
        return "tells"
    return "writes, may replace" if tool.replaces else "writes" if tool.writes else "reads"


def toolsets() -> Iterator[str]:
    """What each toolset lists, as a server with it alone does."""
    complete("toolset", set(TOOLSETS), set(SETS))
    rows = [(f"`{name}`", str(len(_listed(name))), SETS[name]) for name in TOOLSETS]
    yield from table(("toolset", "tools", "what is in it"), rows)


def _listed(toolset: str) -> tuple[Tool, ...]:
    chosen = Settings.model_construct(toolsets=(toolset,), tools=(), exclude_tools=(), read_only=False)
    return toolboxes(chosen).surface(chosen).listed


def algorithms() -> Iterator[str]:
    """Every command of `gdal` by its first word; those marked run their last part on the host."""
    groups: dict[str, list[str]] = {}
    for path in catalogue().algorithms:
        first, _, rest = path.partition(" ")
        groups.setdefault(first if rest else "", []).append(f"{rest or first}{_mark(path)}")
    rows = [
        (f"`{name}`" if name else "", str(len(found)), ", ".join(found)) for name, found in groups.items()
    ]
    yield from table(("gdal", "commands", "names"), rows)
    yield ""
    yield (
        "\\* a file operation: what belongs to a dataset is told by its name, and links are not followed. "
        "\\*\\* And a person is asked each time, whatever `approval` says."
    )


def _mark(path: str) -> str:
    return (path in FILE_OPERATIONS) * "\\*" + (path in ALWAYS_ASKED) * "\\*"


def roles() -> Iterator[str]:
    """How many arguments of the algorithms and of the steps of pipelines have which role."""
    complete("role", set(Role), set(ROLES))
    found = catalogue()
    algorithms = _count(found.algorithms.values())
    steps = _count(step.algorithm for step in found.steps.values())
    rows = [(f"`{role}`", ROLES[role], str(algorithms[role]), str(steps[role])) for role in Role]
    yield from table(("role", "what the server does with it", "of algorithms", "of steps"), rows)


def _count(algorithms: Iterable[Algorithm]) -> Counter[Role]:
    return Counter(argument.role for one in algorithms for argument in one.arguments)


def prompt_rows() -> Iterator[str]:
    rows = [
        (
            f"`{one.name}`",
            ", ".join(f"`{value.name}`" for value in one.values),
            first_sentence(one.description),
        )
        for one in prompts().values()
    ]
    yield from table(("prompt", "values", "what it is for"), rows)
