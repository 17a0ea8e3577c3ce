"""Compares the catalogue data of another GDAL with the audited data, and extracts the unchanged part. Pure.

Invariant of `unchanged`: every algorithm, argument, driver and option in it is also in the audited data, with the
same type, flags and range. Only descriptions, addresses and defaults may differ, and lists (choices, extensions,
capabilities) may be shorter. So it needs no rule that was not audited.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

Entry = Mapping[str, Any]
Facts = Mapping[str, Any]

# keys that may differ: another text or default does not change what a value can do
_FREE: Final = frozenset({"description", "url", "default", "long_name", "metavar", "category"})
# lists of which the common entries are used
_LISTS: Final = ("choices", "extensions", "capabilities")
_PARTS: Final = ("algorithms", "steps", "drivers")
_SHARED: Final = ("warp", "transform")  # options that belong to no driver
_SCOPES: Final = ("creation", "layer", "open")


@dataclass(frozen=True, slots=True)
class Change:
    """An argument or option that differs in another GDAL; `was` or `now` is None if it is missing there."""

    owner: str  # the algorithm, step or driver, or `warp` and `transform`
    name: str
    was: Entry | None
    now: Entry | None

    def differing(self) -> tuple[str, ...]:
        """The keys that differ in an entry that both have."""
        was, now = self.was or {}, self.now or {}
        return tuple(sorted(key for key in {*was, *now} if was.get(key) != now.get(key)))


@dataclass(frozen=True)
class CatalogueChanges:
    was: Facts
    now: Facts

    def new(self, part: str) -> tuple[str, ...]:
        """Algorithms, steps, drivers or file systems that only the other GDAL has."""
        known = set(_names(self.was, part))
        return tuple(name for name in _names(self.now, part) if name not in known)

    def gone(self, part: str) -> tuple[str, ...]:
        return CatalogueChanges(self.now, self.was).new(part)

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """Old name -> new name of algorithms that have the same arguments."""
        was, now = (_by_name(facts, "algorithms") for facts in (self.was, self.now))
        signatures = {_signature(now[name]): name for name in self.new("algorithms")}
        pairs = ((name, signatures.get(_signature(was[name]))) for name in self.gone("algorithms"))
        return {old: new for old, new in pairs if new}

    @cached_property
    def arguments(self) -> tuple[Change, ...]:
        """Changed arguments of algorithms and steps that both have."""
        return tuple(
            change
            for part in ("algorithms", "steps")
            for name, was, now in _common(self.was, self.now, part)
            for change in _differing(name, _described(was), _described(now))
        )

    @cached_property
    def options(self) -> tuple[Change, ...]:
        """Changed options of drivers that both have, and of warps and transforms."""
        changed = [
            change
            for name, was, now in _common(self.was, self.now, "drivers")
            for scope in _SCOPES
            for change in _differing(name, was.get(scope, ()), now.get(scope, ()))
        ]
        shared = [change for part in _SHARED for change in _differing(part, self.was[part], self.now[part])]
        return (*changed, *shared)


def unchanged(audited: Facts, other: Facts) -> dict[str, Any]:
    """The other GDAL's data without new or changed entries; `left_out` summarizes what was removed."""
    algorithms = {
        name: reduced
        for name, was, now in _common(audited, other, "algorithms")
        if (reduced := _unchanged_algorithm(was, now)) is not None
    }
    steps = (
        _unchanged_step(was, now, algorithms.get(name)) for name, was, now in _common(audited, other, "steps")
    )
    drivers = (_unchanged_driver(was, now) for _, was, now in _common(audited, other, "drivers"))
    remaining: dict[str, Any] = {
        **other,
        "algorithms": list(algorithms.values()),
        "steps": [step for step in steps if step is not None],
        "drivers": [driver for driver in drivers if driver is not None],
        **{part: _unchanged_entries(audited[part], other[part]) for part in _SHARED},
    }
    return {**remaining, "left_out": _left_out(other, remaining)}


def _left_out(other: Facts, remaining: Facts) -> dict[str, Any]:
    """Names of algorithms, steps and drivers that are left out, and the number of arguments left out of the others."""
    names = {part: sorted({*_names(other, part)} - {*_names(remaining, part)}) for part in _PARTS}
    counts = [
        len(now["arguments"]) - len(was["arguments"])
        for _, was, now in _common(remaining, other, "algorithms")
    ]
    return {**names, "arguments": sum(counts)}


