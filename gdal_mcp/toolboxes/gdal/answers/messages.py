"""Converts GDAL's warnings to checks with our codes and messages (`data/warnings.toml`). Pure.

GDAL's text contains names of fields and layers and values of the data, so it stays under `untrusted`. There it is
folded: equal texts, and texts that differ only in their numbers, appear once with their count.

Invariants: a check contains only our own words and numbers, whatever text was matched; each code appears once.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.answers import read
from gdal_mcp.toolboxes.gdal.answers.checks import CHECKS, checks
from gdal_mcp.toolboxes.gdal.discovery.sql import sql_advice
from gdal_mcp.toolboxes.toolbox import Described, LibraryMessage, MessageSummary

MOST_TEXTS: Final = 20
UNCLASSIFIED: Final = "unclassified_warning"  # code of a GDAL warning that no rule matches
_NUMBER: Final = r"-?[0-9]{1,19}(?:\.[0-9]{1,19})?(?:e[+-]?[0-9]{1,3})?"
_ANY_NUMBER: Final = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", re.IGNORECASE)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("{number}", _NUMBER), re.DOTALL)


@cache
def _warnings() -> Sequence[tuple[re.Pattern[str], Mapping[str, Any]]]:
    """The patterns of warnings, each with its row. A group's name is the key of the number that it matches."""
    return [(_pattern(text), row) for row in read("warnings.toml")["warning"] for text in row["patterns"]]


@cache
def _harmless() -> Sequence[re.Pattern[str]]:
    return [_pattern(text) for text in read("warnings.toml")["harmless"]["patterns"]]


@cache
def _errors() -> Sequence[tuple[re.Pattern[str], str]]:
    return [(_pattern(row["pattern"]), row["suggestion"]) for row in read("warnings.toml")["error"]]


def summarize_messages(
    messages: Sequence[LibraryMessage], outputs: Sequence[Described] = (), call_checks: object = None
) -> MessageSummary:
    """Summarizes the warnings of a successful job, and `call_checks`, the container's checks of the call itself.

    `outputs` describes what the job wrote, which GDAL's text may contradict.
    """
    counts: Counter[str] = Counter()
    rows: dict[str, dict[str, Any]] = {}
    layers = [layer for output in outputs for layer in output.facts.get("layers") or () if layer]
    # GDAL's GeoJSON driver warns that it drops Z, but writes it
    has_z = bool(layers) and all(str(layer.get("geometry")).startswith("3D ") for layer in layers)
    for message in messages:
        match = _rule(message.text)
        text = message.text.strip()
        is_harmless = not text or any(pattern.fullmatch(text) for pattern in _harmless())
        if match is None and message.level == "warning" and not is_harmless:
            counts[UNCLASSIFIED] += message.count
        if match is None or (has_z and match[0]["code"] == "z_lost"):
            continue
        rule, numbers = match
        code = rule["code"]
        counts[code] += message.count
        rows.setdefault(code, {**CHECKS[code], **numbers})
        if rule.get("repeats", True):  # GDAL reports the others only once
            rows[code]["count"] = counts[code]
    if count := counts[UNCLASSIFIED]:
        rows[UNCLASSIFIED] = {**CHECKS[UNCLASSIFIED], "count": count}
    return MessageSummary((*checks(call_checks), *rows.values()), tuple(fold(messages)))


def suggestion_for(errors: Sequence[LibraryMessage]) -> str:
    """A suggestion for the errors of a failed job; "" if no rule matches."""
    known = (
        suggestion for error in errors for pattern, suggestion in _errors() if pattern.fullmatch(error.text)
    )
    return next(known, "") or sql_advice(error.text for error in errors)


def fold(messages: Iterable[LibraryMessage]) -> list[str]:
    """Texts without repeats. Of texts that differ only in their numbers, the first is used, with the count."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    same: dict[str, bool] = {}
    for message in messages:
        key = _ANY_NUMBER.sub("#", message.text)
        same[key] = same.get(key, True) and first.get(key, message.text) == message.text
        first.setdefault(key, message.text)
        counts[key] += message.count
    times = {key: f" ({counts[key]} times{'' if same[key] else ', with other numbers'})" for key in first}
    return [first[key] + (times[key] if counts[key] > 1 else "") for key in list(first)[:MOST_TEXTS]]


def _rule(text: str) -> tuple[Mapping[str, Any], dict[str, float]] | None:
    for pattern, rule in _warnings():
        if match := pattern.fullmatch(text.strip()):
            numbers = {key: float(value) for key, value in match.groupdict().items()}
            return rule, {
                key: int(value) if value.is_integer() and abs(value) < 2**53 else value
                for key, value in numbers.items()
                if math.isfinite(value)
            }
    return None
