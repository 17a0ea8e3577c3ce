"""Reads the policy file, TOML, into a frozen `Policy`. Unknown words are errors, so that no rule is lost to a typo.

[[rule]]                       # the first match decides
decision = "require"           # or "allow", "deny"
tools = ["raster_*"]
effects = ["replace"]          # of read, create, replace, destroy, code
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import ValidationError

from gdal_mcp.policy.policy import NO_ALIASES, Aliases, Policy, PolicyEntry, PolicyRule, PolicyTable
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.settings.file import nearest, sentence, trusted_toml


class _File(PolicyTable):
    rule: tuple[PolicyRule, ...] = ()
    principal: tuple[PolicyEntry, ...] = ()


_TABLES: Final[Mapping[str, type[PolicyTable]]] = {"rule": PolicyRule, "principal": PolicyEntry}


def load_policy(
    settings: Settings, names: Callable[[], Iterable[str]], aliases: Aliases = NO_ALIASES
) -> Policy:
    """The policy of a server with these settings; `names` gives the names of all tools and algorithms.

    Raises SettingsError with every problem found.
    """
    path = settings.policy
    if path is None:
        return Policy(settings.approval, aliases=aliases, ways=frozenset(settings.approval_ways))
    data, values = trusted_toml(path, "Policy")
    try:
        parsed = _File.model_validate(values)
    except ValidationError as error:
        raise SettingsError(*(f"Policy file {path}, {_problem(row)}" for row in error.errors())) from error
    policy = Policy(
        settings.approval,
        parsed.rule,
        parsed.principal,
        str(path),
        hashlib.sha256(data).hexdigest(),
        aliases,
        frozenset(settings.approval_ways),
    )
    if problems := list(_unknown(policy, settings, frozenset(names()))):
        raise SettingsError(*(f"Policy file {path}: {problem}" for problem in problems))
    return policy


def _problem(row: Mapping[str, Any]) -> str:
    """A sentence with the place of a mistake in the file, the mistake, and the correction."""
    table, *rest = row["loc"]
    keys = [part for part in rest if isinstance(part, str)]
    numbers = [part + 1 for part in rest if isinstance(part, int)]
    place = " ".join(map(str, (table, *numbers[:1])))
    text = sentence(row["msg"])
    if row["type"] == "extra_forbidden":
        known = _TABLES[table].model_fields if keys else _File.model_fields
        unknown = keys[-1] if keys else table
        where = f"{place}: " if keys else ""
        return f"{where}there is no key {unknown[:80]!r}; the nearest is {nearest(unknown, known)}."
    if row["type"] == "missing":
        return f"{place}: the key {keys[-1]} is missing."
    if not keys and not numbers:
        return f"{table}: write each as a table, [[{table}]]."
    value = repr(row["input"])[:80]
    return f"{', '.join([place, *keys[:1]])}: the value cannot be {value}: {text}"


def _unknown(policy: Policy, settings: Settings, names: frozenset[str]) -> Iterator[str]:
    rows: tuple[PolicyRule | PolicyEntry, ...] = (*policy.rules, *policy.entries)
    tools = [pattern for row in rows for pattern in row.tools or ()]
    tools += [pattern for entry in policy.entries for pattern in entry.exclude_tools]
    for pattern in tools:
        if not any(fnmatchcase(name, pattern) for name in names):
            yield f"{pattern!r} matches no tool and no algorithm; `gdal-mcp tools --all` lists them."
    for number, rule in enumerate(policy.rules, 1):
        if not rule.ways & policy.ways:
            yield f"rule {number} accepts no way of approval that the setting approval_ways leaves; nobody could approve."
    roots = {place.resolve() for place in (*settings.workspaces, *settings.workspaces_ro)}
    places = [place for rule in policy.rules for place in rule.workspaces]
    places += [
        place for entry in policy.entries for place in (*(entry.workspaces or ()), *entry.workspaces_ro)
    ]
    for place in places:
        if place not in roots:
            yield f"{place} is not a workspace of this server. Name one of its workspaces, not a folder inside."
