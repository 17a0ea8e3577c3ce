"""Frozen values of one call between validation and execution. Pure."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from gdal_mcp.remote.address import Address
from gdal_mcp.remote.places import label
from sandbox.outputs.store import Transfer
from sandbox.template import STAGING_TARGET, Limits
from sandbox.workspace import WorkspacePath

OutputKind = Literal["dataset", "table", "array", "file", "folder"]


class Effect(StrEnum):
    """The strongest effect of a call on the workspace."""

    READ = "read"
    CREATE = "create"
    REPLACE = "replace"
    DESTROY = "destroy"  # files are removed or renamed without replacement
    CODE = "code"  # only in policies: the call runs the caller's code, whatever else it does


@dataclass(frozen=True, slots=True)
class Output:
    """One dataset that a call writes, and the files that it replaces."""

    target: WorkspacePath
    kind: OutputKind = "dataset"
    update: bool = False  # the command works on a copy of the existing dataset
    replaces: tuple[WorkspacePath, ...] = ()  # files of the existing dataset, main file first; kept for undo
    shared: tuple[
        WorkspacePath, ...
    ] = ()  # files that may also belong to another dataset; replaced only if the call writes them
    server_named: bool = False  # the server generated the name, so it never replaces anything

    @property
    def inside(self) -> str:
        return str(STAGING_TARGET / self.target.name)

    @property
    def job(self) -> Mapping[str, Any]:
        """The output as GDAL's worker reads it in a job."""
        replaces = str(self.replaces[0]) if self.replaces else None
        return {"path": self.inside, "kind": self.kind, "replaces": replaces, "updates": self.update}


@dataclass(frozen=True, slots=True)
class Command:
    """The command in the container. Operands are the inputs and the output, in the order of the classic utilities."""

    program: str
    options: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    output: str | None = None
    output_first: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)  # further values for our own programs

    @property
    def argv(self) -> tuple[str, ...]:
        """The command line, with absolute paths."""
        output = (self.output,) if self.output is not None else ()
        operands = (*output, *self.inputs) if self.output_first else (*self.inputs, *output)
        return (self.program, *self.options, *operands)


