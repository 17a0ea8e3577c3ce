"""What a tool is: a value. No tool registers itself; `gdal_mcp.surface` chooses those of a server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from gdal_mcp.access.policy import Policy, Verdict, case, decide
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.datasets.paths import Paths
from gdal_mcp.gdal.preflight.service import Foresight
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings


class Arguments(BaseModel):
    """Base of the hand-written tools' arguments: nothing unknown, nothing converted from another JSON type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Receipt(BaseModel):
    """What ran, where and at what cost."""

    call_id: str
    image: str = Field(description="Image reference")
    image_digest: str
    gdal_version: str
    stand_in: bool = Field(description="True when the image is a local stand-in for the official one")
    engine: str
    tier: str = Field(
        description="Isolation: `runc` is namespaces and our seccomp profile, `runsc` is gVisor"
    )
    pool: Literal["cold", "warm"]
    argv: list[str] = Field(description="The exact command, as run inside the container")
    mounts: list[str] = Field(description="What of the workspaces the container saw, at its own paths")
    plan_digest: str
    limits: dict[str, float]
    seconds: dict[str, float] = Field(description="Duration of each stage in seconds")
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    approval: str = Field(description="How the call was allowed")


@dataclass(frozen=True)
class Answer:
    """What a finished call has to tell; a tool turns it into its own keys. Text in it is cleaned, and untrusted."""

    printed: str
    parsed: Any  # the printed JSON; None when it is none
    uri: str | None  # of the first output
    output: str | None  # its path


class Permits(Protocol):
    """What of GDAL and which tools a server has."""

    @property
    def callable(self) -> Mapping[str, "Tool"]: ...

    def permits(self, algorithm: str) -> bool: ...


def by_default(tool: str, draft: Draft) -> Verdict:
    """What a server without a policy file and with no settings says of a draft."""
    return decide(case(draft, tool, ""), Policy())


@dataclass(frozen=True)
class DraftContext:
    """What a tool may look at while it drafts a call: where paths lead, and what this server permits."""

    paths: Paths
    settings: Settings
    surface: Permits
    foresight: Foresight
    catalogue: Catalogue
    # what the policy says of a draft of a tool, for this caller
    verdict: Callable[[str, Draft], Verdict] = by_default

    @property
    def threads(self) -> int:
        return self.paths.threads

    def permits(self, algorithm: str) -> bool:
        """Whether this server was not started without it."""
        return self.surface.permits(algorithm)


@dataclass(frozen=True)
class ImmediateResult:
    """A tool's answer that needs no container: facts of the catalogue or of a plan."""

    result: Mapping[str, Any]


Drafting = Callable[[Mapping[str, Any], DraftContext], Draft | ImmediateResult]


@dataclass(frozen=True)
class Tool:
    """One tool. `draft` is pure but for looking paths up; `present` makes the tool's own keys of the result."""

    name: str
    title: str
    description: str
    schema: Callable[[], Mapping[str, Any]]
    draft: Drafting
    writes: bool
    replaces: bool = False  # may take the place of an existing file, or take it away
    own_keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # schemas of the tool's own keys
    required_keys: tuple[str, ...] = ()
    present: Callable[[Answer], Mapping[str, Any]] = lambda _answer: {}
    like: str = ""  # the command of the `gdal` program that it is most like, for estimates and advice
    runs: bool = True  # False when the server answers by itself, without a container

    @cached_property
    def input_schema(self) -> Mapping[str, Any]:
        return self.schema()

    @cached_property
    def output_schema(self) -> Mapping[str, Any]:
        """The keys of a result. Kept short, as every client reads it; README describes the parts."""
        if not self.runs:
            return {"type": "object"}
        keys: dict[str, Any] = dict(self.own_keys)
        if self.writes:
            keys["outputs"] = {"type": "array", "items": {"type": "object"}}
        keys["untrusted"] = {"type": "object"}
        keys["receipt"] = {"type": "object"}
        return {
            "type": "object",
            "properties": keys,
            "required": [*self.required_keys, "receipt"],
        }


A = TypeVar("A", bound=Arguments)


def typed(model: type[A], draft: Callable[[A, DraftContext], Draft | ImmediateResult]) -> Drafting:
    """The draft function of a tool whose arguments are a model. Raises pydantic's ValidationError."""

    def validated(arguments: Mapping[str, Any], context: DraftContext) -> Draft | ImmediateResult:
        return draft(model.model_validate(dict(arguments)), context)

    return validated


def schema_of(model: type[Arguments]) -> Callable[[], Mapping[str, Any]]:
    """The JSON Schema of a model, made when it is first asked for."""
    return lambda: plain(model.model_json_schema())


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Without pydantic's generated titles, which repeat the names, and without null branches of absent options."""
    cleaned: dict[str, Any] = _without_titles(schema)
    for name, one in cleaned.get("properties", {}).items():
        branches = one.get("anyOf")
        if branches and {"type": "null"} in branches and one.get("default", ...) is None:
            rest = [branch for branch in branches if branch != {"type": "null"}]
            kept = {key: value for key, value in one.items() if key not in ("anyOf", "default")}
            cleaned["properties"][name] = {**(rest[0] if len(rest) == 1 else {"anyOf": rest}), **kept}
    return cleaned


def _without_titles(value: Any, *, names: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_titles(item, names=key in ("properties", "$defs"))
            for key, item in value.items()
            if names or key != "title"
        }
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    return value
