"""The policy file: TOML in, a frozen `Policy` out. A word that is not known is an error, so that no rule is lost to a slip.

[[rule]]                       # the first that fits decides
decision = "require"           # or "allow", "deny"
tools = ["raster_*"]
effects = ["replace"]          # of read, create, replace, destroy
workspaces = ["/srv/maps"]
principals = ["oauth:*"]
ways = ["console"]             # in which a yes counts: elicitation, console, terminal
reason = "maps are shared"

[[principal]]                  # what somebody has; without such entries everybody has all
principals = ["token:alice"]
workspaces = ["/srv/maps"]
memory = "512MiB"
calls_per_minute = 60
"""

import hashlib
import os
import stat
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gdal_mcp.access.aliases import NO_ALIASES, Aliases
from gdal_mcp.access.policy import WAYS, ApprovalMode, Entry, Policy, Rule, Way
from gdal_mcp.plan import Effect
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.settings.types import LEAST_MEMORY, Place, Size

Text = Annotated[str, Field(min_length=1, max_length=200)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1, max_length=200)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Rule(_Table):
    decision: Literal["allow", "require", "deny"]
    tools: Texts = ("*",)
    effects: Annotated[tuple[Effect, ...], Field(min_length=1)] = tuple(Effect)
    workspaces: tuple[Place, ...] = ()
    principals: Texts = ("*",)
    ways: Annotated[tuple[Way, ...], Field(min_length=1)] = tuple(sorted(WAYS))
    reason: str = Field("", max_length=200)


class _Entry(_Table):
    principals: Texts
    workspaces: tuple[Place, ...] | None = None
    workspaces_ro: tuple[Place, ...] = ()
    read_only: bool = False
    tools: Texts | None = None
    exclude_tools: tuple[Text, ...] = ()
    memory: Size | None = Field(None, ge=LEAST_MEMORY)
    cpus: float | None = Field(None, gt=0)
    timeout_seconds: float | None = Field(None, gt=0)
    calls_per_minute: int | None = Field(None, ge=1)
    concurrent: int | None = Field(None, ge=1)
    cpu_seconds_a_day: float | None = Field(None, ge=0)
    output_bytes_a_day: Size | None = Field(None, ge=0)


class _File(_Table):
    rule: tuple[_Rule, ...] = ()
    principal: tuple[_Entry, ...] = ()


def load_policy(
    settings: Settings, names: Callable[[], Iterable[str]], aliases: Aliases = NO_ALIASES
) -> Policy:
    """The policy of a server with these settings; `names` gives those of every tool and algorithm there is, and `aliases`
    which of them stand for others.

    Raises SettingsError with every problem found.
    """
    if settings.policy is None:
        return Policy(settings.approval, aliases=aliases)
    data = _read(settings.policy)
    try:
        parsed = _File.model_validate(tomllib.loads(data.decode()))
    except ValidationError as error:
        raise SettingsError(*(_sentence(settings.policy, row) for row in error.errors())) from error
    except (ValueError, RecursionError) as error:  # TOML's and Unicode's, and of brackets in brackets
        raise SettingsError(f"Policy file {settings.policy} is not TOML: {error}.") from error
    made = _made(parsed, settings.approval, settings.policy, hashlib.sha256(data).hexdigest())
    policy = replace(made, aliases=aliases)
    problems = [*_unknown_tools(policy, frozenset(names())), *_unknown_workspaces(policy, settings)]
    if problems:
        raise SettingsError(*(f"Policy file {settings.policy}: {problem}" for problem in problems))
    return policy


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IWOTH:
                raise SettingsError(f"Policy file {path} can be written by everybody. Run chmod o-w on it.")
            return file.read()
    except OSError as error:
        raise SettingsError(f"Policy file {path} cannot be read: {error.strerror}.") from error


def _made(parsed: _File, mode: ApprovalMode, path: Path, digest: str) -> Policy:
    rules = tuple(
        Rule(
            decision=one.decision,
            tools=one.tools,
            effects=frozenset(one.effects),
            workspaces=tuple(place.resolve() for place in one.workspaces),
            principals=one.principals,
            ways=frozenset(one.ways),
            reason=one.reason,
        )
        for one in parsed.rule
    )
    return Policy(mode, rules, tuple(_entry(one) for one in parsed.principal), str(path), digest)


def _entry(one: _Entry) -> Entry:
    values = {name: getattr(one, name) for name in _Entry.model_fields}
    own = None if one.workspaces is None else tuple(place.resolve() for place in one.workspaces)
    read = tuple(place.resolve() for place in one.workspaces_ro)
    return Entry(**{**values, "workspaces": own, "workspaces_ro": read})


def _unknown_tools(policy: Policy, names: frozenset[str]) -> Iterable[str]:
    rows: tuple[Rule | Entry, ...] = (*policy.rules, *policy.entries)
    said = [pattern for row in rows for pattern in row.tools or ()]
    said += [pattern for entry in policy.entries for pattern in entry.exclude_tools]
    for pattern in said:
        if not any(fnmatchcase(name, pattern) for name in names):
            yield f"{pattern!r} fits no tool and no algorithm; `gdal-mcp tools --all` lists them."


def _unknown_workspaces(policy: Policy, settings: Settings) -> Iterable[str]:
    roots = {place.resolve() for place in (*settings.workspaces, *settings.workspaces_ro)}
    said = [place for rule in policy.rules for place in rule.workspaces]
    said += [place for entry in policy.entries for place in (*(entry.workspaces or ()), *entry.workspaces_ro)]
    for place in said:
        if place not in roots:
            yield f"{place} is no workspace of this server. Name one that is, as a whole."


def _sentence(path: Path, row: Any) -> str:
    place = ".".join(str(part) for part in row["loc"])
    return f"Policy file {path}, {place}: {row['msg'][:1].lower()}{row['msg'][1:]}."
