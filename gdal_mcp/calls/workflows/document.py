"""The workflow document: named steps, typed parameters, and the outputs that are published at the end. Pure.

A document is JSON; files may also be YAML. `${parameters.NAME}` stands for a parameter, `${steps.ID}` for the first
output of an earlier step, and `${steps.ID.outputs.N}` for its output number N, from 0. A string that is one reference
gets the type of its value; inside a longer string a reference is replaced by its text. `$${` is a literal `${`.

Invariants of a `Workflow`:
* step ids are unique, every reference leads to a declared parameter or to another step, and no step depends on
  itself;
* no two outputs are published at the same path.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gdal_mcp.calls.workflows.references import (
    ParameterReference,
    Reference,
    StepOutput,
    find,
    is_step_output,
    substitute,
)
from gdal_mcp.calls.workflows.wording import word

VERSION: Final = 1
MAX_BYTES: Final = (
    64 << 10
)  # bytes of a document; the largest of examples/workflows has 3 kB, and YAML of this size takes a second
MAX_REPLACED: Final = (
    1 << 20
)  # characters that replace the references of one step, or of the outputs, together
MAX_STEPS: Final = 50  # steps; a person has to read them before they approve
_ID: Final = r"^[a-z][a-z0-9_]{0,39}$"

ParameterType = Literal["path", "string", "number", "integer", "boolean"]
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "path": (str,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
}


class _DocumentPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Parameter(_DocumentPart):
    """A value that differs between runs. Required if it has no default."""

    type: ParameterType
    description: str = Field("", max_length=500)
    default: str | int | float | bool | None = None


class StepSpec(_DocumentPart):
    """One call. Its outputs stay private to the workflow unless `outputs` publishes them."""

    id: str = Field(pattern=_ID)
    tool: str = Field(max_length=100)
    arguments: dict[str, Any] = Field(default_factory=dict)
    after: tuple[str, ...] = Field((), description="Ids of further steps that must end first")


class Publish(_DocumentPart):
    """An output of a step, and the path in the workspace where it is published after every step has succeeded."""

    source: str = Field(alias="from", max_length=200, description="A reference such as ${steps.slope}")
    to: str = Field(max_length=1000, description="A path in a workspace; may use parameters")
    overwrite: bool = False


class WorkflowDocument(_DocumentPart):
    """The document as written. `Workflow` adds what is computed from it."""

    workflow: Literal[1] = Field(description="The version of this format")
    name: str = Field(pattern=_ID)
    title: str = Field("", max_length=200)
    description: str = Field("", max_length=2000)
    parameters: Annotated[dict[str, Parameter], Field(default_factory=dict, max_length=30)]
    steps: Annotated[tuple[StepSpec, ...], Field(min_length=1, max_length=MAX_STEPS)]
    outputs: Annotated[dict[str, Publish], Field(default_factory=dict, max_length=30)]


@dataclass(frozen=True, slots=True)
class Problem:
    """One error of a document. `step` and `argument` are empty if the problem is not in a step."""

    message: str
    step: str = ""
    argument: str = ""

    def __str__(self) -> str:
        place = ", ".join(
            [
                *([f"step {self.step!r}"] if self.step else []),
                *([f"argument {self.argument!r}"] if self.argument else []),
            ]
        )
        return f"{place}: {self.message}" if place else self.message


_TOO_LARGE: Final = Problem(f"the document is larger than {MAX_BYTES >> 10} kB")


class WorkflowInvalid(ValueError):
    """The document, or the parameters of a run, are not valid. `problems` lists all errors that were found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


