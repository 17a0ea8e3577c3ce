"""The seam for tool libraries: what a toolbox is, as one frozen value, and the tools it has.

The server knows a toolbox by this value alone: its image and the program that runs in the container, its tools, how a request
and an answer look, which files belong together, which names policies and settings may use. GDAL's is made in
`gdal_mcp.tools.toolbox`. Every field that is a function has a default that suits a library with files in and files out.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.policy.policy import Aliases, Verdict
from gdal_mcp.remote.address import Address
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.remote.limits import Meter
from gdal_mcp.remote.places import AddressTable, local
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.preflight import NoPreflight, Preflight
from sandbox.template import Limits
from sandbox.workspace import Located, Workspaces


class Arguments(BaseModel):
    """Base of the hand-written tools' arguments: nothing unknown; "10" is as good as 10, and "true" as true."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    same_names: ClassVar[Sequence[Sequence[str]]] = ()  # names that are taken for one another


@dataclass(frozen=True)
class Answer:
    """What a finished call printed; a tool turns it into its own keys. Text in it is cleaned, and untrusted."""

    printed: str
    parsed: Any  # the printed JSON; None when it is none
    uri: str | None  # of the first output
    output: str | None  # its path
    attached: Mapping[str, bytes] = field(default_factory=dict)  # files that the worker sent besides, by name


@dataclass(frozen=True)
class ModelQuestion:
    """What a client's own model is asked about a call that is over. `told` puts its words into the result, as untrusted text."""

    text: str
    pictures: tuple[bytes, ...]  # JPEG
    hint: str  # a part of the name of the model that is wished for
    told: Callable[[Mapping[str, Any], str, str], Mapping[str, Any]]  # result, model's name, its words


@dataclass(frozen=True)
class ImmediateResult:
    """A tool's answer that needs no container: facts of the catalogue or of a plan.

    For an answer of other servers `ask` makes the requests and returns the result. The pipeline calls it once the policy allows the
    call and it is recorded; nothing is requested before.
    """

    result: Mapping[str, Any] = field(default_factory=dict)
    ask: Callable[[Meter], Mapping[str, Any]] | None = None  # raises ReadFailed, ToolError
    addresses: tuple[Address, ...] = ()  # that `ask` begins with


class Permits(Protocol):
    @property
    def callable(self) -> Mapping[str, "Tool"]: ...

    def permits(self, operation: str) -> bool: ...


@dataclass(frozen=True)
class DraftScope:
    """What a draft may rest on: the workspaces and tools of one caller, and what the policy says of drafts."""

    call_id: str
    workspaces: Workspaces
    settings: Settings
    limits: Limits
    surface: Permits
    verdict: Callable[[str, Draft], Verdict]
    preflight: Any
    remote: AddressTable  # the addresses that the draft names
    as_new: bool = False  # as if nothing stood where the outputs go: a recorded call made again
    principal: str = ""
    gateway: RemoteGateway | None = None  # to remote data


@dataclass(frozen=True)
class Tool:
    """One tool. `draft` is pure but for looking paths up; `present` makes the tool's own keys of the result,
    and `untrusted` where what was printed does not stand there as it is.
    """

    name: str
    title: str
    description: str
    schema: Callable[[], Mapping[str, Any]]
    draft: Callable[[Mapping[str, Any], Any], Draft | ImmediateResult]  # the second is the toolbox's context
    writes: bool
    replaces: bool = False  # may take the place of an existing file, or take it away
    own_keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # schemas of the tool's own keys
    required_keys: tuple[str, ...] = ()
    lists_keys: bool = (
        False  # a specification wants the keys in the schema that clients get; then all keys are there
    )
    present: Callable[[Answer], Mapping[str, Any]] = lambda _answer: {}
    # by the call's arguments and what its worker sent besides; None where no model is to be asked
    ask_model: Callable[[Mapping[str, Any], Mapping[str, bytes]], ModelQuestion | None] = (
        lambda _arguments, _attached: None
    )
    like: str = ""  # the operation that it is most like, for policies, estimates and advice
    runs: bool = True  # False when the server answers by itself, without a container
    reaches_out: bool = False  # the server itself makes requests for it
    pictures: bool = False  # answers with pictures, which can show words: none in lockdown
    meta: Mapping[str, Any] = field(default_factory=dict)  # what a specification says of it besides
    uncut: tuple[str, ...] = ()  # own keys that no result is too long for, as the caller sent as much itself

    @cached_property
    def input_schema(self) -> Mapping[str, Any]:
        return self.schema()

    @cached_property
    def output_schema(self) -> Mapping[str, Any]:
        """The keys that a successful result has, as our tests check them; docs/analyst.md describes the parts."""
        if not self.runs:
            return {"type": "object", **({"properties": dict(self.own_keys)} if self.own_keys else {})}
        keys: dict[str, Any] = dict(self.own_keys)
        if self.writes:
            keys["outputs"] = {"type": "array"}
        keys["untrusted"] = {}
        return {"type": "object", "properties": keys, "required": list(self.required_keys)}

    @cached_property
    def listed_schema(self) -> Mapping[str, Any]:
        """The output schema that clients get: it names every key that a result or an error may have, or none.

        fastmcp and mcpo make a type of it and drop each key that it leaves out; with no key named they drop nothing. No key is
        required, as many clients check errors against it too.
        """
        if not self.lists_keys:
            return {"type": "object"}
        return {"type": "object", "properties": {**self.own_keys, **(_RESULT_KEYS if self.runs else _KEYS)}}


