"""Frozen values of one call between validation and execution. Pure."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from gdal_mcp.remote.address import Address
from gdal_mcp.remote.places import label
from sandbox.outputs.store import Transfer
from sandbox.template import STAGING_TARGET, Limits
from sandbox.workspace import WorkspacePath

OutputKind = Literal["dataset", "table", "array", "file", "folder"]


class Effect(StrEnum):
    """The most that a call does to the workspace."""

    READ = "read"
    CREATE = "create"
    REPLACE = "replace"
    DESTROY = "destroy"  # files are taken away without others in their place
    CODE = "code"  # only in policies: the caller's code runs, whatever else the call does


@dataclass(frozen=True, slots=True)
class Output:
    """One dataset that a call writes, and the files that it replaces."""

    target: WorkspacePath
    kind: OutputKind = "dataset"
    update: bool = False  # the command works on a copy of what is there
    replaces: tuple[WorkspacePath, ...] = ()  # the old dataset's files, the main one first; kept for undo
    shared: tuple[
        WorkspacePath, ...
    ] = ()  # may belong to another dataset too: replaced if written again, else left
    server_named: bool = False  # the name is made up by the server, so that it never replaces anything

    @property
    def inside(self) -> str:
        return str(STAGING_TARGET / self.target.name)


@dataclass(frozen=True, slots=True)
class Command:
    """What runs in the container. Its operands are the inputs and the output, in the order of the classic programs."""

    program: str
    options: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    output: str | None = None
    output_first: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)  # further values that our own programs need

    @property
    def argv(self) -> tuple[str, ...]:
        """The same command as a command line; every path absolute."""
        output = (self.output,) if self.output is not None else ()
        operands = (*output, *self.inputs) if self.output_first else (*self.inputs, *output)
        return (self.program, *self.options, *operands)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a tool makes of its arguments: a command, and the files it touches.

    Every output, transfer and removal is in one workspace: they are published together or not at all.
    """

    command: Command
    inputs: tuple[WorkspacePath, ...]
    outputs: tuple[Output, ...] = ()
    copies: tuple[Transfer, ...] = ()  # to the place of an output in staging, before the command runs
    transfers: tuple[Transfer, ...] = ()  # renamed in the workspace once the command has succeeded
    removes: tuple[WorkspacePath, ...] = ()  # taken away then
    # of folders that are renamed or removed
    listings: Mapping[PurePosixPath, str] = field(default_factory=dict)
    # raises ToolError for what was printed
    verify: Callable[[Any], None] | None = field(default=None, compare=False)
    always_asked: bool = False  # a person decides, regardless of the server's setting
    code: str = ""  # that the caller wrote, and a person reads before it runs
    wants_json: bool = False  # what is printed is JSON
    allows: frozenset[str] = frozenset()  # codes of checks that would refuse it, and shall not
    looked_at: tuple[WorkspacePath, ...] = ()  # opened as well, but nothing is made of them: no digests
    # read by the host for the container, which sees them at /vsihost/NUMBER; `Remote` is their place among the inputs
    addresses: tuple[Address, ...] = ()
    # whole files by the argument that names them, where it is known
    named: tuple[tuple[str, WorkspacePath], ...] | None = None
    algorithm: str = ""  # the command of the `gdal` program that this is, or is most like
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # its arguments by canonical name
    chain: tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...] = ()  # of a pipeline: its steps with theirs
    # those that go off from it, each from where its data comes, and those that it reads from
    branches: tuple[tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...], ...] = ()
    steps: tuple[str, ...] = ()  # of a pipeline: the algorithms of all of them, those of branches too
    # of a workflow: the id and the command line of each step, in the order in which they run
    parts: tuple[tuple[str, str], ...] = ()
    detail: Any = field(default=None, compare=False)  # for the operation that made the draft
    # instead of the tool's own
    present: Callable[[Any], Mapping[str, Any]] | None = field(default=None, compare=False)

    @property
    def output(self) -> Output | None:
        return self.outputs[0] if self.outputs else None

    @property
    def writes(self) -> bool:
        return bool(self.outputs or self.transfers or self.removes)

    @property
    def display_command(self) -> tuple[str, ...]:
        """What a person is shown as the command: what the host does itself, where that is all that changes anything."""
        if self.outputs:
            return self.command.argv
        moves = [word for one in self.transfers for word in ("move", str(one.source), str(one.target))]
        return (*moves, *(("delete", *map(str, self.removes)) if self.removes else ())) or self.command.argv

    @property
    def touched(self) -> frozenset[Path]:
        places = [*(one.target for one in self.outputs), *self.removes]
        places += [place for one in self.transfers for place in (one.source, one.target)]
        return frozenset(located.workspace.root for located in places)


def effect_of(draft: Draft) -> Effect:
    if not draft.writes:
        return Effect.READ
    if draft.transfers or draft.removes:
        return Effect.DESTROY
    replaces = any(output.replaces or output.shared for output in draft.outputs)
    return Effect.REPLACE if replaces else Effect.CREATE


@dataclass(frozen=True)
class Plan:
    """Exactly what will run, on what, with which bounds. An approval is bound to `digest`."""

    call_id: str
    tool: str
    principal: str
    draft: Draft
    limits: Limits
    image_id: str
    runtime: str
    mounts: tuple[str, ...]
    arguments: Mapping[str, Any] = field(compare=False)
    # inputs, each with a file that goes with it by its name, such as the `.dbf` of a shapefile
    companions: tuple[tuple[WorkspacePath, WorkspacePath], ...] = ()
    hidden: str = (
        ""  # a keyed hash of the values in the addresses that are never shown; "" where there are none
    )
    # for the hosting, which derives limits and mounts above from it
    confines: Any = field(default=None, compare=False)

    @property
    def effect(self) -> Effect:
        return effect_of(self.draft)

    def beside(self, located: WorkspacePath) -> tuple[Path, ...]:
        """The files that go with an input by their names."""
        return tuple(found.path for one, found in self.companions if one == located)

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
            "addresses": [[str(one), list(one.sidecars)] for one in draft.addresses],
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
            "copies": [[_place(one.source), _place(one.target)] for one in draft.copies],
            "transfers": [[_place(one.source), _place(one.target)] for one in draft.transfers],
            "listings": {str(path): listing for path, listing in draft.listings.items()},
            "removes": [_place(located) for located in draft.removes],
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
        """The word without names that the server makes up: they differ with every call and never replace anything."""
        for output in self.draft.outputs:
            if output.server_named:
                word = word.replace(output.target.name, "<new file>")
        return word


def _place(located: WorkspacePath) -> list[Any]:
    identity = located.identity
    return [label(located), [identity.inode, identity.size, identity.mtime_ns] if identity else None]
