"""Reads the policy file, TOML, into a frozen `Policy`. Unknown words are errors, so that no rule is lost to a typo.

[[rule]]                       # the first match decides
decision = "require"           # or "allow", "deny"
tools = ["raster_*"]
effects = ["replace"]          # of read, create, replace, destroy
workspaces = ["/srv/maps"]
principals = ["oauth:*"]
ways = ["console"]             # in which approval counts: elicitation, console, terminal
reason = "maps are shared"

[[principal]]                  # what somebody has; without such entries everybody has everything
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
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gdal_mcp.access.aliases import NO_ALIASES, Aliases
from gdal_mcp.access.policy import WAYS, Entry, Policy, Rule, Way
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
    """The policy of a server with these settings; `names` gives the names of all tools and algorithms.

    Raises SettingsError with every problem found.
    """
    path = settings.policy
    if path is None:
        return Policy(settings.approval, aliases=aliases)
    data = _read(path)
    try:
        parsed = _File.model_validate(tomllib.loads(data.decode()))
    except ValidationError as error:
        raise SettingsError(
            *(
                f"Policy file {path}, {'.'.join(map(str, row['loc']))}: {row['msg'][:1].lower()}{row['msg'][1:]}."
                for row in error.errors()
            )
        ) from error
    except (ValueError, RecursionError) as error:  # of TOML, of Unicode, and of deeply nested brackets
        raise SettingsError(f"Policy file {path} is not TOML: {error}.") from error
    policy = Policy(
        settings.approval,
        tuple(
            Rule(**_values(one), effects=frozenset(one.effects), ways=frozenset(one.ways))
            for one in parsed.rule
        ),
        tuple(Entry(**_values(one)) for one in parsed.principal),
        str(path),
        hashlib.sha256(data).hexdigest(),
        aliases,
    )
    if problems := [*_unknown_tools(policy, frozenset(names())), *_unknown_workspaces(policy, settings)]:
        raise SettingsError(*(f"Policy file {path}: {problem}" for problem in problems))
    return policy


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IWOTH:
                raise SettingsError(f"Policy file {path} can be written by everybody. Run chmod o-w on it.")
            return file.read()
    except OSError as error:
        raise SettingsError(f"Policy file {path} cannot be read: {error.strerror}.") from error


def _values(table: _Rule | _Entry) -> dict[str, Any]:
    """The fields of a table that need no other type, and its folders with their links resolved."""
    values = {name: value for name, value in table if name not in ("effects", "ways")}
    folders = {name: value for name, value in values.items() if name.startswith("workspaces")}
    return values | {
        name: value and tuple(folder.resolve() for folder in value) for name, value in folders.items()
    }


def _unknown_tools(policy: Policy, names: frozenset[str]) -> Iterable[str]:
    rows: tuple[Rule | Entry, ...] = (*policy.rules, *policy.entries)
    said = [pattern for row in rows for pattern in row.tools or ()]
    said += [pattern for entry in policy.entries for pattern in entry.exclude_tools]
    for pattern in said:
        if not any(fnmatchcase(name, pattern) for name in names):
            yield f"{pattern!r} matches no tool and no algorithm; `gdal-mcp tools --all` lists them."


def _unknown_workspaces(policy: Policy, settings: Settings) -> Iterable[str]:
    roots = {place.resolve() for place in (*settings.workspaces, *settings.workspaces_ro)}
    said = [place for rule in policy.rules for place in rule.workspaces]
    said += [place for entry in policy.entries for place in (*(entry.workspaces or ()), *entry.workspaces_ro)]
    for place in said:
        if place not in roots:
            yield f"{place} is not a workspace of this server. Name one of its workspaces, not a folder inside."