_KEYS: Final[Mapping[str, Any]] = {"error": {"type": "object"}, "whole": {"type": "object"}}
# as `calls.results` and `calls.longresults` write them
_RESULT_KEYS: Final[Mapping[str, Any]] = {
    **{
        name: {"type": "array"}
        for name in ("outputs", "files", "replaced", "moved", "removed", "next", "checks")
    },
    **{name: {"type": "object"} for name in ("untrusted", "receipt")},
    "return_code": {"type": "integer"},
    **_KEYS,
}

A = TypeVar("A", bound=Arguments)
_UNNEEDED = frozenset({"title", "minLength", "maxLength"})  # of pydantic's schemas


def typed(
    model: type[A], draft: Callable[[A, Any], Draft | ImmediateResult]
) -> Callable[[Mapping[str, Any], Any], Draft | ImmediateResult]:
    """The draft function of a tool whose arguments are a model. Raises ToolError, pydantic's ValidationError."""
    return lambda arguments, context: draft(model.model_validate(named(model, arguments)), context)


def named(model: type[Arguments], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same by the model's own names. Raises ToolError for a name that it does not have, with the one that may be meant."""
    fields = [field.alias or name for name, field in model.model_fields.items()]
    same = {name: field for group in model.same_names for field in fields if field in group for name in group}
    same |= {field: field for field in fields}
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        plain = name.replace("-", "_")
        own = same.get(plain, plain)
        if own not in fields:
            near = nearest(plain, same)
            hint = f"Did you mean `{same[near[0]]}`? " if near else ""
            problem = f"there is no argument {name[:64]!r}.", f"{hint}The arguments are: {', '.join(fields)}."
            raise ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, *problem)
        if own in found:
            problem = f"`{own}` is given twice, by two of its names.", "Give it once."
            raise ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, *problem)
        found[own] = value
    return found


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are most like one that is not known, the nearest first; none that is only a little like it."""
    return get_close_matches(name[:100], known, most, 0.6)


def schema_of(model: type[Arguments]) -> Callable[[], Mapping[str, Any]]:
    return lambda: plain(model.model_json_schema())


def taking(model: type[A], draft: Callable[[A, Any], Draft | ImmediateResult]) -> dict[str, Any]:
    """The schema and the draft function of a tool whose arguments are a model, as `Tool` takes them."""
    return {"schema": schema_of(model), "draft": typed(model, draft)}


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Without what no caller needs: titles that repeat the names, null for absent options, any further properties, lengths of texts."""
    cleaned: dict[str, Any] = _needed(schema)
    for name, one in cleaned.get("properties", {}).items():
        branches = one.get("anyOf")
        if branches and {"type": "null"} in branches and one.get("default", ...) is None:
            rest = [branch for branch in branches if branch != {"type": "null"}]
            kept = {key: value for key, value in one.items() if key not in ("anyOf", "default")}
            cleaned["properties"][name] = {**(rest[0] if len(rest) == 1 else {"anyOf": rest}), **kept}
    return cleaned


def _needed(value: Any, *, names: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _needed(item, names=key in ("properties", "$defs"))
            for key, item in value.items()
            if names or (key not in _UNNEEDED and (key, item) != ("additionalProperties", True))
        }
    if isinstance(value, list):
        return [_needed(item) for item in value]
    return value


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


