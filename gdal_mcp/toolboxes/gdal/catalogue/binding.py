"""Binds a client's arguments to an algorithm and renders them as words that GDAL cannot misread. Pure.

Invariants of rendered words:
* every word is `--name` or `--name=value` with a canonical name of the catalogue, never a token that GDAL's main
  process consumes;
* every value passed the check of its argument; every path is absolute and comes from the caller's resolver, which
  receives only the path, without the surrounding syntax (`forms`);
* `host_owned` arguments, which the server decides, are returned but not rendered; `forbidden` ones are refused.
"""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from gdal_mcp.toolboxes.gdal.catalogue.arguments import (
    ELEMENT_BYTES,
    ArgumentTexts,
    find_argument,
    read_words,
    refuse_excess,
    value_texts,
)
from gdal_mcp.toolboxes.gdal.catalogue.checks import (
    ArgumentContext,
    Context,
    check_values,
    refuse_absent_output,
    require_single,
)
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused, UnknownArgument
from gdal_mcp.toolboxes.gdal.catalogue.forms import split
from gdal_mcp.toolboxes.gdal.catalogue.model import PATH_ROLES, RESERVED_TOKENS, Algorithm, Argument, Role
from gdal_mcp.toolboxes.gdal.catalogue.schema import SAME_NAMES

# A resolver returns an absolute path or, for an input, the name of a subdataset with an absolute path in it.
_PLACE: Final = re.compile(r'[A-Za-z0-9_]+:(?:[^/\\@":]{0,128}:)*"?/(?!/)')

Resolver = Callable[[Argument, str], str]


@dataclass(frozen=True, slots=True)
class Bound:
    """Checked arguments of one command."""

    path: str
    arguments: tuple[ArgumentTexts, ...]
    resolved: bool = False  # if False, the values of path roles are as the client wrote them

    def has_mode(self, mode: Literal["replace", "update"]) -> bool:
        """True if the call may replace an existing output ("replace"), or changes a copy of one ("update")."""
        return any(texts.argument.rule.mode == mode and texts.values == ("true",) for texts in self.arguments)

    def get(self, name: str) -> tuple[str, ...]:
        return next((texts.values for texts in self.arguments if texts.name == name), ())

    def resolve(self, resolver: Resolver) -> "Bound":
        """A copy with every path resolved by `resolver`, which returns an absolute path or raises."""

        def placed(argument: Argument, text: str) -> str:
            what = f"--{argument.name}"
            parts = split(argument.rule.form, text, what)
            if parts.path is None:
                return parts.text
            place = resolver(argument, parts.path)
            absolute = place.startswith("/") or (argument.role is Role.INPUT and _PLACE.match(place))
            if not absolute or "\0" in place:
                raise ValueError(f"the resolver of {what} returned a path that is not absolute")
            return require_single(argument, parts.join(place, what))

        resolved = (
            replace(texts, values=tuple(placed(texts.argument, text) for text in texts.values))
            if texts.role in PATH_ROLES
            else texts
            for texts in self.arguments
        )
        return Bound(self.path, tuple(resolved), resolved=True)


def bind_either(
    algorithms: Sequence[Algorithm], arguments: Mapping[str, Any], words: Sequence[str], context: Context
) -> Bound:
    """Binds the arguments and extra words of a tool that passes input and output itself.

    They are bound, in their order, to the first algorithm that accepts all of them: GDAL chooses the algorithm behind
    `gdal convert` only in the container, from the data. Raises ArgumentRefused.
    """
    refusals: list[ArgumentRefused] = []
    for algorithm in algorithms:
        try:
            passed = [*_texts_by_name(algorithm, arguments, words).values()]
            for texts in passed:
                _refuse_owned(texts.argument)
            return _bind(algorithm, passed, context)
        except ArgumentRefused as error:
            refusals.append(error)
    raise next((refusal for refusal in refusals if not isinstance(refusal, UnknownArgument)), refusals[0])


def bind(
    algorithm: Algorithm, arguments: Mapping[str, Any], context: Context, words: Sequence[str] = ()
) -> Bound:
    """Binds all arguments of a call: JSON values by name or alias, with - or _, and words. Raises ArgumentRefused.

    null, and false for a switch that is off by default, are the same as omitting the argument.
    """
    passed = _texts_by_name(algorithm, arguments, words)
    names = passed.keys() | context.taken
    missing = [
        argument.name for argument in algorithm.arguments if argument.required and argument.name not in names
    ]
    if missing:
        raise ArgumentRefused(
            f"gdal {algorithm.path} needs {', '.join(missing)}.", f"Add {' and '.join(missing)}."
        )
    for group in algorithm.one_of:
        if not names & set(group):
            raise ArgumentRefused(
                f"gdal {algorithm.path} needs one of {', '.join(group)}.", "Give one of them."
            )
    # In the algorithm's order: JSON keys have no order, and GDAL takes `--limit` in front of `--features` for both.
    bound = _bind(
        algorithm,
        [passed[argument.name] for argument in algorithm.arguments if argument.name in passed],
        context,
    )
    roles = {texts.role for texts in bound.arguments}
    if bound.has_mode("update") and not roles & {Role.OUTPUT, Role.UPDATE}:
        raise ArgumentRefused("the call changes an output and names none.", "Name the output.")
    return bound


