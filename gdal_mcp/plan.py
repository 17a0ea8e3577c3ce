"""Frozen values of one call between validation and execution. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from sandbox.template import STAGING_TARGET, Limits
from sandbox.workspace import Located


class Effect(StrEnum):
    """The most that a call does to the workspace."""

    READ = "read"
    CREATE = "create"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Output:
    """One dataset that a call writes, and what stands in its place now."""

    target: Located
    kind: Literal["dataset", "table", "array"] = "dataset"
    update: bool = False  # the command works on a copy of what is there
    replaces: tuple[Located, ...] = ()  # the old dataset's files, the main one first; kept for undo
    shared: tuple[Located, ...] = ()  # may be another dataset's as well: replaced if written anew, else left
    server_named: bool = False  # the name is made up by the server, so that it never replaces anything

    @property
    def inside(self) -> str:
        """The path under which the container writes it."""
        return str(STAGING_TARGET / self.target.name)


@dataclass(frozen=True, slots=True)
class Command:
    """What runs in the container. `layout` is the order of the classic programs' operands."""

    program: str
    options: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    output: str | None = None
    layout: Literal["none", "inputs-output", "output-inputs"] = "none"
    as_array: Mapping[str, Any] | None = None  # gdal2xyz as a numpy file: arguments of the library function

    @property
    def argv(self) -> tuple[str, ...]:
        """The same command as a command line; every path absolute."""
        output = (self.output,) if self.output is not None else ()
        operands = {
            "none": (),
            "inputs-output": (*self.inputs, *output),
            "output-inputs": (*output, *self.inputs),
        }
        return (self.program, *self.options, *operands[self.layout])


@dataclass(frozen=True, slots=True)
class Draft:
    """What a tool makes of its arguments: a command, and the places it touches."""

    command: Command
    inputs: tuple[Located, ...]
    output: Output | None = None
    wants_json: bool = False  # what is printed is JSON


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

    @property
    def effect(self) -> Effect:
        output = self.draft.output
        if output is None:
            return Effect.READ
        return Effect.REPLACE if output.replaces or output.shared else Effect.CREATE

    @cached_property
    def canonical(self) -> str:
        """The plan as canonical JSON: everything that an approval is about, without the call's own id."""
        output = self.draft.output
        value = {
            "tool": self.tool,
            "principal": self.principal,
            "argv": [self._nameless(word) for word in self.draft.command.argv],
            "inputs": [_place(located) for located in self.draft.inputs],
            "output": self._nameless(str(output.target)) if output else None,
            "kind": output.kind if output else None,
            "update": output.update if output else False,
            "replaces": [_place(located) for located in output.replaces] if output else [],
            "shared": [_place(located) for located in output.shared] if output else [],
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
        """A name that the server makes up differs with every call and never replaces anything: not part of the digest."""
        output = self.draft.output
        return word.replace(output.target.name, "<new file>") if output and output.server_named else word


def _place(located: Located) -> list[Any]:
    identity = located.identity
    return [str(located), [identity.inode, identity.size, identity.mtime_ns] if identity else None]
