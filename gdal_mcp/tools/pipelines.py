"""`pipeline`: GDAL's pipelines, as a JSON list of steps or in GDAL's own notation, in one container.

Each step is bound like an algorithm. In the mixed pipeline a step may exist for rasters and for vectors
(`reproject`). All readings that fit together are considered, and a pipeline whose readings would be written
differently is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from gdal_mcp.plan import AlgorithmStep, Command, Draft, PrintedOutput, Work
from gdal_mcp.toolboxes.base import Arguments, Tool, named, schema_of, spelling
from gdal_mcp.toolboxes.gdal.catalogue.arguments import find_argument
from gdal_mcp.toolboxes.gdal.catalogue.binding import Bound, bind, render
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.model import DATASET_KINDS, Algorithm, Argument, PipelineStep, Role
from gdal_mcp.tools.algorithm import ResolvedPaths, binding_context, excluded, presented
from gdal_mcp.tools.common import WRITES_OUTPUT, DraftContext
from gdal_mcp.tools.notation import MAX_DEPTH, StepCall, parse_notation

MAX_STEPS = 50
MAX_BRANCHES = 8
# steps including all branches: each is bound and drafted, which costs about a millisecond
MAX_ALL_STEPS = 500
_TEE = "tee"
_INSTEAD = "Leave the step out, run it as `raster pipeline` or `vector pipeline` for the other kind of data"
Chain = tuple[AlgorithmStep, ...]
_NESTING = frozenset({"", "listed"})  # forms of a dataset that has only a path


@dataclass(frozen=True, slots=True)
class BoundStep:
    """One reading of a step."""

    step: PipelineStep
    bound: Bound
    # by argument: the nested pipeline that it reads
    nested: tuple[tuple[str, tuple["BoundStep", ...]], ...] = ()
    branches: tuple[tuple["BoundStep", ...], ...] = ()


class StepArguments(Arguments):
    step: Annotated[str, Field(min_length=1, max_length=60)]
    arguments: Mapping[str, Any] = Field(default_factory=dict)
    branches: Annotated[list[list["StepArguments"]], Field(max_length=MAX_BRANCHES)] | None = Field(
        None, description="Of `tee`: further lists of steps that take the same data"
    )


class PipelineArguments(Arguments):
    same_names = (("steps", "pipeline"),)
    steps: Annotated[
        Annotated[list[StepArguments], Field(min_length=1, max_length=MAX_STEPS)] | str,
        # pydantic's own schema is three times as long
        WithJsonSchema(
            {
                "type": ["array", "string"],
                "items": {
                    "type": "object",
                    "properties": {
                        "step": {"type": "string"},
                        "arguments": {"type": "object"},
                        "branches": {"type": "array", "description": "Of tee: lists of steps"},
                    },
                    "required": ["step"],
                },
                "description": "Steps, or GDAL's notation `read dem.tif ! ...`",
            }
        ),
    ]


def draft_pipeline(path: str, arguments: Mapping[str, Any], context: DraftContext) -> Draft:
    """Drafts one of GDAL's three pipeline commands, as called by gdal_read and gdal_write. Raises ToolError,
    ArgumentRefused.
    """
    without_quiet = {name: value for name, value in arguments.items() if name != "quiet"}
    pipeline = PipelineArguments.model_validate(named(PipelineArguments, without_quiet)).steps
    names = {step.name for step in context.catalogue.steps.values()}
    calls = parse_notation(pipeline, names) if isinstance(pipeline, str) else _from_json(pipeline)
    _refuse_many(calls)
    readings = _agreed(path, calls, context)
    steps = readings[0]
    flat = tuple(_flattened(steps))
    paths = ResolvedPaths(context)
    resolved = iter(paths.resolve([step.bound for step in flat]))
    # both lists have the steps in the same order
    words = _words(steps, lambda _bound: render(next(resolved)))
    outputs = paths.outputs()
    *branches, chain = _chains(steps)
    return Draft(
        Command("gdal", (*path.split(), *words)),
        paths.inputs,
        # the main output is that of the last step; outputs of branches belong to the same call
        (*outputs[-1:], *outputs[:-1]),
        work=Work(
            path, _arguments_of(flat), tuple(paths.named), chain, tuple(branches), _algorithms(readings)
        ),
        printed=PrintedOutput(
            present=presented(steps[-1].step.algorithm.path, steps[-1].bound.get("output-format"))
        ),
    )


def _algorithms(readings: Sequence[Sequence[BoundStep]]) -> tuple[str, ...]:
    """All algorithms that may run. GDAL chooses the reading after it has opened the data."""
    paths = (step.step.algorithm.path for reading in readings for step in _flattened(reading))
    return tuple(dict.fromkeys(paths))


def _refuse_many(calls: Sequence[StepCall]) -> None:
    """Limits the number of steps, including those of all branches. Each list has its own limit already."""
    level, count = list(calls), 0
    for _ in range(MAX_DEPTH + 1):
        count += len(level)
        level = [step for call in level for branch in call.branches for step in branch]
    if level or count > MAX_ALL_STEPS:
        raise ArgumentRefused(
            f"the pipeline has more than {MAX_ALL_STEPS} steps with those of its branches, or branches nested deeper than "
            f"{MAX_DEPTH} times.",
            "Split it into several calls.",
        )


def _from_json(steps: Sequence[StepArguments], depth: int = 0) -> tuple[StepCall, ...]:
    if depth > MAX_DEPTH:
        raise ArgumentRefused("the pipeline is nested too deeply.", f"Nest at most {MAX_DEPTH} times.")
    return tuple(_step_from_json(step, depth + 1) for step in steps)


def _step_from_json(step: StepArguments, depth: int) -> StepCall:
    """Converts a step in JSON.

    An argument whose value is `{"steps": [...]}`, or a list of such values, reads the result of that pipeline.
    """
    plain: dict[str, Any] = {}
    branches = [("", _from_json(branch, depth)) for branch in step.branches or ()]
    for name, value in step.arguments.items():
        values = value if isinstance(value, list) else [value]
        if not any(isinstance(part, Mapping) and "steps" in part for part in values):
            plain[name] = value
            continue
        inner = [PipelineArguments.model_validate(part).steps for part in values]
        if any(isinstance(steps, str) for steps in inner):
            raise ArgumentRefused("a nested pipeline is a list of steps.", 'Give {"steps": [{"step": ...}]}.')
        branches += [(name, _from_json(steps, depth)) for steps in inner if not isinstance(steps, str)]
    places, nested = zip(*branches, strict=True) if branches else ((), ())
    return StepCall(step.step, (), plain, nested, places)


def _agreed(
    path: str, calls: Sequence[StepCall], context: DraftContext, takes: str | None = None
) -> list[tuple[BoundStep, ...]]:
    """The readings of a pipeline, which are all written alike.

    Raises ArgumentRefused if there is none or if they differ, ToolError if one has a step that this server excludes.
    """
    if len(calls) > MAX_STEPS:
        raise ArgumentRefused(f"a pipeline has at most {MAX_STEPS} steps.", "Split it.")
    readings: list[tuple[BoundStep, ...]] = [()]
    for call in calls:
        readings = _extended(path, readings, call, context, takes)
    # paths are as the client wrote them, so readings that are written alike are equal
    written = {
        tuple(
            _words(
                reading, lambda bound: (f"{argument.name}={argument.values}" for argument in bound.arguments)
            )
        )
        for reading in readings
    }
    if len(written) > 1:
        raise ArgumentRefused(
            "the pipeline means one thing for rasters and another for vectors.",
            "Run it as `raster pipeline` or `vector pipeline` with gdal_write.",
        )
    without = next(
        (algorithm for algorithm in _algorithms(readings) if not context.surface.permits(algorithm)), None
    )
    if without is not None:
        raise excluded(without, _INSTEAD)
    return readings


def _extended(
    path: str, readings: list[tuple[BoundStep, ...]], call: StepCall, context: DraftContext, takes: str | None
) -> list[tuple[BoundStep, ...]]:
    """Every reading extended by each reading of one more step. Raises the first refusal if there is none."""
    extended: list[tuple[BoundStep, ...]] = []
    refusals: list[ArgumentRefused] = []
    variants = _variants(path, call.name, context)
    for reading in readings:
        flowing = reading[-1].step.gives if reading else takes
        for step in variants:
            if step.takes != flowing and not (flowing is None and step.takes is None):
                continue
            try:
                extended.append((*reading, _bound(path, step, call, context)))
            except ArgumentRefused as error:
                refusals.append(error)
    if extended:
        return extended
    if refusals:
        raise refusals[0]
    if not readings[0] and takes is None:
        raise ArgumentRefused(f"a pipeline does not begin with {call.name[:60]}.", "Begin with read.")
    if all(step.takes is None for step in variants):
        raise ArgumentRefused(
            f"the step {call.name[:60]} stands first: it reads files.",
            "Write what comes before it to a file, with a call of its own.",
        )
    raise ArgumentRefused(
        f"the step {call.name[:60]} does not take what the step before it gives.",
        "Rasters become vectors by polygonize, contour or the like, vectors become rasters by rasterize or grid.",
    )


def _variants(path: str, name: str, context: DraftContext) -> list[PipelineStep]:
    plain = spelling(name)
    variants = [
        step
        for step in context.catalogue.steps.values()
        if spelling(step.name) == plain and path in step.pipelines
    ]
    if not variants:
        raise ArgumentRefused(
            f"{name[:60]!r} is no step of `gdal {path}`.", "gdal_describe of the pipeline lists its steps."
        )
    if not any(context.surface.permits(step.algorithm.path) for step in variants):
        raise excluded(variants[0].algorithm.path, _INSTEAD)
    return variants


def _bound(path: str, step: PipelineStep, call: StepCall, context: DraftContext) -> BoundStep:
    algorithm = step.algorithm
    own = [branch for branch, place in zip(call.branches, call.places, strict=True) if not place]
    branches = tuple(
        _agreed(path, branch, context, takes=step.gives)[0] for branch in own if call.name == _TEE
    )
    if call.name == _TEE and not branches:
        raise ArgumentRefused(
            "tee has no branch.", 'Give "branches": lists of steps, or `tee [ write x.tif ]`.'
        )
    nested = tuple(
        (argument.name, _read_from(path, argument, branch, context))
        for argument, branch in _nested(algorithm, call)
    )
    names = [name for name, _ in nested]
    binding = replace(binding_context(context), taken=frozenset(names))
    bound = bind(algorithm, call.arguments, binding, call.words)
    twice = [
        name
        for name in names
        if bound.get(name) or (names.count(name) > 1 and not algorithm.long_names[name].is_list)
    ]
    if twice:
        raise ArgumentRefused(f"--{twice[0]} is given twice.", "Give it once, as a file or as a pipeline.")
    return BoundStep(step, bound, nested, branches)


def _nested(algorithm: Algorithm, call: StepCall) -> Iterator[tuple[Argument, tuple[StepCall, ...]]]:
    """The pipelines that are values of arguments. One without a name belongs to the first positional dataset, as in
    GDAL.
    """
    for branch, place in zip(call.branches, call.places, strict=True):
        if not place and call.name == _TEE:
            continue
        places = (
            argument
            for argument in algorithm.arguments
            if argument.positional and argument.role is Role.INPUT
        )
        argument = find_argument(algorithm, place.replace("_", "-")) if place else next(places, None)
        if argument is None or argument.role is not Role.INPUT or argument.rule.form not in _NESTING:
            raise ArgumentRefused(
                f"the step {call.name} takes no nested pipeline here.",
                "Name a file instead; a call of its own can write it first.",
            )
        yield argument, branch


def _read_from(
    path: str, argument: Argument, branch: Sequence[StepCall], context: DraftContext
) -> tuple[BoundStep, ...]:
    """The reading of a nested pipeline whose result the argument accepts. It starts without input and ends with data."""
    kinds = {DATASET_KINDS.get(kind) for kind in argument.dataset_kinds}
    for reading in _agreed(path, branch, context):
        if reading[-1].step.gives in kinds - {None}:
            return reading
    raise ArgumentRefused(
        f"the pipeline for --{argument.name} does not end with data that it takes.",
        f"End it with a step that gives {' or '.join(sorted(str(kind) for kind in kinds))} data, not with write.",
    )


def _flattened(steps: Sequence[BoundStep]) -> Iterator[BoundStep]:
    for step in steps:
        yield step
        for inner in (*(steps for _, steps in step.nested), *step.branches):
            yield from _flattened(inner)


def _chains(steps: Sequence[BoundStep], before: Chain = ()) -> Iterator[Chain]:
    """Each way from a step that reads data to a step where it ends, with their arguments. The pipeline itself comes
    last.
    """
    for step in steps:
        for _, inner in step.nested:
            yield from _chains(inner)
        for branch in step.branches:
            yield from _chains(branch, before)
        before = (*before, AlgorithmStep(step.step.algorithm.path, _arguments_of([step])))
    yield before


def _words(steps: Sequence[BoundStep], words_of: Callable[[Bound], Iterable[str]]) -> Iterator[str]:
    """The words of the command line. `words_of` returns the words of a step's arguments, in the order of
    `_flattened`.
    """
    for number, step in enumerate(steps):
        if number:
            yield "!"
        yield from step.step.name.split(" ")
        yield from words_of(step.bound)
        for name, inner in (*step.nested, *(("", branch) for branch in step.branches)):
            yield from (f"--{name}", "[") if name else ("[",)
            yield from _words(inner, words_of)
            yield "]"


def _arguments_of(steps: Sequence[BoundStep]) -> dict[str, tuple[str, ...]]:
    """The arguments of all steps by name. Values from several steps are joined in order."""
    values: dict[str, list[str]] = {}
    for step in steps:
        for argument in step.bound.arguments:
            values.setdefault(argument.name, []).extend(argument.values)
    return {name: tuple(values[name]) for name in sorted(values)}


PIPELINE = Tool(
    name="pipeline",
    title="Run a pipeline",
    description="Several steps on one dataset in one container, without files in between. Example: "
    '{"steps": [{"step": "read", "arguments": {"input": "dem.tif"}}, {"step": "hillshade"}, '
    '{"step": "write", "arguments": {"output": "shade.tif"}}]}.',
    schema=schema_of(PipelineArguments),
    draft=partial(draft_pipeline, "pipeline"),
    like="pipeline",
    **WRITES_OUTPUT,
)
