"""Parses GDAL's notation of pipelines, `read dem.tif ! hillshade ! write shade.tif`, exactly or not at all. Pure.

Words are separated by blanks. Double quotes keep blanks, and a backslash in front of a quote or a backslash inside
them escapes it. Single quotes around a whole word, or around everything after `--name=`, work as in a shell. `!`, `[`
and `]` are words of their own. Nothing is expanded. A pipeline in brackets is a branch of `tee`, or the value of the
argument in front of it.
"""

import re
from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused

MAX_LETTERS: Final = 32 << 10
MAX_DEPTH: Final = 4
_SIGNS: Final = ("!", "[", "]")
# No alternative is tried twice, so that a long text costs no more than its length. A quote that only the last
# alternative matches was never closed.
# Only single characters are repeated possessively: Python before 3.11.5 matches possessive groups wrongly.
_TOKEN: Final = re.compile(
    r"""(?P<before>(?:--[a-z-]++=)?)'(?P<single>[^']*+)'(?=[ \t\n]|\Z)"""
    r"""|(?:[^" \t\n]++|"[^"\\]*+(?:\\.[^"\\]*+)*")+|(?P<unclosed>")""",
    re.DOTALL,
)
_QUOTED: Final = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\])')


@dataclass(frozen=True, slots=True)
class StepCall:
    """One step of a client's pipeline: arguments by name, and the words after its name in GDAL's notation.

    Branches are nested pipelines. For each branch, `places` has the argument whose value it is, or "" if no argument
    is named.
    """

    name: str
    words: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    branches: tuple[tuple["StepCall", ...], ...] = ()
    places: tuple[str, ...] = ()


def parse_notation(text: str, names: Container[str] = ()) -> tuple[StepCall, ...]:
    """The steps of a pipeline. `names` has the steps whose names are two words, such as `grid count`.

    Raises ArgumentRefused for a text that is not exactly a pipeline.
    """
    if len(text) > MAX_LETTERS:
        raise ArgumentRefused(f"the pipeline is longer than {MAX_LETTERS} letters.", "Split it.")
    tokens: deque[str] = deque()
    for match in _TOKEN.finditer(text):
        if match["unclosed"]:
            raise ArgumentRefused("a quote in the pipeline is not closed.", 'Close every " in it.')
        escaped = match["single"] and re.sub(r'(["\\])', r"\\\1", match["single"])
        tokens.append(match[0] if escaped is None else f'{match["before"]}"{escaped}"')
    if tokens and tokens[0] == "!":  # GDAL accepts one in front of the first step
        tokens.popleft()
    steps = _steps(tokens, names, depth=0)
    if tokens:
        raise ArgumentRefused("the pipeline closes a bracket that it did not open.", "Balance [ and ].")
    return steps


def _steps(tokens: deque[str], names: Container[str], depth: int) -> tuple[StepCall, ...]:
    """Parses the steps at the beginning of `tokens`, and removes their tokens."""
    if depth > MAX_DEPTH:
        raise ArgumentRefused("the pipeline is nested too deeply.", f"Nest at most {MAX_DEPTH} times.")
    steps = [_step(tokens, names, depth)]
    while tokens and tokens[0] == "!":
        tokens.popleft()
        steps.append(_step(tokens, names, depth))
    return tuple(steps)


def _step(tokens: deque[str], names: Container[str], depth: int) -> StepCall:
    name = tokens.popleft() if tokens else ""
    if not name or name in _SIGNS or '"' in name or name.startswith("-"):
        raise ArgumentRefused(
            "a step of the pipeline has no name.", "Write `read in.tif ! STEP ... ! write out.tif`."
        )
    words: list[str] = []
    branches: list[tuple[StepCall, ...]] = []
    places: list[str] = []
    while tokens and tokens[0] not in ("!", "]"):
        word = tokens.popleft()
        if word != "[":
            words.append(_QUOTED.sub(lambda quoted: _ESCAPED.sub(r"\1", quoted[1]), word))
            continue
        named = bool(words) and words[-1].startswith("--") and "=" not in words[-1]
        places.append(words.pop()[2:] if named else "")
        branches.append(_steps(tokens, names, depth + 1))
        if not tokens or tokens.popleft() != "]":
            raise ArgumentRefused("a bracket in the pipeline is not closed.", "Balance [ and ].")
    if words and f"{name} {words[0]}" in names:
        name = f"{name} {words.pop(0)}"
    return StepCall(name, tuple(words), branches=tuple(branches), places=tuple(places))
