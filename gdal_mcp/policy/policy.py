"""Decides if a call may run. Pure: the same answer for the same call and the same policy.

Invariants:
* the first matching rule decides; without one, the default of the approval mode does;
* a rule that allows matches only if it names all workspaces of a call; one that denies or asks matches if it names
  any;
* a call that moves, deletes or synchronises files, or runs the caller's code, needs a person's approval every time,
  whatever rule, mode or grant there is;
* if there are `principal` entries, a principal that none of them names may do nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gdal_mcp.plan import Draft, Effect, effect_of
from gdal_mcp.remote.places import local
from gdal_mcp.settings.remote import source_at
from gdal_mcp.settings.types import LEAST_MEMORY, Resolved, Size, size

Channel = Literal["elicitation", "console", "terminal"]
WAYS: Final[frozenset[Channel]] = frozenset({"elicitation", "console", "terminal"})
Text = Annotated[str, Field(min_length=1, max_length=200)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1, max_length=200)]

_REASONS = {
    Effect.CREATE: "it writes a new file",
    Effect.REPLACE: "it replaces files",
    Effect.DESTROY: "it removes files",
}


@dataclass(frozen=True, slots=True)
class Allow:
    reason: str


@dataclass(frozen=True, slots=True)
class RequireApproval:
    """A person decides, through one of the `ways`. `grantable` is True if approval in advance counts."""

    reason: str
    ways: frozenset[Channel] = WAYS
    grantable: bool = True


@dataclass(frozen=True, slots=True)
class Deny:
    reason: str


Verdict = Allow | RequireApproval | Deny


@dataclass(frozen=True, slots=True)
class Aliases:
    """The names of a toolbox that are aliases of others, so that a rule for an algorithm applies to everything that
    runs it.

    `generic` has algorithms for which the data decides which other one runs, such as `info` for `raster info` and
    `vector info`. `besides` has, by tool, the further algorithms that its arguments can select.
    """

    generic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    besides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def resolves_to(self, tool: str, algorithm: str) -> tuple[str, ...]:
        """Every algorithm that a call of a tool may run. `algorithm` is the most similar one."""
        expanded = self.generic.get(tool) or self.generic.get(algorithm)
        return expanded or (*((algorithm,) if algorithm else ()), *self.besides.get(tool, ()))


NO_ALIASES: Final = Aliases()


def _as_source(text: str) -> str:
    source_at(text)
    return text


class PolicyTable(BaseModel):
    """A table of the policy file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PolicyRule(PolicyTable):
    """One rule of the file. Names may contain `*`; omitted fields match everything."""

    decision: Literal["allow", "require", "deny"]
    tools: Texts = ("*",)  # names of tools, or of algorithms such as `raster hillshade`
    effects: Annotated[frozenset[Effect], Field(min_length=1)] = frozenset(Effect)
    workspaces: tuple[Resolved, ...] = ()
    principals: Texts = ("*",)
    ways: Annotated[frozenset[Channel], Field(min_length=1)] = WAYS
    reason: str = Field("", max_length=200)


class PolicyEntry(PolicyTable):
    """The permissions of principals in the file. It narrows the server's settings; None leaves them unchanged."""

    principals: Texts
    workspaces: tuple[Resolved, ...] | None = None
    workspaces_ro: tuple[Resolved, ...] = ()  # read-only, whether or not they are in `workspaces`
    read_only: bool = False
    tools: Texts | None = None
    exclude_tools: tuple[Text, ...] = ()
    memory: Annotated[int, size(LEAST_MEMORY)] | None = None  # bytes
    cpus: float | None = Field(None, gt=0)
    timeout_seconds: float | None = Field(None, gt=0)
    calls_per_minute: int | None = Field(None, ge=1)
    concurrent: int | None = Field(None, ge=1)
    cpu_seconds_a_day: float | None = Field(None, ge=0)
    output_bytes_a_day: Size | None = None
    # hosts and buckets, among those that the server reads
    remote: tuple[Annotated[Text, AfterValidator(_as_source)], ...] | None = None

    @property
    def by_day(self) -> bool:
        """True if the entry has a limit for each day, so that the use of its calls has to be recorded."""
        return self.cpu_seconds_a_day is not None or self.output_bytes_a_day is not None


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of one server, frozen at its start. `digest` identifies the file in every record."""

    mode: Literal["writes", "always", "never"] = "writes"
    rules: tuple[PolicyRule, ...] = ()
    entries: tuple[PolicyEntry, ...] = ()
    source: str = ""
    digest: str = ""
    aliases: Aliases = NO_ALIASES
    ways: frozenset[Channel] = WAYS  # ways through which an approval counts; a rule can only narrow them

    def entry(self, principal: str) -> PolicyEntry | None:
        return next((entry for entry in self.entries if _named(principal, entry.principals)), None)

    def remote_of(self, principal: str) -> tuple[str, ...] | None:
        """The hosts and buckets that the principal may read; None for all of the server's."""
        entry = self.entry(principal)
        return entry.remote if entry else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """The facts for a decision. `workspaces` are those that the call writes to; if it only reads, those that it
    reads.
    """

    tool: str
    principal: str
    effect: Effect
    algorithm: str = ""
    steps: tuple[str, ...] = ()  # the algorithms in a pipeline
    workspaces: frozenset[Path] = field(default_factory=frozenset)
    always_needs_approval: bool = False
    code: bool = False  # True if it runs the caller's code

    @property
    def effects(self) -> frozenset[Effect]:
        """The effects that a rule can name: what the call does to the workspace, and that it runs code."""
        return frozenset({self.effect, Effect.CODE} if self.code else {self.effect})


