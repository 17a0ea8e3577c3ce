"""The report of `gdal-mcp catalogue refresh`: what differs in another GDAL, and what needs a decision. Pure."""

import json
from collections.abc import Iterator
from typing import Any, Final

from gdal_mcp.toolboxes.gdal import data_of
from gdal_mcp.toolboxes.gdal.catalogue.changes import CatalogueChanges, Change, Entry
from gdal_mcp.toolboxes.gdal.catalogue.load import shared_rules
from gdal_mcp.toolboxes.gdal.catalogue.messages import unrecognised

_PACKAGE: Final = "gdal_mcp.toolboxes.gdal.catalogue"
_QUESTION: Final = "can its text become a file, a URL, a command, SQL or the name of a library?"
_TITLES: Final = {"algorithms": "algorithms", "steps": "pipeline steps", "drivers": "drivers"}


def report(changes: CatalogueChanges) -> list[str]:
    """The lines of the report; a single line if nothing changed."""
    sections = [
        *(section for part in _TITLES for section in _names(changes, part)),
        ("Algorithms that seem to have another name", [f"{a} -> {b}" for a, b in changes.renamed.items()]),
        ("Arguments that changed", [_changed(change) for change in changes.arguments]),
        ("Proposed roles, for roles.toml (forbidden where it is not clear)", _roles(changes)),
        ("Options that changed", [_changed(change) for change in changes.options]),
        ("Text options to decide on, in options.toml", _undecided(changes)),
        ("New file systems and prefixes, which are refused until names.toml has them", _prefixes(changes)),
        ("Messages that its libraries do not have: these warnings are not recognised", _messages(changes)),
    ]
    head = f"GDAL {changes.now['gdal']}, compared with the catalogue of GDAL {changes.was['gdal']}"
    shown = [
        line for title, rows in sections if rows for line in ("", f"{title}:", *(f"  {row}" for row in rows))
    ]
    return [f"{head}:", *shown] if shown else [f"{head}: no change"]


def _names(changes: CatalogueChanges, part: str) -> Iterator[tuple[str, list[str]]]:
    yield f"New {_TITLES[part]}, not served before a review", list(changes.new(part))
    yield f"Gone {_TITLES[part]}", list(changes.gone(part))


def _changed(change: Change) -> str:
    if change.was is None or change.now is None:
        return f"{change.owner} {change.name}: {'new' if change.was is None else 'gone'}"
    pairs = (
        f"{key} {_short(change.was.get(key))} -> {_short(change.now.get(key))}" for key in change.differing()
    )
    return f"{change.owner} {change.name}: {'; '.join(pairs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _roles(changes: CatalogueChanges) -> list[str]:
    """A line of TOML for each argument that no rule covers."""
    roles = data_of(_PACKAGE, "roles.toml")
    shared, own = shared_rules(roles), roles.get("algorithm", {})
    new = {*changes.new("algorithms"), *changes.new("steps")}
    described = [
        (entry["path"], argument)
        for part in ("algorithms", "steps")
        for entry in changes.now[part]
        if entry["path"] in new
        for argument in entry["arguments"]
        if not isinstance(argument, str)
    ]
    described += [(change.owner, change.now) for change in changes.arguments if change.now is not None]
    rows = (
        _proposed(path, argument)
        for path, argument in described
        if argument["name"] not in own.get(path, {})
        and argument["type"] not in shared.get(argument["name"], {}).get("types", ())
    )
    return list(dict.fromkeys(rows))


def _proposed(path: str, argument: Entry) -> str:
    kind, name = argument["type"], argument["name"]
    role, reason = "forbidden", _QUESTION
    if kind.startswith("dataset"):
        writes = argument.get("place") == "output" or "output" in name
        role, reason = "output" if writes else "input", "a dataset: is it read or written?"
    elif kind.removesuffix("_list") in ("boolean", "integer", "real"):
        role, reason = "value", "a switch or number, which opens nothing: does it write or delete?"
    elif argument.get("choices"):
        role, reason = "value", f"one of {len(argument['choices'])} words"
    return f'[algorithm."{path}"] {name} = {{ types = ["{kind}"], role = "{role}", reason = "{reason}" }}'


def _undecided(changes: CatalogueChanges) -> list[str]:
    """New options of type `string`, which are refused unless options.toml permits them."""
    new = {*changes.new("drivers")}
    new_options = [
        (driver["name"], option)
        for driver in changes.now["drivers"]
        if driver["name"] in new
        for scope in ("creation", "layer", "open")
        for option in driver.get(scope, ())
    ]
    new_options += [
        (change.owner, change.now)
        for change in changes.options
        if change.was is None and change.now is not None
    ]
    return [f"{owner} {option['name']}" for owner, option in new_options if option["type"] == "string"]


def _prefixes(changes: CatalogueChanges) -> list[str]:
    was, now = (
        {driver["prefix"] for driver in facts["drivers"] if driver.get("prefix")}
        for facts in (changes.was, changes.now)
    )
    return [*changes.new("file_systems"), *sorted(now - was)]


def _messages(changes: CatalogueChanges) -> list[str]:
    absent = unrecognised(changes.now.get("messages"))
    return [f"{code}: {text}" for code, texts in absent.items() for text in texts]
