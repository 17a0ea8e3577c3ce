"""Drafts calls of any algorithm of the catalogue: binds the arguments, resolves the paths, and sends the outputs to
staging.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, Output, OutputKind, PrintedOutput, Work
from gdal_mcp.toolboxes.base import CallAnswer, last_words, nearest_tool, spelling
from gdal_mcp.toolboxes.gdal.answers.report import full_report, summary
from gdal_mcp.toolboxes.gdal.catalogue.binding import Bound, bind, render
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context, extra_formats
from gdal_mcp.toolboxes.gdal.catalogue.formats import usual_driver
from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm, Argument, Catalogue, Role
from gdal_mcp.toolboxes.gdal.datasets.operations import FILE_OPERATIONS
from gdal_mcp.toolboxes.gdal.datasets.paths import Reading, Source
from gdal_mcp.tools.common import DraftContext
from sandbox.workspace import WorkspacePath

PIPELINES = frozenset({"pipeline", "raster pipeline", "vector pipeline"})
_KINDS: Mapping[str, OutputKind] = {"output-tree": "folder", "archive": "file", "file": "file"}
_DESCRIBES = frozenset({"info", "raster info", "vector info", "mdim info"})
_FORMATS = frozenset({"output_format", "format", "of", "f"})
_REPORTS = frozenset({("json",), ("text",)})  # formats that are not formats of a dataset
_PENDING = "/staging/pending"  # the placeholder for an output while only the inputs are resolved


def algorithm_named(name: str, context: DraftContext) -> Algorithm:
    """An algorithm by its command path, however it is spelt: `raster hillshade`, `raster_hillshade`, `gdal raster hillshade`.

    Raises ToolError for one that does not exist or that this server excludes.
    """
    path = path_named(context.catalogue, name)
    if path is None:
        # similar names among those of this server: by the whole path, or only by its last word
        paths = {
            spelling(algorithm_path): algorithm_path
            for algorithm_path in context.catalogue.algorithms
            if context.surface.permits(algorithm_path)
        }
        paths = last_words(paths.values()) | paths
        near = nearest_tool(name, paths)
        meant = f"Did you mean `{near}`? " if near else ""
        raise ToolError(
            Code.NOT_FOUND,
            Stage.LOOKUP,
            "GDAL has no algorithm of that name.",
            f"{meant}Names are command paths such as `raster hillshade`; gdal_search finds them.",
        )
    if not context.surface.permits(path):
        raise excluded(path, "Use another algorithm")
    return context.catalogue.algorithms[path]


def excluded(path: str, fix: str) -> ToolError:
    problem = f"this server was started without {path}.", f"{fix}, or ask the person who runs the server."
    return ToolError(Code.DENIED, Stage.POLICY, *problem)


def path_named(catalogue: Catalogue, name: str) -> str | None:
    """The path of the algorithm with this name, in any spelling; None if there is no such algorithm."""
    plain = spelling(name)
    return next((path for path in catalogue.algorithms if spelling(path) == plain), None)


def may_write(algorithm: Algorithm) -> bool:
    """True if a call of the algorithm can change anything: it has an output, or changes files itself."""
    return (
        algorithm.path in FILE_OPERATIONS
        or algorithm.path in PIPELINES
        or any(argument.role in (Role.OUTPUT, Role.UPDATE) for argument in algorithm.arguments)
    )


def draft_algorithm(algorithm: Algorithm, arguments: Mapping[str, Any], context: DraftContext) -> Draft:
    """The draft of an algorithm that is neither a pipeline nor one of the host's own. Raises ToolError, ArgumentRefused."""
    arguments = _with_format(context.catalogue, algorithm, arguments)
    bound = bind(algorithm, _explicit(algorithm, arguments), binding_context(context))
    paths = ResolvedPaths(context)
    [resolved] = paths.resolve([bound])
    return Draft(
        Command("gdal", (*algorithm.path.split(), *render(resolved))),
        paths.inputs,
        paths.outputs(),
        work=Work(
            algorithm.path,
            {argument.name: argument.values for argument in bound.arguments},
            tuple(paths.named),
        ),
        printed=PrintedOutput(present=presented(algorithm.path, _FORMATS & set(map(spelling, arguments)))),
    )


def presented(path: str, output_format: object) -> Callable[[CallAnswer], Mapping[str, Any]] | None:
    """A function that shortens the description of a dataset; None for other algorithms.

    Callers who set an `output_format` get the full description.
    """
    if path not in _DESCRIBES:
        return None
    return full_report if output_format else summary


