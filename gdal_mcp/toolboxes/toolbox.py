"""A tool library, as one frozen value: its tools, and what the server asks it before, during and after a call.

The server knows a toolbox by this value alone. `Analysis` is what is asked before a container starts, `Execution` what runs in
the container, `Answering` what becomes of its answer. GDAL's toolbox is made in `gdal_mcp.tools.toolbox`. Every field that is a
function has a default that suits a library with files in and files out.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.policy.policy import Aliases
from gdal_mcp.remote.places import local
from gdal_mcp.toolboxes.base import DraftScope, Permits, Prompt, Tool
from gdal_mcp.toolboxes.preflight import NoPreflight, Preflight
from sandbox.template import Limits
from sandbox.workspace import WorkspacePath


@dataclass(frozen=True, slots=True)
class Described:
    """One output as it was opened again: `facts` are ours to vouch for, `names` are texts of the file, untrusted."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[Mapping[str, Any], ...] = ()
    # numbers that say how much it holds, and how much what it replaces held; none where that is not known
    amounts: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LibraryMessage:
    """A message of the library, cleaned, and how often it came."""

    text: str
    count: int = 1
    level: str = "warning"


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """What is made of the messages of a job that ended well: checks in our words, and the messages, folded."""

    checks: tuple[Mapping[str, Any], ...]
    texts: tuple[str, ...]


def _request(draft: Draft, _preview_pixels: int) -> Mapping[str, Any]:
    command = draft.command
    return {
        "program": command.program,
        "argv": command.argv,
        "inputs": command.inputs,
        "outputs": [{"path": output.inside, "kind": output.kind} for output in draft.outputs],
        **command.extra,
    }


# the call that corrects an output: by a check of it and its row of the result
SuggestedCall = Callable[[Draft, Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any] | None]
NextCalls = Callable[[Draft, Mapping[str, Any], Sequence[Mapping[str, Any]], Permits], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ImageSpec:
    # official images by the word that set-up takes for each; the first is what set-up pulls when none is named
    images: Mapping[str, str]
    standin: str = ""  # the repository of images that are built locally where that cannot be pulled
    # the library's version by the image's labels and reference; "" when they do not tell
    version: Callable[[Mapping[str, str], str], str] = lambda _labels, reference: reference.rpartition(":")[2]
    # why a version cannot be used; "" where it can
    incompatible: Callable[[str, str], str] = lambda _reference, _version: ""
    setup: str = ""  # the command that makes it, where no registry has it
    base: "ImageSpec | None" = None  # of the image that it has to be built on, which a person may name

    @property
    def reference(self) -> str:
        """The official image that set-up pulls when none is named, with its tag."""
        return next(iter(self.images.values()))


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is asked before a call runs: what a draft may rest on, the checks, the files that go with its inputs, the mounts."""

    context: Callable[[DraftScope], Any] = lambda scope: scope
    preflight: Callable[[Limits], Preflight] = lambda _limits: NoPreflight()
    # Which files go with one that a call reads, such as the sidecars of a dataset. Made anew for each call.
    companions: Callable[[], Callable[[WorkspacePath], Iterable[Path]]] = lambda: lambda _located: ()
    # What to mount of a draft where only what the call names is mounted, and what to say when that was too little.
    mounts: Callable[[Draft], tuple[WorkspacePath, ...]] = lambda draft: local(
        (*draft.inputs, *draft.looked_at)
    )
    mount_advice: str = ""
    only_inputs: bool = False  # that is all that is ever mounted, whatever the server's setting
    validates: str = ""  # the tool that describes the inputs of another call, for the question to a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What runs in a container, and what it is asked."""

    environment: Callable[[Limits, str], Mapping[str, str]]  # of a container; the text is its image's digest
    # the worker's command, whose container ends by itself after so many seconds without a job
    program: Callable[[float], tuple[str, ...]]
    request: Callable[[Draft, int], Mapping[str, Any]] = _request  # the int: pixels of a preview, 0 for none
    answer_settings: tuple[str, ...] = ()  # names of settings of the environment that can change an answer
    # The version of the library: in an answer, and the job that asks for it where the image's labels do not have it.
    tool_version: Callable[[Mapping[str, Any]], str] = lambda final: str(final.get("tool_version", ""))
    version_request: Mapping[str, Any] | None = None
    # why these tools cannot use that version; "" where they can
    incompatible: Callable[[str], str] = lambda _version: ""
    compare: Callable[[], tuple[str, ...]] | None = None  # a worker's command that compares two datasets


@dataclass(frozen=True, slots=True)
class Answering:
    """What becomes of a container's answer: facts of its outputs, messages, errors, the calls that may follow."""

    read_json: Callable[[str], Any] = json.loads  # of what is printed; raises ValueError
    describe: Callable[[Mapping[str, Any], int], tuple[Described, ...]] = lambda _final, count: (
        (Described(),) * count
    )
    shorten: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict  # facts of an output, for the answer
    summarize: Callable[[Sequence[LibraryMessage], Sequence[Described], object], MessageSummary] = (
        lambda messages, _outputs, _found: MessageSummary((), tuple(message.text for message in messages))
    )
    # what to do about the errors of a job
    suggest: Callable[[Sequence[LibraryMessage]], str] = lambda _errors: ""
    # 0 for a staged file that does not belong to an output of that name, else how closely it does
    belongs: Callable[[str, str], int] = lambda name, target: int(name == target)
    failure: Code = Code.TOOL_ERROR  # of a job that ends with an error
    # a better account of such a job, by the worker's last message; None where the library's own messages have it
    explain: Callable[[Draft, Mapping[str, Any]], ToolError | None] = lambda _draft, _final: None
    # further keys of an error, where its callers know other codes
    error_details: Callable[[ToolError], Mapping[str, Any]] = lambda _error: {}
    # What to call next: by a draft, the call's arguments and the rows of its result's `outputs`.
    next_calls: NextCalls = lambda _draft, _arguments, _outputs, _surface: []
    suggested_call: SuggestedCall = lambda _draft, _check, _output: None


@dataclass(frozen=True, eq=False, repr=False)
class Toolbox:
    """A tool library: its image, its tools, and its part in each phase of a call."""

    name: str  # in settings and records, such as `gdal`
    title: str  # in messages, such as `GDAL`
    version: str  # of the description of its tools: recorded with every call
    image: ImageSpec
    # Which tools there are, and what they are called.
    # The first toolset is listed when nothing else is asked for; those named in `unlisted` then answer by name.
    toolsets: Mapping[str, Callable[[], tuple[Tool, ...]]]
    execution: Execution
    analysis: Analysis = field(default_factory=Analysis)
    answering: Answering = field(default_factory=Answering)

    unlisted: tuple[str, ...] = ()
    # What its tools run, such as `raster hillshade`: policies and exclusions may name it.
    operations: frozenset[str] = frozenset()
    operation_hint: str = ""  # how a client calls one that has no tool of its own
    search: str = ""  # the tool that finds them by what they do
    aliases: Aliases = field(default_factory=Aliases)
    upload: Tool | None = None  # what examines a file that is sent over HTTP, before it is published
    instructions: str = ""  # for a model, before it calls any of these tools
    prompts: Callable[[], Mapping[str, Prompt]] = dict

    def __repr__(self) -> str:
        return f"Toolbox({self.name!r})"  # all of it is megabytes of text

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool by name; a hand-picked one before a generated one of the same name."""
        tools: dict[str, Tool] = {}
        for toolset in self.toolsets.values():
            for tool in toolset():
                tools.setdefault(tool.name, tool)
        return tools