@dataclass(frozen=True)
class Workflow:
    """A valid document with the values of its parameters."""

    document: WorkflowDocument
    values: Mapping[str, Any]

    @cached_property
    def steps(self) -> Mapping[str, StepSpec]:
        """The steps by id, ordered so that each comes after the steps it depends on. Deterministic."""
        by_id = {step.id: step for step in self.document.steps}
        order = [step_id for wave in self.waves for step_id in wave]
        return {step_id: by_id[step_id] for step_id in order}

    @cached_property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """Ids of steps in groups: the steps of a group do not depend on each other, only on earlier groups."""
        sorter = TopologicalSorter(dependencies(self.document))
        sorter.prepare()
        place = {step.id: number for number, step in enumerate(self.document.steps)}
        groups = []
        while sorter.is_active():
            ready = tuple(sorted(sorter.get_ready(), key=place.__getitem__))
            groups.append(ready)
            sorter.done(*ready)
        return tuple(groups)

    def arguments(self, step: str, outputs: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        """The arguments of a step with every reference replaced. `outputs` are the paths that earlier steps wrote, by id.

        Raises WorkflowInvalid for an output that an earlier step did not write.
        """
        own = next(spec for spec in self.document.steps if spec.id == step)
        missing: list[Problem] = []

        def value_of(reference: Reference) -> Any:
            if isinstance(reference, ParameterReference):
                return self.values[reference.name]
            paths = outputs.get(reference.step, ())
            if reference.number < len(paths):
                return paths[reference.number]
            missing.append(Problem(f"step {reference.step!r} has no output number {reference.number}", step))
            return ""

        resolved: dict[str, Any] = substitute(own.arguments, _bounded(value_of, step))
        if missing:
            raise WorkflowInvalid(missing)
        return resolved

    @cached_property
    def published(self) -> tuple[tuple[StepOutput, str, bool], ...]:
        """The published outputs: the output of a step, its path in a workspace, and whether it may replace a file
        there.
        """
        rows, value_of = [], _bounded(lambda ref: self.values[ref.name])
        for output in self.document.outputs.values():
            source = next(iter(find(output.source)))
            assert isinstance(source, StepOutput)
            rows.append((source, str(substitute(output.to, value_of)), output.overwrite))
        return tuple(rows)

    @cached_property
    def canonical(self) -> str:
        """The document and its values as canonical JSON. An approval of the workflow is bound to this text and to the
        inputs.
        """
        value = {
            "document": self.document.model_dump(mode="json", by_alias=True),
            "values": dict(self.values),
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _bounded(value_of: Callable[[Any], Any], step: str = "") -> Callable[[Any], Any]:
    """The values, limited in total length, because a short document could expand to gigabytes. Raises
    WorkflowInvalid.
    """
    total = 0

    def counted(reference: Any) -> Any:
        nonlocal total
        value = value_of(reference)
        total += len(str(value))
        if total > MAX_REPLACED:
            raise WorkflowInvalid(
                [Problem("the values of its references are longer than a megabyte together", step)]
            )
        return value

    return counted


def load(text: str | bytes) -> WorkflowDocument:
    """Parses a document from JSON or YAML text. Raises WorkflowInvalid.

    Aliases of YAML are not expanded, because a short text could then expand to gigabytes.
    """
    data = text.encode() if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        raise WorkflowInvalid([_TOO_LARGE])
    try:
        value = yaml.load(data, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader without aliases; JSON is a subset of YAML
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise WorkflowInvalid(
            [Problem(f"the document is neither JSON nor YAML: {str(error)[:300]}")]
        ) from error
    return parse(value)


class _PlainLoader(yaml.SafeLoader):
    """YAML with only the types of JSON: no aliases, tags or dates; `no`, `on`, `010`, `1:30` and `.nan` are text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        if getattr(self.peek_event(), "tag", None) is not None:  # type: ignore[no-untyped-call]
            raise yaml.YAMLError("tags are not allowed")
        return super().compose_node(parent, index)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag.endswith(":null")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern, _first in (
    ("bool", r"(?:true|false)", "tf"),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
):
    _PlainLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^{_pattern}$", re.ASCII), list(_first)
    )


def parse(value: Any) -> WorkflowDocument:
    """A document from a JSON value. Raises WorkflowInvalid with every problem."""
    try:
        if len(json.dumps(value)) > MAX_BYTES:
            raise WorkflowInvalid([_TOO_LARGE])
        document = WorkflowDocument.model_validate(value)
    except ValidationError as error:
        raise WorkflowInvalid(Problem(*wording) for wording in word(value, error)) from error
    except RecursionError as error:
        raise WorkflowInvalid([Problem("the document is nested too deeply")]) from error
    problems = [
        *_find_duplicate_ids(document),
        *_check_references(document),
        *_check_outputs(document),
        *_check_defaults(document),
    ]
    if not problems:
        problems += _find_cycle(document)
    if problems:
        raise WorkflowInvalid(problems)
    return document


def bind(document: WorkflowDocument, parameters: Mapping[str, Any]) -> Workflow:
    """The workflow with values for its parameters. Raises WorkflowInvalid."""
    declared = document.parameters
    problems = [
        Problem(f"there is no parameter {name!r}; the workflow has {', '.join(declared) or 'none'}")
        for name in parameters
        if name not in declared
    ]
    values: dict[str, Any] = {}
    for name, parameter in declared.items():
        value = parameters.get(name, parameter.default)
        if value is None:
            problems.append(Problem(f"the parameter {name!r} has no default, so it needs a value"))
        elif not _fits(value, parameter.type):
            problems.append(
                Problem(f"the parameter {name!r} must be a {parameter.type}, not {str(value)[:80]!r}")
            )
        values[name] = value
    if problems:
        raise WorkflowInvalid(problems)
    return Workflow(document, values)


def read_value(text: str, kind: ParameterType) -> Any:
    """The value of a parameter from text, as on a command line. Raises ValueError."""
    if kind in ("path", "string"):
        return text
    value = json.loads(text)
    if not _fits(value, kind):
        raise ValueError(f"{text!r} is not a {kind}")
    return value


def dependencies(document: WorkflowDocument) -> dict[str, set[str]]:
    """The ids of the steps that must end before each step."""
    return {
        step.id: {*step.after, *(reference.step for reference in _steps_in(step.arguments))}
        for step in document.steps
    }


def _steps_in(value: Any) -> Iterator[StepOutput]:
    return (reference for reference in find(value) if isinstance(reference, StepOutput))


def _fits(value: Any, kind: ParameterType) -> bool:
    return isinstance(value, _PYTHON[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _find_duplicate_ids(document: WorkflowDocument) -> Iterator[Problem]:
    seen: set[str] = set()
    for step in document.steps:
        if step.id in seen:
            yield Problem("another step has the same id", step.id)
        seen.add(step.id)


def _check_references(document: WorkflowDocument) -> Iterator[Problem]:
    ids = {step.id for step in document.steps}
    for step in document.steps:
        for name in step.after:
            if name not in ids:
                yield Problem(f"there is no step {name!r}", step.id, "after")
        for argument, value in step.arguments.items():
            for problem in _find_unknown_references(value, document, ids):
                yield Problem(problem, step.id, argument)


def _find_unknown_references(value: Any, document: WorkflowDocument, ids: set[str]) -> Iterator[str]:
    try:
        references = list(find(value))
    except ValueError as error:
        yield str(error)
        return
    for reference in references:
        if isinstance(reference, StepOutput) and reference.step not in ids:
            yield f"there is no step {reference.step!r}"
        if isinstance(reference, ParameterReference) and reference.name not in document.parameters:
            yield f"there is no parameter {reference.name!r}"


def _check_outputs(document: WorkflowDocument) -> Iterator[Problem]:
    ids = {step.id for step in document.steps}
    for name, output in document.outputs.items():
        unknown = [
            *_find_unknown_references(output.source, document, ids),
            *_find_unknown_references(output.to, document, ids),
        ]
        yield from (Problem(f"output {name!r}: {text}") for text in unknown)
        if unknown:
            continue
        if not is_step_output(output.source):
            example = f"${{steps.{document.steps[0].id}}}"
            yield Problem(f"output {name!r}: `from` must be one reference to a step, such as {example}")
        if any(isinstance(ref, StepOutput) for ref in find(output.to)):
            yield Problem(f"output {name!r}: `to` may use parameters only")
    targets = [PurePosixPath(output.to) for output in document.outputs.values()]
    for target in {path for path in targets if targets.count(path) > 1}:
        yield Problem(f"two outputs are published as {target}")


def _check_defaults(document: WorkflowDocument) -> Iterator[Problem]:
    for name, parameter in document.parameters.items():
        if parameter.default is not None and not _fits(parameter.default, parameter.type):
            yield Problem(f"the default of parameter {name!r} is not a {parameter.type}")


def _find_cycle(document: WorkflowDocument) -> Iterator[Problem]:
    try:
        TopologicalSorter(dependencies(document)).prepare()
    except CycleError as error:
        steps = " -> ".join(error.args[1])
        yield Problem(f"steps depend on each other in a circle: {steps}")