def _explicit(algorithm: Algorithm, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same arguments with a JSON report unless they name another format.

    So the displayed command is the one that runs: as a program, GDAL prints text by default; as a library, JSON.
    """
    report = algorithm.long_names.get("output-format")
    spelled = {spelling(name): name for name in arguments}
    formats = [spelled[name] for name in _FORMATS & spelled.keys()]
    # GDAL hides the argument if JSON is its only format, as for mdim info
    if report and report.hidden and [arguments[name] for name in formats] == ["json"]:
        return {name: value for name, value in arguments.items() if name not in formats}
    if report is None or formats:
        return arguments
    if "crs_format" in spelled:  # it only applies to text, and GDAL refuses it for JSON
        return {**arguments, report.name: "text"}
    reports = {"json", "text"} <= {*report.choices, *extra_formats(report)} and "output" not in spelled
    return {**arguments, report.name: "json"} if reports else arguments


def _with_format(
    catalogue: Catalogue, algorithm: Algorithm, arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The arguments, with a format added if the output has a common extension that GDAL does not know."""
    names = {spelling(name) for name in arguments}
    output = arguments.get("output")
    takes = algorithm.long_names.get("output-format")
    if takes is None or names & _FORMATS or not isinstance(output, str) or names & {"update", "append"}:
        return arguments
    driver = usual_driver(catalogue, output, algorithm.makes or algorithm.kind)
    return arguments if driver is None else {**arguments, takes.name: driver}


def binding_context(context: DraftContext) -> Context:
    return Context(context.catalogue, threads=context.paths.threads, allow_sql=context.settings.allow_sql)


@dataclass
class ResolvedPaths:
    """The resolved paths of one call. Inputs come first, because an output must not be one of them."""

    context: DraftContext
    named: list[tuple[str, WorkspacePath]] = field(
        default_factory=list
    )  # whole files and folders, by argument
    _inputs: list[WorkspacePath | Source] = field(default_factory=list)
    _outputs: dict[str, Output] = field(default_factory=dict)
    _sources: dict[str, Source] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[WorkspacePath, ...]:
        paths = (source.located if isinstance(source, Source) else source for source in self._inputs)
        return tuple(dict.fromkeys(paths))

    def outputs(self) -> tuple[Output, ...]:
        """Outputs that can be published together. Raises ToolError if they are in several workspaces or have the same
        name.
        """
        outputs = tuple(self._outputs.values())
        if len({output.target.workspace.root for output in outputs}) > 1:
            what, fix = "the outputs are in several workspaces", "Write all of them to one workspace."
        elif len({output.target.name for output in outputs}) != len(outputs):
            what = "two outputs have the same name"
            fix = "Give each output a name of its own, even in another folder."
        else:
            return outputs
        raise ToolError(
            Code.INVALID_ARGUMENT, Stage.RESOLVE, f"{what}; they are published together or not at all.", fix
        )

    def resolve(self, parts: Sequence[Bound]) -> tuple[Bound, ...]:
        """The same arguments with paths in the container. Call it once. Raises ToolError."""
        recursive = any(bound.get("recursive") == ("true",) for bound in parts)
        for bound in parts:
            lists = bound.path == "vsi list"
            bound.resolve(partial(self._input, recursive=recursive, lists=lists))
        read = Reading(self._inputs)
        return tuple(bound.resolve(partial(self._any, bound, read)) for bound in parts)

    def _input(self, argument: Argument, text: str, *, recursive: bool, lists: bool = False) -> str:
        if argument.role is not Role.INPUT:
            return _PENDING
        if lists and text.startswith("/vsi"):  # a file inside an archive
            source = self._source(text)
            self._inputs.append(source)
            return source.name
        if recursive or argument.rule.form == "recursive folder":
            located = self.context.paths.tree(text)
            self._inputs.append(located)
            self.named.append((argument.name, located))
            return str(located)
        source = self._source(text)
        self._inputs.append(source)
        if source.is_plain:  # for a part of a file, the file's own header does not apply
            self.named.append((argument.name, source.located))
        return source.name

    def _source(self, text: str) -> Source:
        if text not in self._sources:
            self._sources[text] = self.context.paths.source(text)
        return self._sources[text]

    def _any(self, bound: Bound, read: Reading, argument: Argument, text: str) -> str:
        """The path inside the container of an input or output that an argument names. Replacing and updating apply to
        the step's own outputs only.
        """
        if argument.role is Role.INPUT:
            return self._source(text).name
        in_place = argument.role is Role.UPDATE  # changed in a copy, which then replaces it
        form = "file" if bound.get("output-format") in _REPORTS else argument.rule.form
        output = self.context.paths.output(
            text,
            inputs=read,
            overwrite=bound.has_mode("replace") and not in_place,
            update=bound.has_mode("update") or in_place,
            kind="dataset" if in_place else _KINDS.get(form, "dataset"),
        )
        if in_place and output.target.identity is None:
            raise ToolError(
                Code.NOT_FOUND,
                Stage.RESOLVE,
                f"{output.target.name} does not exist, so it cannot be changed.",
                "Check the name; relative paths start at the first workspace.",
            )
        return self._outputs.setdefault(text, output).inside
