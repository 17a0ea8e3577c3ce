"""Compares what two GDALs say of themselves, and says whether a catalogue fits a GDAL at all. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gdal_mcp.gdal.catalogue.model import Catalogue

Change = Literal["added", "removed", "changed"]
Kind = Literal["version", "skipped", "algorithm", "step", "argument", "driver", "option"]

INTERFACE: Final[frozenset[Kind]] = frozenset({"algorithm", "step", "argument"})
"""What the server builds command lines from. Drivers and options differ between builds of one version."""

_SCOPES: Final = ("creation", "layer", "open")
_SHARED: Final = ("warp", "transform")
_SHOWN: Final = 60  # letters of a value


@dataclass(frozen=True, slots=True)
class Difference:
    change: Change
    kind: Kind
    where: str  # such as `raster clip --like` or `GTiff creation COMPRESS`
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.change} {self.kind} {self.where}" + (f": {self.detail}" if self.detail else "")


def differences(older: str, newer: str) -> tuple[Difference, ...]:
    """What `newer` says otherwise than `older`; both are data as `capture` writes it. The generator in the header does not count.

    Empty only if both say the same, the order of arguments, steps and drivers included. Raises ValueError for what is
    no such data.
    """
    try:
        before, after = _facts(older), _facts(newer)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no data of a catalogue: {error!r}") from error
    found = [Difference("removed", *key) for key in before if key not in after]
    for key, said in after.items():
        if key not in before:
            found.append(Difference("added", *key))
        elif detail := _detail(before[key], said):
            found.append(Difference("changed", *key, detail))
    return tuple(found)


def unfit(catalogue: Catalogue, gdal_version: str) -> str | None:
    """Why no call may run on a GDAL of this version with this catalogue, and what to do; None when it fits.

    A catalogue fits every GDAL of its minor release.
    """
    if tuple(gdal_version.split(".")[:2]) == tuple(catalogue.gdal_version.split(".")[:2]):
        return None
    return (
        f"the image has GDAL {gdal_version}, but the catalogue in use describes GDAL {catalogue.gdal_version}: arguments may mean "
        "something else there. Run `gdal-mcp setup` with the same image and start the server again, or use an image with GDAL "
        f"{catalogue.release[0]}.{catalogue.release[1]}."
    )


_Key = tuple[Kind, str]
_Facts = dict[_Key, dict[str, Any]]


def _facts(text: str) -> _Facts:
    """Everything the data says, by what it says it of. A `*` has the order in which the others stand."""
    document = json.loads(text)
    found: _Facts = {("version", "GDAL"): {"release": document["gdal"]}}
    found |= {("skipped", name): {} for name in document["skipped"]}
    found |= _commands("algorithm", document["algorithms"])
    found |= _commands("step", document["steps"])
    found["driver", "*"] = {"order": [entry["name"] for entry in document["drivers"]]}
    for entry in document["drivers"]:
        found["driver", entry["name"]] = {key: one for key, one in entry.items() if key not in _SCOPES}
        for scope in _SCOPES:
            found |= _options(f"{entry['name']} {scope}", entry.get(scope, ()))
    for scope in _SHARED:
        found |= _options(f"* {scope}", document[scope])
    return found


def _commands(kind: Literal["algorithm", "step"], entries: list[dict[str, Any]]) -> _Facts:
    found: _Facts = {(kind, "*"): {"order": [entry["path"] for entry in entries]}}
    for entry in entries:
        named = [{"name": one} if isinstance(one, str) else one for one in entry["arguments"]]
        found[kind, entry["path"]] = {**entry, "arguments": None, "order": [one["name"] for one in named]}
        path = entry["path"] if kind == "algorithm" else f"step {entry['path']}"
        found |= {("argument", f"{path} --{one['name']}"): one for one in named}
    return found


def _options(of: str, entries: Iterable[dict[str, Any]]) -> _Facts:
    """A driver may declare an option of the same name twice."""
    found: _Facts = {}
    for entry in entries:
        where, again = f"{of} {entry['name']}", 1
        while ("option", where) in found:
            again += 1
            where = f"{of} {entry['name']} ({again})"
        found["option", where] = entry
    return found


def _detail(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What changed, key by key; of an order only whether those that are in both stand otherwise."""
    changes = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if key == "order" and isinstance(old, list) and isinstance(new, list):
            old, new = [one for one in old if one in new], [one for one in new if one in old]
        if type(old) is not type(new) or old != new:
            changes.append(f"{key}: {_shown(old)} -> {_shown(new)}")
    return ", ".join(changes)


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
