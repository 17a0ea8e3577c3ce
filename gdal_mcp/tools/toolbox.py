"""GDAL as a toolbox: everything that the server needs to know about it, in one value."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.policy.policy import Aliases
from gdal_mcp.remote.places import label
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.base import DraftScope, Permits, Tool
from gdal_mcp.toolboxes.gdal.answers.described import described, shortened
from gdal_mcp.toolboxes.gdal.answers.messages import suggestion_for, summarize_messages
from gdal_mcp.toolboxes.gdal.answers.next_steps import next_steps
from gdal_mcp.toolboxes.gdal.answers.report import read_json
from gdal_mcp.toolboxes.gdal.catalogue import store
from gdal_mcp.toolboxes.gdal.catalogue.load import catalogue_of, packaged, packaged_text
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths, companions
from gdal_mcp.toolboxes.gdal.datasets.scope import ADVICE, places
from gdal_mcp.toolboxes.gdal.datasets.sidecars import belongs
from gdal_mcp.toolboxes.gdal.discovery.entries import tool_name
from gdal_mcp.toolboxes.gdal.discovery.prompts import prompts
from gdal_mcp.toolboxes.gdal.environment import (
    ANSWER_SETTINGS,
    Environment,
    environment_in,
    gdal_threads,
    not_probed,
)
from gdal_mcp.toolboxes.gdal.faults import load_probed
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE
from gdal_mcp.toolboxes.gdal.preflight.description import absent_format, description_request
from gdal_mcp.toolboxes.gdal.preflight.expected import compared, expected, statement, type_range
from gdal_mcp.toolboxes.gdal.preflight.service import Preflight, is_judged
from gdal_mcp.toolboxes.gdal.preflight.sql.outline import outline_of
from gdal_mcp.toolboxes.gdal.preflight.suggested_calls import suggested_call_for_output
from gdal_mcp.toolboxes.gdal.worker_source import gdal_command
from gdal_mcp.toolboxes.toolbox import Analysis, Answering, Execution, Toolbox
from gdal_mcp.tools.algorithm import may_write
from gdal_mcp.tools.allow_argument import add_allow_argument
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.common import DraftContext
from gdal_mcp.tools.discover import GDAL_SEARCH
from gdal_mcp.tools.listing import core
from gdal_mcp.tools.remote import FETCH, REMOTE_LIST, STAC_SEARCH
from gdal_mcp.tools.run import direct_tool
from gdal_mcp.tools.upload import UPLOAD
from gdal_mcp.tools.validate import VALIDATE_CALL
from sandbox.program import source, worker_command

NAME = "gdal"
GROUPS = ("raster", "vector", "mdim", "dataset", "driver", "vsi")
REMOTE: Final = (STAC_SEARCH, REMOTE_LIST, FETCH)  # listed if the server reads anything over the network
# algorithms that a classic program may do in addition to the most similar one
_ADDITIONAL_ALGORITHMS: Final = MappingProxyType(
    {
        "gdal_translate": ("raster clip", "raster select"),
        "gdalwarp": ("raster mosaic",),
        "gdalbuildvrt": ("raster stack",),
        "gdal_merge": ("raster stack",),
    }
)
INSTRUCTIONS: Final = (
    "GDAL tools for rasters and vectors. What has no tool of its own is found with gdal_search, described by gdal_describe and "
    "run with gdal_read or gdal_write; validate_call tells what a call would do."
)
TOOLSETS = ("core", *GROUPS, "classic", "remote", "all")


def gdal(settings: Settings) -> Toolbox:
    """GDAL as it is in the image of these settings. Raises CatalogueBroken."""
    state_dir, image = settings.state_dir, settings.image
    absent = load_probed(state_dir, store.image_of(state_dir, image)).absent()
    return gdal_toolbox(store.select(state_dir, image), environment_in(state_dir), absent)


@cache
def gdal_toolbox(
    text: str, environment: Environment = not_probed, absent: frozenset[str] = frozenset()
) -> Toolbox:
    """GDAL as the data of a catalogue describes it. Raises CatalogueBroken.

    `absent` names the known faults that this image does not have.
    """
    catalogue = packaged() if text == packaged_text() and not absent else catalogue_of(text, absent)
    return Toolbox(
        name=NAME,
        title="GDAL",
        version=f"{catalogue.gdal_version} sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        image=GDAL_IMAGE,
        toolsets=_toolsets(catalogue),
        unlisted=("classic",),
        operation_hint="Call `gdal_read` or `gdal_write` with it as `algorithm`.",
        search=GDAL_SEARCH.name,
        operations=frozenset(catalogue.algorithms),
        aliases=aliases_of(catalogue),
        instructions=INSTRUCTIONS,
        prompts=partial(prompts, catalogue),
        upload=UPLOAD,
        execution=_execution(catalogue, environment),
        analysis=_analysis(catalogue),
        answering=_answering(catalogue),
    )


def _execution(catalogue: Catalogue, environment: Environment) -> Execution:
    return Execution(
        environment=environment,
        answer_settings=ANSWER_SETTINGS,
        program=gdal_command,
        request=partial(_request, catalogue),
        tool_version=lambda final: str(final.get("gdal_version", "")),
        version_request={"program": "version", "inputs": [], "outputs": [], "preview_pixels": 0},
        incompatible=catalogue.incompatible,
        compare=lambda: worker_command(source("gdal_mcp.toolboxes.gdal.inside", "compare_program.py")),
    )


def _analysis(catalogue: Catalogue) -> Analysis:
    return Analysis(
        context=partial(_context, catalogue),
        preflight=lambda limits: Preflight(limits, catalogue),
        validates=VALIDATE_CALL.name,
        companions=companions,
        mounts=places,
        mount_advice=ADVICE,
    )


def _answering(catalogue: Catalogue) -> Answering:
    return Answering(
        failure=Code.GDAL_ERROR,
        explain=partial(_explain, catalogue),
        describe=described,
        shorten=shortened,
        summarize=summarize_messages,
        suggest=suggestion_for,
        read_json=read_json,
        belongs=belongs,
        next_calls=partial(_next_calls, catalogue),
        suggested_call=partial(suggested_call_for_output, catalogue),
    )


def aliases_of(catalogue: Catalogue) -> Aliases:
    """GDAL's names that stand for others: `info` stands for `raster info`, `vector info` and so on."""
    generic: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for path in catalogue.algorithms:
        _, _, name = path.partition(" ")
        if name in catalogue.algorithms:
            generic[name] += (path,)
    return Aliases(generic, _ADDITIONAL_ALGORITHMS)


