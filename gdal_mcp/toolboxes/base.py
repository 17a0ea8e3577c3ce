"""The type of a tool: its schemas, its draft, and the spellings of its arguments."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.policy.policy import Verdict
from gdal_mcp.remote.address import Address
from gdal_mcp.remote.budgets import Meter
from gdal_mcp.remote.gateway import RemoteGateway
from gdal_mcp.remote.places import AddressTable
from gdal_mcp.settings import Settings
from sandbox.template import Limits
from sandbox.workspace import Workspaces


class Arguments(BaseModel):
    """Base of the hand-written tools' arguments. Unknown arguments are refused; "10" is accepted for 10, and "true"
    for true.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    same_names: ClassVar[Sequence[Sequence[str]]] = ()  # groups of names that mean the same argument


@dataclass(frozen=True)
class CallAnswer:
    """The output of a finished call, from which a tool makes its own keys. Text in it is cleaned and untrusted."""

    printed: str
    parsed: Any  # the printed JSON; None if the output is not JSON
    uri: str | None  # URI of the first output
    output: str | None  # path of the first output
    attached: Mapping[str, bytes] = field(default_factory=dict)  # further files from the worker, by name


@dataclass(frozen=True)
class ModelQuestion:
    """A question to a client's own model about a finished call.

    `add_answer` adds the model's answer to the result, as untrusted text.
    """

    text: str
    pictures: tuple[bytes, ...]  # encoded as JPEG
    hint: str  # part of the name of the preferred model
    # its parameters are the result, the model's name and the model's text
    add_answer: Callable[[Mapping[str, Any], str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class ImmediateResult:
    """A tool's answer that needs no container: facts of the catalogue or of a plan.

    If the answer needs requests to other servers, `ask` makes them and returns the result. The pipeline calls it
    after the policy has allowed the call and the call is recorded; nothing is requested before.
    """

    result: Mapping[str, Any] = field(default_factory=dict)
    ask: Callable[[Meter], Mapping[str, Any]] | None = None  # raises ReadFailed, ToolError
    addresses: tuple[Address, ...] = ()  # addresses to which `ask` makes requests


class Permits(Protocol):
    @property
    def callable(self) -> Mapping[str, "Tool"]: ...

    def permits(self, operation: str) -> bool: ...


@dataclass(frozen=True)
class DraftScope:
    """The things that a draft may use: the workspaces and tools of one caller, and the policy's settings for drafts."""

    call_id: str
    workspaces: Workspaces
    settings: Settings
    limits: Limits
    surface: Permits
    verdict: Callable[[str, Draft], Verdict]
    preflight: Any
    remote: AddressTable  # remote addresses that the draft names
    as_new: bool = False  # True ignores existing outputs: a recorded call is made again
    principal: str = ""
    gateway: RemoteGateway | None = None  # reads remote data


@dataclass(frozen=True)
class Tool:
    """One tool.

    `draft` is pure except for looking up paths. `present` makes the tool's own keys of the result, and the key
    `untrusted` if the tool changes what was printed.
    """

    name: str
    title: str
    description: str
    schema: Callable[[], Mapping[str, Any]]
    # its second parameter is the toolbox's context
    draft: Callable[[Mapping[str, Any], Any], Draft | ImmediateResult]
    writes: bool
    replaces: bool = False  # True if it may replace or remove an existing file
    own_keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # schemas of the tool's own keys
    required_keys: tuple[str, ...] = ()
    # True if a specification requires the keys in the schema that clients get; then all keys are listed
    lists_keys: bool = False
    present: Callable[[CallAnswer], Mapping[str, Any]] = lambda _answer: {}
    # the question to a client's model, from the call's arguments and the worker's attachments; None if no model is
    # asked
    ask_model: Callable[[Mapping[str, Any], Mapping[str, bytes]], ModelQuestion | None] = (
        lambda _arguments, _attached: None
    )
    like: str = ""  # the most similar operation, for policies, estimates and advice
    runs: bool = True  # False if the server answers without a container
    reaches_out: bool = False  # True if the server makes requests for the tool
    # True if it answers with pictures, which can contain text: not available in lockdown
    pictures: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)  # further properties from a specification
    # own keys that are never shortened, because the caller sent as much data itself
    uncut: tuple[str, ...] = ()

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

        fastmcp and mcpo build a type from it and drop each key that it leaves out; if it names none, they drop
        nothing. No key is required, because many clients check errors against it too.
        """
        if not self.lists_keys:
            return {"type": "object"}
        return {"type": "object", "properties": {**self.own_keys, **(_RESULT_KEYS if self.runs else _KEYS)}}


TOOL_LIKENESS: Final = (
    0.8  # least similarity of tool names, so that `nope` does not mean `slope`, nor `magic` `mosaic`
)
WORD: Final = 6  # least length, in characters, of a word that can name a tool by itself
_KEYS: Final[Mapping[str, Any]] = {
    "error": {"type": "object"},
    "full_result": {"type": "object"},
    "waiting_results": {"type": "array"},
}
# keys written by `calls.results`, `calls.longresults` and `calls.missed_replies`
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
_UNNEEDED = frozenset({"title", "minLength", "maxLength"})  # keys in pydantic's schemas


def draft_function(
    model: type[A], draft: Callable[[A, Any], Draft | ImmediateResult]
) -> Callable[[Mapping[str, Any], Any], Draft | ImmediateResult]:
    """The draft function of a tool whose arguments are a model. Raises ToolError, pydantic's ValidationError."""
    return lambda arguments, context: draft(model.model_validate(named(model, arguments)), context)


def named(model: type[Arguments], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Converts other spellings to the model's own names. Raises ToolError for an unknown name, with the nearest one."""
    fields = [field.alias or name for name, field in model.model_fields.items()]
    same = {name: field for group in model.same_names for field in fields if field in group for name in group}
    same |= {field: field for field in fields}
    renamed: dict[str, Any] = {}
    for name, value in arguments.items():
        plain = name.replace("-", "_")
        own = same.get(plain, plain)
        if own not in fields:
            near = nearest(plain, same)
            hint = f"Did you mean `{same[near[0]]}`? " if near else ""
            problem = f"there is no argument {name[:64]!r}.", f"{hint}The arguments are: {', '.join(fields)}."
            raise ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, *problem)
        if own in renamed:
            problem = f"`{own}` is given twice, by two of its names.", "Give it once."
            raise ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, *problem)
        renamed[own] = value
    return renamed