def _unchanged_algorithm(was: Entry, now: Entry) -> dict[str, Any] | None:
    """The unchanged part of an algorithm; None if the algorithm itself or a required argument differs."""
    arguments = _unchanged_entries(was["arguments"], now["arguments"])
    names = {argument["name"] for argument in arguments}
    required = {
        argument["name"]
        for entry in (was, now)
        for argument in entry["arguments"]
        if argument.get("required")
    }
    return {**now, "arguments": arguments} if required <= names and _same(was, now, "arguments") else None


def _unchanged_step(was: Entry, now: Entry, algorithm: Entry | None) -> dict[str, Any] | None:
    """The unchanged part of a step; None if the step itself or a required argument differs.

    A step describes its arguments, or only names those of its algorithm.
    """
    described = {
        argument["name"]: argument for argument in _unchanged_entries(_described(was), _described(now))
    }
    required = {
        argument["name"] for entry in (was, now) for argument in _described(entry) if argument.get("required")
    }
    if not _same(was, now, "arguments") or not required <= described.keys():
        return None
    if algorithm is None and len(described) < len(now["arguments"]):
        return None
    shared = {argument["name"] for argument in algorithm["arguments"]} if algorithm else set()
    shared &= {argument for argument in was["arguments"] if isinstance(argument, str)}
    arguments: list[Any] = [
        described.get(argument["name"])
        if not isinstance(argument, str)
        else argument
        if argument in shared
        else None
        for argument in now["arguments"]
    ]
    return {**now, "arguments": [argument for argument in arguments if argument is not None]}


def _unchanged_driver(was: Entry, now: Entry) -> dict[str, Any] | None:
    if not _same(was, now, *_SCOPES):
        return None
    options = {scope: _unchanged_entries(was.get(scope, ()), now[scope]) for scope in _SCOPES if scope in now}
    return {**_in_both(was, now), **options}


def _unchanged_entries(was: Sequence[Entry], now: Sequence[Entry]) -> list[dict[str, Any]]:
    known = {entry["name"]: entry for entry in was}
    return [
        _in_both(known[entry["name"]], entry)
        for entry in now
        if entry["name"] in known and _same(known[entry["name"]], entry)
    ]


def _in_both(was: Entry, now: Entry) -> dict[str, Any]:
    """The new entry, with its lists reduced to values that the old entry has too."""
    lists = {key: [value for value in now[key] if value in was[key]] for key in _LISTS if key in now}
    return {**now, **lists}


def _same(was: Entry, now: Entry, *ignored: str) -> bool:
    """True if both entries are equivalent. A list that only one of them has is a difference."""
    keys = {*was, *now} - _FREE - {*_LISTS, *ignored}
    return all(was.get(key) == now.get(key) for key in keys) and all(
        (key in was) == (key in now) for key in _LISTS
    )


def _differing(owner: str, was: Sequence[Entry], now: Sequence[Entry]) -> Iterator[Change]:
    old, new = ({entry["name"]: entry for entry in entries} for entries in (was, now))
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield Change(owner, name, old.get(name), new.get(name))


def _described(entry: Entry) -> list[Entry]:
    """The arguments of an algorithm or step, without those that a step only names."""
    return [argument for argument in entry["arguments"] if not isinstance(argument, str)]


def _signature(entry: Entry) -> tuple[str, ...]:
    return tuple(sorted(f"{argument['name']} {argument['type']}" for argument in entry["arguments"]))


def _common(was: Facts, now: Facts, part: str) -> Iterator[tuple[str, Entry, Entry]]:
    known = _by_name(was, part)
    for name, entry in _by_name(now, part).items():
        if name in known:
            yield name, known[name], entry


def _names(facts: Facts, part: str) -> list[str]:
    return list(_by_name(facts, part))


def _by_name(facts: Facts, part: str) -> dict[str, Entry]:
    """Entries by path or name; file systems are plain names."""
    entries = facts.get(part, ())
    return {
        entry if isinstance(entry, str) else entry.get("path") or entry["name"]: entry for entry in entries
    }