def _toolsets(catalogue: Catalogue) -> dict[str, Callable[[], tuple[Tool, ...]]]:
    def group(name: str) -> tuple[Tool, ...]:
        paths = (path for path in catalogue.algorithms if path.startswith(f"{name} "))
        return tuple(add_allow_argument(direct_tool(catalogue, path)) for path in paths)

    return {
        "core": lambda: tuple(map(add_allow_argument, core(catalogue))),
        **{name: partial(group, name) for name in GROUPS},
        "classic": lambda: tuple(map(add_allow_argument, CLASSIC)),
        "remote": lambda: REMOTE,
    }


def _context(catalogue: Catalogue, scope: DraftScope) -> DraftContext:
    threads, folder = gdal_threads(scope.limits), scope.settings.outputs_folder
    paths = Paths(scope.workspaces, folder, scope.call_id, threads, scope.as_new, remote=scope.remote)
    server = (scope.settings, scope.surface, scope.preflight)
    return DraftContext(paths, *server, catalogue, scope.verdict, scope.principal, scope.gateway)


def _request(catalogue: Catalogue, draft: Draft, preview_pixels: int) -> Mapping[str, Any]:
    command = draft.command
    return {
        "program": command.program,
        "argv": command.argv,
        "options": command.options,
        "inputs": command.inputs,
        "output": command.output,
        **description_request(draft, catalogue),
        "sources": tuple(str(located) for located in draft.inputs),
        "remote": bool(draft.addresses),
        "outputs": [output.job for output in draft.outputs],
        "expected": expected(draft),
        "statement": statement(draft),
        "outline": outline_of(str(command.extra["sql"])) if command.program == "query" else None,
        "compared": compared(draft),
        "type_range": type_range(draft),
        "judged": is_judged(draft, catalogue),
        "preview_pixels": preview_pixels,
        **command.extra,
    }


def _explain(catalogue: Catalogue, draft: Draft, final: Mapping[str, Any]) -> ToolError | None:
    """Explains an input in a format that this image lacks. GDAL only reports that it does not recognize it."""
    heads = final.get("heads")
    rows = zip(draft.inputs, heads if isinstance(heads, list) else (), strict=False)
    errors = (absent_format(catalogue, located.name, {"head": head}) for located, head in rows)
    return next((error for error in errors if error is not None), None)


def _next_calls(
    catalogue: Catalogue,
    draft: Draft,
    _arguments: Mapping[str, Any],
    outputs: Sequence[Mapping[str, Any]],
    surface: Permits,
) -> list[dict[str, Any]]:
    """Suggested calls as this server accepts them: with the algorithm's own tool, else with one that runs any
    algorithm.
    """
    served = {path for path in catalogue.algorithms if surface.permits(path)}
    rows = []
    inputs = [label(located) for name, located in draft.work.named or () if name == "input"]
    for step in next_steps(draft.work.algorithm, outputs, inputs, served):
        tool, arguments = tool_name(step.algorithm), dict(step.arguments)
        if tool not in surface.callable:
            tool = "gdal_write" if may_write(catalogue.algorithms[step.algorithm]) else "gdal_read"
            arguments = {"algorithm": step.algorithm, "arguments": arguments}
        if tool in surface.callable:
            rows.append({"tool": tool, "reason": step.reason, "arguments": arguments})
    return rows