def nearest(name: str, known: Iterable[str], most: int = 1, *, likeness: float = 0.6) -> list[str]:
    """The known names that are most similar to an unknown one, nearest first; none below `likeness`, from 0 to 1."""
    return get_close_matches(name[:100], known, most, likeness)


def nearest_tool(name: str, known: Mapping[str, str]) -> str:
    """The tool that an unknown name may mean; "" if there is none. `known` maps spellings to tools.

    The result is the most similar tool, or the only tool that shares a word with the name.
    """
    plain = spelling(name)
    if near := nearest(plain, known, likeness=TOOL_LIKENESS):
        return known[near[0]]
    words = {word for word in plain[:100].split("_") if len(word) >= WORD} - {"raster", "vector", "multidim"}
    tools = {tool for alias, tool in known.items() if words.intersection(alias.split("_"))}
    return tools.pop() if len(tools) == 1 else ""


def last_words(paths: Iterable[str]) -> dict[str, str]:
    """Paths such as `raster mosaic` by their last word.

    A path for multidimensional data is included only if no other path has the same last word.
    """
    ordered = sorted(paths, key=lambda path: (not path.startswith("mdim "), path))
    return {spelling(path.rpartition(" ")[2]): path for path in ordered}


def schema_of(model: type[Arguments]) -> Callable[[], Mapping[str, Any]]:
    return lambda: plain(model.model_json_schema())


def schema_and_draft(model: type[A], draft: Callable[[A, Any], Draft | ImmediateResult]) -> dict[str, Any]:
    """The schema and the draft function of a tool whose arguments are a model, as `Tool` takes them."""
    return {"schema": schema_of(model), "draft": draft_function(model, draft)}


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without parts that callers do not need: titles that repeat names, null for absent options, lengths
    of texts.
    """
    cleaned: dict[str, Any] = _needed(schema)
    for name, argument_schema in cleaned.get("properties", {}).items():
        branches = argument_schema.get("anyOf")
        if branches and {"type": "null"} in branches and argument_schema.get("default", ...) is None:
            rest = [branch for branch in branches if branch != {"type": "null"}]
            remaining = {
                key: value for key, value in argument_schema.items() if key not in ("anyOf", "default")
            }
            cleaned["properties"][name] = {**(rest[0] if len(rest) == 1 else {"anyOf": rest}), **remaining}
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


def spelling(name: str) -> str:
    """The common spelling: lower-case words joined by underscores, without a leading `gdal`."""
    return name.strip().lower().replace("-", "_").replace(" ", "_").removeprefix("gdal_")


@dataclass(frozen=True, slots=True)
class PromptValue:
    """One argument of a prompt. `check` returns the value to fill in, or raises ToolError if it cannot be used."""

    name: str
    description: str  # includes the choices and the default
    required: bool = False
    default: str = ""
    is_path: bool = False  # True if names in the workspaces complete the value
    check: Callable[[str], str] = str
    propose: Callable[[str], Iterable[str]] = lambda _typed: ()  # values that complete the text typed so far


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text that tells a model which tools to call in which order. `{name}` stands for a value, as a JSON string."""

    name: str
    title: str
    description: str
    text: str
    values: tuple[PromptValue, ...] = ()


def filter_by_prefix(values: Iterable[str], prefix: str) -> Iterator[str]:
    """The values that begin with a prefix, ignoring case."""
    return (value for value in values if value.lower().startswith(prefix.lower()))
