"""Puts right what GDAL says wrongly of its own arguments, as `data/patches.toml` lists it. Pure.

Invariant: for the release that the patches were written for, each changes exactly what it names, or nothing loads.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from gdal_mcp.gdal.catalogue.errors import CatalogueBroken


def patched(facts: dict[str, Any], patches: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with every patch applied; those given stay as they are. Raises CatalogueBroken.

    A step that describes an argument again is patched with its algorithm.
    """
    strict = facts["gdal"].startswith(f"{patches['release']}.")
    paths = {path for patch in patches["patch"] for path in patch["algorithms"]}
    algorithms, steps = (_by_path(facts[part], paths) for part in ("algorithms", "steps"))
    for patch in patches["patch"]:
        if not patch.get("reason"):
            raise CatalogueBroken(f"the patch of {_named(patch)} in patches.toml has no reason.")
        for path in patch["algorithms"]:
            _apply(steps.get(path), patch)
            if not _apply(algorithms.get(path), patch) and strict:
                raise CatalogueBroken(
                    f"the patch of {_named(patch)} in patches.toml finds no fault in {path}. Take it out, or correct `was`."
                )
    return {**facts, "algorithms": list(algorithms.values()), "steps": list(steps.values())}


def _by_path(entries: Iterable[dict[str, Any]], copied: Container[str]) -> dict[str, dict[str, Any]]:
    return {entry["path"]: _copy(entry) if entry["path"] in copied else entry for entry in entries}


def _copy(entry: dict[str, Any]) -> dict[str, Any]:
    arguments = [one if isinstance(one, str) else dict(one) for one in entry["arguments"]]
    return {**entry, "arguments": arguments}


def _apply(entry: dict[str, Any] | None, patch: Mapping[str, Any]) -> bool:
    """Whether the fault was there."""
    described = [one for one in entry["arguments"] if not isinstance(one, str)] if entry else ()
    found = next((one for one in described if one["name"] == patch["argument"]), None)
    if found is None or not _same(found.get(patch["key"]), patch["was"]):
        return False
    if "now" in patch:
        found[patch["key"]] = patch["now"]
    else:
        del found[patch["key"]]
    return True


def _same(one: object, other: object) -> bool:
    """Equal and of the same type, as 1 is no text, no list and not true."""
    return type(one) is type(other) and one == other


def _named(patch: Mapping[str, Any]) -> str:
    return f"{patch['argument']} {patch['key']}"