def case(draft: Draft, tool: str, principal: str) -> PolicyRequest:
    effect = effect_of(draft)
    read = (located.workspace.root for located in local(draft.inputs))
    return PolicyRequest(
        tool=tool,
        principal=principal,
        effect=effect,
        algorithm=draft.work.algorithm,
        steps=draft.work.algorithms,
        workspaces=frozenset(read if effect is Effect.READ else draft.touched),
        always_needs_approval=draft.review.always_needs_approval,
        code=bool(draft.review.code),
    )


def decide(request: PolicyRequest, policy: Policy) -> Verdict:
    """Decides whether a call runs, runs after approval, or is denied."""
    return explained(request, policy)[0]


def explained(request: PolicyRequest, policy: Policy) -> tuple[Verdict, PolicyRule | None]:
    rule = next((rule for rule in policy.rules if _fits(rule, request, policy.aliases)), None)
    if rule is not None and rule.decision == "deny":
        return Deny(rule.reason or "a rule of the policy denies it"), rule
    if request.always_needs_approval:
        ways = rule.ways & policy.ways if rule is not None and rule.decision == "require" else policy.ways
        does = "runs code that a model wrote" if request.code else "moves or removes files"
        reason = f"it {does}, which a person decides every time"
        return RequireApproval(reason, ways, grantable=False), rule
    grantable = request.effect is not Effect.DESTROY
    if rule is not None and rule.decision == "allow":
        return Allow(rule.reason or "a rule of the policy allows it"), rule
    if rule is not None:
        reason = rule.reason or "a rule of the policy asks for it"
        return RequireApproval(reason, rule.ways & policy.ways, grantable), rule
    # reads run, writes need approval; `always` needs it for both and `never`, a deliberate setting, for neither
    if policy.mode == "never":
        return Allow("the server runs with --approval never"), None
    if policy.mode == "writes" and request.effect is Effect.READ:
        return Allow("it only reads"), None
    reason = _REASONS[request.effect] if policy.mode == "writes" else "the server runs with --approval always"
    return RequireApproval(reason, policy.ways, grantable), None


def _fits(rule: PolicyRule, request: PolicyRequest, aliases: Aliases) -> bool:
    named = request.workspaces & set(rule.workspaces)
    if rule.workspaces and (not named or (rule.decision == "allow" and named != request.workspaces)):
        return False
    does = bool(request.effects & rule.effects)
    return does and _calls(rule, request, aliases) and _named(request.principal, rule.principals)


def _calls(rule: PolicyRule, request: PolicyRequest, aliases: Aliases) -> bool:
    """True if the rule applies. A rule that denies or asks matches any algorithm that the call may run; one that
    allows must match all.
    """
    patterns = tuple(_normalized(pattern) for pattern in rule.tools)

    def fits(name: str) -> bool:
        return _named(_normalized(name), patterns)

    runs = aliases.resolves_to(request.tool, request.algorithm)
    if fits(request.tool) or (request.algorithm in aliases.generic and fits(request.algorithm)):
        return True
    if rule.decision == "allow":
        return bool(runs) and all(map(fits, runs))
    return any(map(fits, (*runs, *request.steps)))


def _normalized(name: str) -> str:
    """The common spelling: `raster reproject` and `raster_reproject` are one name."""
    return name.replace(" ", "_").replace("-", "_")


def _named(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