class AlgorithmStep(NamedTuple):
    """One algorithm with its arguments by canonical name."""

    algorithm: str
    arguments: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a call as policies, checks and advice see it: its algorithm, or the steps of a pipeline."""

    algorithm: str = ""  # the `gdal` command that the call runs, or the most similar one
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by canonical name
    # (argument, path) of inputs that are whole files or folders; None if the arguments are not known
    named: tuple[tuple[str, WorkspacePath], ...] | None = None
    chain: tuple[AlgorithmStep, ...] = ()  # the steps of a pipeline, without its branches
    # for a pipeline: each branch, from the step that reads its data, and the nested pipelines that the branch reads
    # from
    branches: tuple[tuple[AlgorithmStep, ...], ...] = ()
    algorithms: tuple[str, ...] = ()  # of a pipeline: those of all steps, including those of branches

    @property
    def steps(self) -> tuple[AlgorithmStep, ...]:
        """The steps of a pipeline; any other work is a single step."""
        return self.chain or (AlgorithmStep(self.algorithm, self.arguments),)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files that the host copies, renames and removes before and after the command."""

    copies: tuple[Transfer, ...] = ()  # copied to the path of an output in staging, before the command runs
    transfers: tuple[Transfer, ...] = ()  # renamed in the workspace after the command has succeeded
    removes: tuple[
        WorkspacePath, ...
    ] = ()  # removed after the command has succeeded, a folder with its contents
    # listings of folders that are renamed or removed
    listings: Mapping[PurePosixPath, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PrintedOutput:
    """The treatment of the command's printed output."""

    is_json: bool = False
    verify: Callable[[Any], None] | None = None  # raises ToolError for an output that shows a failure
    present: Callable[[Any], Mapping[str, Any]] | None = None  # replaces the tool's own `present`


@dataclass(frozen=True, slots=True)
class Review:
    """The parts of a call that a person reviews, in addition to its files."""

    always_needs_approval: bool = False  # the call needs approval, regardless of the server's setting
    code: str = ""  # the caller's code, which a person reads before it runs
    # of a workflow: the id and the command line of each step, in the order of execution
    steps: tuple[tuple[str, str], ...] = ()
    time: str = ""  # of a workflow: the expected time, as a sentence


@dataclass(frozen=True, slots=True)
class Draft:
    """The work that a tool derives from its arguments: a command, and the files it touches.

    All outputs, transfers and removals are in one workspace: they are published together or not at all.
    """

    command: Command
    inputs: tuple[WorkspacePath, ...]
    outputs: tuple[Output, ...] = ()
    files: FileChanges = FileChanges()
    work: Work = Work()
    printed: PrintedOutput = field(default=PrintedOutput(), compare=False)
    review: Review = Review()
    allows: frozenset[str] = frozenset()  # codes of checks that must not refuse this call
    # files that are opened too, but no output is made from them, so they are not digested
    looked_at: tuple[WorkspacePath, ...] = ()
    # remote data that the host reads for the container, which sees it at /vsihost/NUMBER; a `Remote` stands for it in
    # `inputs`
    addresses: tuple[Address, ...] = ()
    detail: Any = field(default=None, compare=False)  # private data of the operation that made the draft

    def like(self, algorithm: str) -> "Draft":
        """The draft with `algorithm` as its most similar algorithm, unless it already names one."""
        return self if self.work.algorithm else replace(self, work=replace(self.work, algorithm=algorithm))

    @property
    def output(self) -> Output | None:
        return self.outputs[0] if self.outputs else None

    @property
    def named_inputs(self) -> tuple[tuple[str, WorkspacePath], ...]:
        """The inputs with the arguments that name them; `input` for all if the arguments are not known."""
        return (
            tuple(("input", located) for located in self.inputs)
            if self.work.named is None
            else self.work.named
        )

    @property
    def writes(self) -> bool:
        return bool(self.outputs or self.files.transfers or self.files.removes)

    @property
    def display_command(self) -> tuple[str, ...]:
        """The command to display: the renames and deletions of the host if nothing else changes files."""
        if self.outputs:
            return self.command.argv
        moves = [
            word
            for transfer in self.files.transfers
            for word in ("move", str(transfer.source), str(transfer.target))
        ]
        return (
            *moves,
            *(("delete", *map(str, self.files.removes)) if self.files.removes else ()),
        ) or self.command.argv

    @property
    def touched(self) -> frozenset[Path]:
        places = [*(output.target for output in self.outputs), *self.files.removes]
        places += [place for transfer in self.files.transfers for place in (transfer.source, transfer.target)]
        return frozenset(located.workspace.root for located in places)


def effect_of(draft: Draft) -> Effect:
    if not draft.writes:
        return Effect.READ
    if draft.files.transfers or draft.files.removes:
        return Effect.DESTROY
    replaces = any(output.replaces or output.shared for output in draft.outputs)
    return Effect.REPLACE if replaces else Effect.CREATE


@dataclass(frozen=True)
class Plan:
    """The exact command, files and limits of a call. An approval is bound to `digest`."""

    call_id: str
    tool: str
    principal: str
    draft: Draft
    limits: Limits
    image_id: str
    runtime: str
    mounts: tuple[str, ...]
    arguments: Mapping[str, Any] = field(compare=False)
    # (input, companion) pairs; a companion belongs to an input by its name, such as the `.dbf` of a shapefile
    companions: tuple[tuple[WorkspacePath, WorkspacePath], ...] = ()
    hidden: str = ""  # keyed hash of the values in addresses that are never shown; "" if there are none
    # for `Hosting`, which derives the limits and mounts above from it
    confines: Any = field(default=None, compare=False)

    @property
    def effect(self) -> Effect:
        return effect_of(self.draft)

    def beside(self, located: WorkspacePath) -> tuple[Path, ...]:
        """The companions of an input."""
        return tuple(companion.path for owner, companion in self.companions if owner == located)

    @cached_property
    def canonical(self) -> str:
        """The plan as canonical JSON: everything that an approval covers, without the call's id."""
        draft = self.draft
        value = {
            "tool": self.tool,
            "principal": self.principal,
            "argv": [self._nameless(word) for word in draft.command.argv],
            "extra": dict(draft.command.extra),
            "inputs": [_place(located) for located in draft.inputs],
            "companions": [_place(beside) for _, beside in self.companions],
            "addresses": [[str(address), list(address.sidecars)] for address in draft.addresses],
            "hidden": self.hidden,
            "outputs": [
                {
                    "path": self._nameless(str(output.target)),
                    "kind": output.kind,
                    "update": output.update,
                    "replaces": [_place(located) for located in output.replaces],
                    "shared": [_place(located) for located in output.shared],
                }
                for output in draft.outputs
            ],
            "copies": [[_place(copy.source), _place(copy.target)] for copy in draft.files.copies],
            "transfers": [
                [_place(transfer.source), _place(transfer.target)] for transfer in draft.files.transfers
            ],
            "listings": {str(path): listing for path, listing in draft.files.listings.items()},
            "removes": [_place(located) for located in draft.files.removes],
            "limits": asdict(self.limits),
            "image": self.image_id,
            "runtime": self.runtime,
            "mounts": list(self.mounts),
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    def _nameless(self, word: str) -> str:
        """The word without names that the server generated: they differ in every call and never replace anything."""
        for output in self.draft.outputs:
            if output.server_named:
                word = word.replace(output.target.name, "<new file>")
        return word


def _place(located: WorkspacePath) -> list[Any]:
    identity = located.identity
    return [label(located), [identity.inode, identity.size, identity.mtime_ns] if identity else None]