def spelling(name: str) -> str:
    """One spelling for all: lower case words joined by underscores, without a leading `gdal`."""
    return name.strip().lower().replace("-", "_").replace(" ", "_").removeprefix("gdal_")


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
Mend = Callable[[Draft, Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any] | None]
NextCalls = Callable[[Draft, Mapping[str, Any], Sequence[Mapping[str, Any]], Permits], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class PromptValue:
    """One argument of a prompt. `check` returns the value as it is filled in, or raises ToolError for one that cannot be used."""

    name: str
    description: str  # with its choices and its default
    required: bool = False
    default: str = ""
    is_path: bool = False  # completed with what is in the workspaces
    check: Callable[[str], str] = str
    propose: Callable[[str], Iterable[str]] = lambda _typed: ()  # values for what is typed so far


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text that tells a model which tools to call in which order. `{name}` stands for a value, as a JSON string."""

    name: str
    title: str
    description: str
    text: str
    values: tuple[PromptValue, ...] = ()


def beginning(values: Iterable[str], typed: str) -> Iterator[str]:
    """Those that begin as typed, in upper or lower case."""
    return (value for value in values if value.lower().startswith(typed.lower()))


@dataclass(frozen=True, slots=True)
class ImageSpec:
    # official images by the word that set-up takes for each; the first is what set-up pulls when none is named
    images: Mapping[str, str]
    standin: str = ""  # the repository of images that are built locally where that cannot be pulled
    # the library's version by the image's labels and reference; "" when they do not tell
    version: Callable[[Mapping[str, str], str], str] = lambda _labels, reference: reference.rpartition(":")[2]
    # why a version cannot be used; "" where it can
    unfit: Callable[[str, str], str] = lambda _reference, _version: ""
    setup: str = ""  # the command that makes it, where no registry has it
    base: "ImageSpec | None" = None  # of the image that it has to be built on, which a person may name

    @property
    def reference(self) -> str:
        """The official image that set-up pulls when none is named, with its tag."""
        return next(iter(self.images.values()))


@dataclass(frozen=True, eq=False, repr=False)
class Toolbox:
    """A tool library: what runs in its containers, and the tools that makes."""

    name: str  # in settings and records, such as `gdal`
    title: str  # in messages, such as `GDAL`
    version: str  # of the description of its tools: kept with every call
    image: ImageSpec
    environment: Callable[[Limits, str], Mapping[str, str]]  # of a container; the text is its image's digest
    # the worker's command, whose container ends by itself after so many seconds without a job
    program: Callable[[float], tuple[str, ...]]

    # Which tools there are, and what they are called.
    # The first toolset is listed when nothing else is asked for; those named in `unlisted` then answer by name.
    toolsets: Mapping[str, Callable[[], tuple[Tool, ...]]]
    unlisted: tuple[str, ...] = ()
    # What its tools run, such as `raster hillshade`: policies and exclusions may name it.
    operations: frozenset[str] = frozenset()
    operation_hint: str = ""  # how a client calls one that has no tool of its own
    aliases: Aliases = field(default_factory=Aliases)
    upload: Tool | None = None  # what looks at a file that is sent over HTTP, before it is published
    instructions: str = ""  # what a model is told of these tools before it calls any
    prompts: Callable[[], Mapping[str, Prompt]] = dict
    validates: str = ""  # the tool that describes the inputs of another call, for the question to a person

    # Before a call runs.
    context: Callable[[DraftScope], Any] = lambda scope: scope
    preflight: Callable[[Limits], Preflight] = lambda _limits: NoPreflight()
    # Which files go with one that a call reads, such as the sidecars of a dataset. Made anew for each call.
    companions: Callable[[], Callable[[Located], Iterable[Path]]] = lambda: lambda _located: ()
    # What to mount of a draft where only what the call names is mounted, and what to say when that was too little.
    mounts: Callable[[Draft], tuple[Located, ...]] = lambda draft: local((*draft.inputs, *draft.looked_at))
    mount_advice: str = ""
    only_inputs: bool = False  # that is all that is ever mounted, whatever the server's setting

    # What the container is asked, and what it answers.
    request: Callable[[Draft, int], Mapping[str, Any]] = _request  # the int: pixels of a preview, 0 for none
    answer_settings: tuple[str, ...] = ()  # names of settings of the environment that can change an answer
    read_json: Callable[[str], Any] = json.loads  # of what is printed; raises ValueError
    describe: Callable[[Mapping[str, Any], int], tuple[Described, ...]] = lambda _final, count: (
        (Described(),) * count
    )
    shorten: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict  # facts of an output, for the answer
    tell: Callable[[Sequence[LibraryMessage], Sequence[Described], object], MessageSummary] = (
        lambda messages, _outputs, _found: MessageSummary((), tuple(one.text for one in messages))
    )
    # what to do about the errors of a job
    suggest: Callable[[Sequence[LibraryMessage]], str] = lambda _errors: ""
    # 0 for a staged file that does not belong to an output of that name, else how closely it does
    belongs: Callable[[str, str], int] = lambda name, target: int(name == target)
    failure: Code = Code.TOOL_ERROR  # of a job that ends with an error
    # a better account of such a job, by the worker's last message; None where the library's own messages say it
    explain: Callable[[Draft, Mapping[str, Any]], ToolError | None] = lambda _draft, _final: None
    # what an error says besides, where its callers know other codes
    error_details: Callable[[ToolError], Mapping[str, Any]] = lambda _error: {}
    # What to call next: by a draft, the call's arguments and the rows of its result's `outputs`.
    next_calls: NextCalls = lambda _draft, _arguments, _outputs, _surface: []
    mend: Mend = lambda _draft, _check, _output: None
    compare: Callable[[], tuple[str, ...]] | None = None  # a worker's command that compares two datasets

    # The version of the library: in an answer, and the job that asks for it where the image does not tell.
    tool_version: Callable[[Mapping[str, Any]], str] = lambda final: str(final.get("tool_version", ""))
    version_request: Mapping[str, Any] | None = None
    # why these tools cannot use that version; "" where they can
    unfit: Callable[[str], str] = lambda _version: ""

    def __repr__(self) -> str:
        return f"Toolbox({self.name!r})"  # all of it is megabytes of text

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool by name; a hand-picked one before a generated one of the same name."""
        found: dict[str, Tool] = {}
        for made in self.toolsets.values():
            for tool in made():
                found.setdefault(tool.name, tool)
        return found