def _texts_by_name(
    algorithm: Algorithm, arguments: Mapping[str, Any], words: Sequence[str]
) -> dict[str, ArgumentTexts]:
    """The client's arguments by canonical name, in the client's order. Raises ArgumentRefused."""
    known = algorithm.long_names
    if len(arguments) > 2 * len(known):  # each unknown name costs a search for similar names
        raise ArgumentRefused(
            f"gdal {algorithm.path} has no such number of arguments as {len(arguments)}.",
            "Look up its arguments with gdal_describe.",
        )
    passed: dict[str, ArgumentTexts] = {}
    for name, value in arguments.items():
        spelling = name if name in known else _known_name(name.lstrip("-").replace("_", "-"), known)
        argument = find_argument(algorithm, spelling)
        if argument.name in passed:
            raise ArgumentRefused(f"--{argument.name} is given twice, by two of its names.", "Give it once.")
        texts = value_texts(argument, value)
        if texts or (value == [] and argument.min_count):
            passed[argument.name] = ArgumentTexts(argument, texts)
    for word_texts in read_words(algorithm, words):
        before = passed.get(word_texts.name)
        if before and not (word_texts.argument.is_list and word_texts.argument.repeatable):
            raise ArgumentRefused(f"--{word_texts.name} is given twice.", "Give it once.")
        passed[word_texts.name] = (
            replace(word_texts, values=(*before.values, *word_texts.values)) if before else word_texts
        )
    return passed


def _known_name(name: str, known: Container[str]) -> str:
    """The algorithm's name for an argument that other commands call `name`, if exactly one fits; else `name`."""
    plain = name.replace("-", "_")
    synonyms = next((some for some in SAME_NAMES if plain in some), ()) if name not in known else ()
    matches = [spelling for synonym in synonyms if (spelling := synonym.replace("_", "-")) in known]
    return matches[0] if len(matches) == 1 else name


def render(bound: Bound) -> tuple[str, ...]:
    """The words of the command line, without the command's name. All paths must be resolved.

    --update comes first: after --append or --overwrite-layer, which imply it, GDAL would take it for a duplicate.
    """
    arguments = sorted(bound.arguments, key=lambda texts: texts.name != "update")
    passed = [texts for texts in arguments if texts.role is not Role.HOST_OWNED]
    if not bound.resolved and (paths := [texts.name for texts in passed if texts.role in PATH_ROLES]):
        raise ValueError(f"the paths of --{paths[0]} are not resolved")
    words: list[str] = []
    for texts in passed:
        argument, values = texts.argument, texts.values
        if argument.type == "boolean":
            words.append(f"--{texts.name}" if values == ("true",) else f"--{texts.name}=false")
            continue
        if argument.packed and (not argument.repeatable or argument.element_type in ("integer", "real")):
            values = (",".join(values),)
        words += [f"--{texts.name}={value}" for value in values]
    return tuple(map(_guarded, words))


def _refuse_owned(argument: Argument) -> None:
    """Raises ArgumentRefused for extra arguments that the tool or the server sets, or that update a dataset."""
    rule = argument.rule
    if rule.mode == "update":
        raise ArgumentRefused(
            f"--{argument.name} changes an existing dataset, which this tool does not.",
            "Use gdal_write with the same algorithm.",
        )
    if rule.primary:
        raise ArgumentRefused(f"--{argument.name} is set by the tool itself.", "Use the tool's own argument.")
    if rule.role is Role.HOST_OWNED:
        raise ArgumentRefused(
            f"--{argument.name} is not the caller's to set: {rule.reason}.", "Leave it out."
        )


def _bind(algorithm: Algorithm, passed: Sequence[ArgumentTexts], context: Context) -> Bound:
    for texts in passed:  # first, because later checks compare values with each other
        refuse_excess(texts)
    names = {texts.name for texts in passed} | context.taken
    for argument in (candidate for candidate in algorithm.arguments if candidate.name in names):
        rivals = algorithm.companions(argument, "exclusion_group") & names
        if rivals:
            raise ArgumentRefused(
                f"--{min(rivals)} is mutually exclusive with '{argument.name}'.", "Give one of them."
            )
        needed = algorithm.companions(argument, "dependency_group") | set(argument.depends_on)
        if needed - names:
            raise ArgumentRefused(f"--{argument.name} also needs --{min(needed - names)}.", "Give both.")
    values = {texts.name: texts.values for texts in passed}
    refuse_absent_output(context, algorithm, values)
    arguments = []
    for texts in passed:
        if texts.role is Role.FORBIDDEN:
            raise ArgumentRefused(
                f"--{texts.name} is never passed on: {texts.argument.rule.reason}.", "Leave it out."
            )
        checked = check_values(ArgumentContext(context, algorithm, values, texts.argument), texts.values)
        arguments.append(ArgumentTexts(texts.argument, checked))
    return Bound(algorithm.path, tuple(arguments))


def _guarded(word: str) -> str:
    """The unchanged word, after a last check that does not depend on the earlier ones.

    Raises ValueError for a word that must never be passed, and ArgumentRefused for one that asks for completions or
    is too long.
    """
    token = word.partition("=")[0].lower()
    if not word.startswith("--") or token in RESERVED_TOKENS or "\0" in word:
        raise ValueError(f"{token} must never be passed to GDAL")
    if word.endswith("=?"):  # possible for a path
        raise ArgumentRefused(f"{token} ends with =?, which asks GDAL for completions.", "Use another name.")
    if len(word.encode()) > ELEMENT_BYTES + 1024:
        raise ArgumentRefused(f"{token} is too long.", f"The most is {ELEMENT_BYTES} bytes.")
    return word
