"""Compares what two GDALs say of themselves, and says whether a catalogue fits a GDAL at all. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
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
    """One thing that the newer data says otherwise. `detail` says what, of a change."""

    change: Change
    kind: Kind
    where: str  # such as `raster clip --like` or `GTiff creation COMPRESS`
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.change} {self.kind} {self.where}" + (f": {self.detail}" if self.detail else "")


def differences(older: str, newer: str) -> tuple[Difference, ...]:
    """What `newer` says otherwise than `older`; both are data as `capture` writes it. Headers' generators are no matter.

    Empty only if both say the same, the order of arguments, steps and drivers included. Raises ValueError for what is
    no such data.
    """
    try:
        before, after = _facts(older), _facts(newer)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no data of a catalogue: {error!r}") from error
    return tuple(_compared(before, after))


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


def _facts(text: str) -> dict[_Key, Any]:
    """Everything the data says, by what it says it of."""
    document = json.loads(text)
    found: dict[_Key, Any] = {("version", "GDAL"): {"release": document["gdal"]}}
    found |= {("skipped", name): {} for name in document["skipped"]}
    found |= dict(_described("algorithm", document["algorithms"]))
    found |= dict(_described("step", document["steps"]))
    found |= dict(_drivers(document["drivers"]))
    for scope in _SHARED:
        found |= dict(_options("*", scope, document[scope]))
    return found


def _described(
    kind: Literal["algorithm", "step"], entries: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[_Key, Any]]:
    entries = list(entries)
    yield (kind, "*"), {"order": [entry["path"] for entry in entries]}
    for entry in entries:
        path = entry["path"]
        named = [{"name": one} if isinstance(one, str) else one for one in entry["arguments"]]
        yield (kind, path), _without(entry, "arguments") | {"order": [one["name"] for one in named]}
        word = "step " if kind == "step" else ""
        for one in named:
            yield ("argument", f"{word}{path} --{one['name']}"), one


def _drivers(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[_Key, Any]]:
    entries = list(entries)
    yield ("driver", "*"), {"order": [entry["name"] for entry in entries]}
    for entry in entries:
        yield ("driver", entry["name"]), _without(entry, *_SCOPES)
        for scope in _SCOPES:
            yield from _options(entry["name"], scope, entry.get(scope, ()))


def _options(driver: str, scope: str, entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[_Key, Any]]:
    """A driver may declare an option of the same name twice."""
    seen: dict[str, int] = {}
    for entry in entries:
        name = entry["name"]
        seen[name] = seen.get(name, 0) + 1
        again = f" ({seen[name]})" if seen[name] > 1 else ""
        yield ("option", f"{driver} {scope} {name}{again}"), dict(entry)


def _without(entry: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in keys}


def _compared(before: Mapping[_Key, Any], after: Mapping[_Key, Any]) -> Iterator[Difference]:
    yield from (Difference("removed", *key) for key in before if key not in after)
    for key in after:
        if key not in before:
            yield Difference("added", *key)
        elif detail := _detail(before[key], after[key]):
            yield Difference("changed", *key, detail)


def _detail(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What changed, key by key; of an order only whether those that are in both stand otherwise."""
    keys = [*before, *(key for key in after if key not in before)]
    return ", ".join(
        f"{key}: {_shown(before.get(key))} -> {_shown(after.get(key))}"
        for key in keys
        if not _same(key, before.get(key), after.get(key))
    )


def _same(key: str, before: Any, after: Any) -> bool:
    if key != "order":
        return type(before) is type(after) and bool(before == after)
    both = set(before) & set(after)
    return [name for name in before if name in both] == [name for name in after if name in both]


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
