"""A tool library as one frozen value: its tools, and its part before, during and after a call.

The server uses a toolbox only through this value. `Analysis` is used before a container starts, `Execution` defines
what runs in the container, and `Answering` processes its answer. GDAL's toolbox is made in `gdal_mcp.tools.toolbox`.
Every field that is a function has a default that suits a library with files in and files out.
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
    """One output, opened again after the call. `facts` are checked; `names` are untrusted texts of the file."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)
    checks: tuple[Mapping[str, Any], ...] = ()
    # numbers of features or pixels in the output, and in the file that it replaces; None if unknown
    amounts: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LibraryMessage:
    """A cleaned message of the library, and how often it was reported."""

    text: str
    count: int = 1
    level: str = "warning"


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """The messages of a successful job: checks made from them, and the messages, with repeats folded."""

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


# makes the call that corrects an output, from one of its checks and its row of the result
SuggestedCall = Callable[[Draft, Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any] | None]
NextCalls = Callable[[Draft, Mapping[str, Any], Sequence[Mapping[str, Any]], Permits], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ImageSpec:
    # official images by the name used in set-up; the first is the default
    images: Mapping[str, str]
    standin: str = ""  # repository of images that are built locally if none can be pulled
    # the library's version from the image's labels and reference; "" if they do not contain it
    version: Callable[[Mapping[str, str], str], str] = lambda _labels, reference: reference.rpartition(":")[2]
    # why a version cannot be used; "" if it can
    incompatible: Callable[[str, str], str] = lambda _reference, _version: ""
    setup: str = ""  # the command that builds it, if it is in no registry
    base: "ImageSpec | None" = None  # the image that this one is built on, which a person may choose

    @property
    def reference(self) -> str:
        """The default image of set-up, with its tag."""
        return next(iter(self.images.values()))


@dataclass(frozen=True, slots=True)
class Analysis:
    """The part of a toolbox before a call runs: facts for the draft, checks, sidecar files of its inputs, mounts."""

    context: Callable[[DraftScope], Any] = lambda scope: scope
    preflight: Callable[[Limits], Preflight] = lambda _limits: NoPreflight()
    # The files that belong to an input, such as the sidecars of a dataset. Made for each call.
    companions: Callable[[], Callable[[WorkspacePath], Iterable[Path]]] = lambda: lambda _located: ()
    # The files to mount for a draft if only the files that a call names are mounted, and advice if that was too little.
    mounts: Callable[[Draft], tuple[WorkspacePath, ...]] = lambda draft: local(
        (*draft.inputs, *draft.looked_at)
    )
    mount_advice: str = ""
    only_inputs: bool = False  # True if only those files are mounted, whatever the server's setting is
    validates: str = ""  # the tool that describes the inputs of another call, for the question to a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The part of a toolbox in the container: its environment, its command and its requests."""

    # environment of a container; the second parameter is its image's digest
    environment: Callable[[Limits, str], Mapping[str, str]]
    # the worker's command; the parameter is the time in seconds after which its container ends without a job
    program: Callable[[float], tuple[str, ...]]
    # the second parameter: pixels of a preview, 0 for none
    request: Callable[[Draft, int], Mapping[str, Any]] = _request
    answer_settings: tuple[str, ...] = ()  # environment settings that can change an answer
    # Reads the library's version from an answer, and the job that asks for it if the image's labels do not have it.
    tool_version: Callable[[Mapping[str, Any]], str] = lambda final: str(final.get("tool_version", ""))
    version_request: Mapping[str, Any] | None = None
    # why these tools cannot use that version of the library; "" if they can
    incompatible: Callable[[str], str] = lambda _version: ""
    compare: Callable[[], tuple[str, ...]] | None = None  # the worker's command that compares two datasets


@dataclass(frozen=True, slots=True)
class Answering:
    """The part of a toolbox after a job: facts of outputs, messages, errors, and suggested calls."""

    read_json: Callable[[str], Any] = json.loads  # parses what was printed; raises ValueError
    describe: Callable[[Mapping[str, Any], int], tuple[Described, ...]] = lambda _final, count: (
        (Described(),) * count
    )
    # facts of an output, shortened for the answer
    shorten: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    summarize: Callable[[Sequence[LibraryMessage], Sequence[Described], object], MessageSummary] = (
        lambda messages, _outputs, _found: MessageSummary((), tuple(message.text for message in messages))
    )
    # suggestions for the errors of a job
    suggest: Callable[[Sequence[LibraryMessage]], str] = lambda _errors: ""
    # 0 for a staged file that does not belong to an output of that name, else how closely it belongs
    belongs: Callable[[str, str], int] = lambda name, target: int(name == target)
    failure: Code = Code.TOOL_ERROR  # the code of a job that ended with an error
    # a better explanation of that error, from the worker's last message; None if the library's messages have it
    explain: Callable[[Draft, Mapping[str, Any]], ToolError | None] = lambda _draft, _final: None
    # further keys of an error, for callers that use other codes
    error_details: Callable[[ToolError], Mapping[str, Any]] = lambda _error: {}
    # The calls to suggest next, from a draft, the call's arguments and the rows of its result's `outputs`.
    next_calls: NextCalls = lambda _draft, _arguments, _outputs, _surface: []
    suggested_call: SuggestedCall = lambda _draft, _check, _output: None


@dataclass(frozen=True, eq=False, repr=False)
class Toolbox:
    """A tool library: its image, its tools, and its part in each phase of a call."""

    name: str  # name in settings and records, such as `gdal`
    title: str  # name in messages, such as `GDAL`
    version: str  # digest of the description of its tools, recorded with every call
    image: ImageSpec
    # The tools by toolset. The first toolset is listed by default; the tools in `unlisted` can then be called by name.
    toolsets: Mapping[str, Callable[[], tuple[Tool, ...]]]
    execution: Execution
    analysis: Analysis = field(default_factory=Analysis)
    answering: Answering = field(default_factory=Answering)

    unlisted: tuple[str, ...] = ()
    # The operations that its tools run, such as `raster hillshade`: policies and exclusions can name them.
    operations: frozenset[str] = frozenset()
    operation_hint: str = ""  # how a client calls an operation without a tool of its own
    search: str = ""  # the tool that finds operations by what they do
    aliases: Aliases = field(default_factory=Aliases)
    upload: Tool | None = None  # the tool that examines a file sent over HTTP before it is published
    instructions: str = ""  # instructions for a model, before it calls any of these tools
    prompts: Callable[[], Mapping[str, Prompt]] = dict

    def __repr__(self) -> str:
        return f"Toolbox({self.name!r})"  # short, because the fields are megabytes of text

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name. A hand-written tool comes before a generated one of the same name."""
        tools: dict[str, Tool] = {}
        for toolset in self.toolsets.values():
            for tool in toolset():
                tools.setdefault(tool.name, tool)
        return tools
