"""Binds what a client says to an algorithm's arguments, and writes it as words that GDAL cannot misread. Pure.

Invariants of what is rendered:
* every word is `--name` or `--name=value` with a canonical name of the catalogue, never one that the main process takes;
* every value passed the check of its argument; a path was put there by the caller's resolver and is absolute;
* what the server decides (`host_owned`) is returned but not rendered; what is `forbidden` is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gdal_mcp.catalogue.checks import CHECKS, Situation
from gdal_mcp.catalogue.errors import ArgumentRefused, UnknownArgument
from gdal_mcp.catalogue.formats import drivers_for, input_format, output_format
from gdal_mcp.catalogue.model import PATH_ROLES, RESERVED_TOKENS, Algorithm, Argument, Role, Shape
from gdal_mcp.catalogue.switches import ELEMENT_BYTES, Given, argument_named, read_switches
from gdal_mcp.catalogue.values import check_shape

_INT32: Final = (1 << 31) - 1
_FORMAT_CHECK: Final = (
    "output-format"  # of arguments that name a driver; others of that name choose json or text
)

Resolver = Callable[[Role, str], str]


@dataclass(frozen=True, slots=True)
class Context:
    """What the tool has decided already."""

    output_name: str = ""  # file name of the output; without a format its extension names the driver
    output_format: str | None = None  # the tool's own argument, if it was given
    threads: int = 1  # the most that the container has
    taken: frozenset[str] = frozenset()  # canonical names that the tool passes itself


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """An argument with checked values. Values of a path role are as the client wrote them until `resolved`."""

    argument: Argument
    values: tuple[str, ...]
    resolved: bool = False

    @property
    def name(self) -> str:
        return self.argument.name

    @property
    def role(self) -> Role:
        return self.argument.role


@dataclass(frozen=True, slots=True)
class Bound:
    """Checked arguments of the commands in `paths`; where there are several, they say the same to each."""

    paths: tuple[str, ...]
    arguments: tuple[BoundArgument, ...] = field(default=())

    def get(self, name: str) -> tuple[str, ...]:
        """The values of one argument; none if it was not given."""
        return next((one.values for one in self.arguments if one.name == name), ())

    def resolve(self, resolver: Resolver) -> "Bound":
        """The same with every path put through `resolver`, which returns an absolute path or raises."""
        return replace(self, arguments=tuple(_resolved(one, resolver) for one in self.arguments))


def bind_switches(algorithm: Algorithm, switches: Sequence[str], context: Context = Context()) -> Bound:
    """Extra arguments of a tool that names input and output itself. Raises ArgumentRefused."""
    given = read_switches(algorithm, switches)
    for one in given:
        _refuse_owned(one.argument, context)
    return _bind(algorithm, given, context)


def bind_switches_of(algorithms: Sequence[Algorithm], switches: Sequence[str], context: Context) -> Bound:
    """Extra arguments of a command that becomes one of several algorithms after a look at the data (`gdal convert`).

    Bound to those that take all of them; the caller runs only one of `paths`. Raises ArgumentRefused.
    """
    bound: list[Bound] = []
    refusals: list[ArgumentRefused] = []
    for algorithm in algorithms:
        try:
            bound.append(bind_switches(algorithm, switches, context))
        except ArgumentRefused as error:
            refusals.append(error)
    if not bound:
        known = [refusal for refusal in refusals if not isinstance(refusal, UnknownArgument)]
        raise (known or refusals)[0]
    same = [one for one in bound if said(one) == said(bound[0])]
    return replace(bound[0], paths=tuple(path for one in same for path in one.paths))


def bind_named(algorithm: Algorithm, given: Mapping[str, Sequence[str]], context: Context) -> Bound:
    """All arguments of a call by name, input and output among them. Raises ArgumentRefused."""
    named = tuple(Given(argument_named(algorithm, name), tuple(values)) for name, values in given.items())
    for one in named:
        if one.argument.role is Role.FORBIDDEN or one.argument.hidden:
            _refuse_owned(one.argument, context)
    names = {one.argument.name for one in named} | context.taken
    missing = [
        argument.name for argument in algorithm.arguments if argument.required and argument.name not in names
    ]
    if missing:
        raise ArgumentRefused(f"gdal {algorithm.path} needs {', '.join(missing)}.", "Give them.")
    return _bind(algorithm, named, context)


def said(bound: Bound) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The names and values alone."""
    return tuple((one.name, one.values) for one in bound.arguments)


def render(bound: Bound) -> tuple[str, ...]:
    """The words of the command line, without the command's own name. Every path must be resolved."""
    return tuple(
        _guarded(word) for one in bound.arguments if one.role is not Role.HOST_OWNED for word in _words(one)
    )


def _refuse_owned(argument: Argument, context: Context) -> None:
    rule = argument.rule
    if rule.primary or argument.name in context.taken:
        raise ArgumentRefused(f"--{argument.name} is set by the tool itself.", "Use the tool's own argument.")
    if rule.role is Role.HOST_OWNED:
        raise ArgumentRefused(
            f"--{argument.name} is not the caller's to set: {rule.reason}.", "Leave it out."
        )
    if rule.role is Role.FORBIDDEN:
        raise ArgumentRefused(f"--{argument.name} is never passed on: {rule.reason}.", "Leave it out.")


def _bind(algorithm: Algorithm, given: Sequence[Given], context: Context) -> Bound:
    _check_groups(given, algorithm, context)
    inputs = _input_drivers(algorithm, given)
    outputs = _output_drivers(algorithm, given, context)
    arguments = []
    for one in given:
        situation = Situation(one.argument, algorithm.kind, inputs, outputs, context.threads)
        _check_count(one)
        arguments.append(BoundArgument(one.argument, tuple(_value(situation, text) for text in one.values)))
    return Bound((algorithm.path,), tuple(arguments))


def _values_of(given: Sequence[Given], name: str) -> tuple[str, ...]:
    return next((one.values for one in given if one.argument.name == name), ())


def _input_drivers(algorithm: Algorithm, given: Sequence[Given]) -> tuple[str, ...]:
    return tuple(input_format(name, algorithm.kind) for name in _values_of(given, "input-format"))


def _output_drivers(algorithm: Algorithm, given: Sequence[Given], context: Context) -> tuple[str, ...]:
    """The drivers that may write the output: the one that is named, else what the name of the output says."""
    named = _values_of(given, "output-format")
    if named and context.output_format is not None:
        raise ArgumentRefused("the output format is given twice.", "Use the tool's own argument.")
    chosen = named[0] if named else context.output_format
    argument = algorithm.long_names.get("output-format")
    if chosen is not None and (argument is None or argument.rule.check == _FORMAT_CHECK):
        return (output_format(chosen, algorithm.kind),)
    path = _values_of(given, "output")
    return drivers_for(path[0] if path else context.output_name, algorithm.kind)


def _check_groups(given: Sequence[Given], algorithm: Algorithm, context: Context) -> None:
    """GDAL's own rules on which arguments go together."""
    names = {one.argument.name for one in given} | context.taken
    for argument in (one for one in algorithm.arguments if one.name in names):
        rivals = _group(algorithm, argument, "exclusion_group") & names
        if rivals:
            raise ArgumentRefused(
                f"--{argument.name} and --{min(rivals)} exclude each other.", "Give one of them."
            )
        missing = (_group(algorithm, argument, "dependency_group") | set(argument.depends_on)) - names
        if missing:
            raise ArgumentRefused(f"--{argument.name} also needs --{min(missing)}.", "Give both.")


def _group(algorithm: Algorithm, argument: Argument, group: str) -> set[str]:
    """The names of the other arguments in one of the groups of an argument."""
    own = getattr(argument, group)
    return {
        one.name for one in algorithm.arguments if own and getattr(one, group) == own and one is not argument
    }


def _check_count(given: Given) -> None:
    argument, count = given.argument, len(given.values)
    most = argument.max_count if argument.is_list else 1
    least = max(1, argument.min_count)
    if count < least or (most is not None and count > most):
        bounds = f"{least}" if least == most else f"{least} to {'any number of' if most is None else most}"
        raise ArgumentRefused(f"--{argument.name} has {count} values.", f"It takes {bounds}.")


def _value(situation: Situation, text: str) -> str:
    argument = situation.argument
    if argument.role in PATH_ROLES:
        return text
    kind = argument.element_type
    if kind == "boolean":
        return _boolean(situation.what, text)
    if kind == "string":
        checked = CHECKS[argument.rule.check](situation, text)
        if checked == "?" or checked.endswith("=?"):
            raise ArgumentRefused(f"{situation.what} asks GDAL for completions.", "Give the value itself.")
        return _unsplit(argument, checked)
    limit = _INT32 if kind == "integer" else None
    low = argument.minimum if argument.minimum is not None else (-_INT32 if limit else None)
    shape = Shape(kind, minimum=low, maximum=argument.maximum if argument.maximum is not None else limit)
    checked = check_shape(shape, text, situation.what)
    _check_open_bounds(argument, float(checked))
    return checked


def _unsplit(argument: Argument, value: str) -> str:
    """The value itself, if GDAL takes it for one: it splits packed lists at commas and has no way to quote one."""
    if argument.is_list and argument.packed and (not value or any(sign in value for sign in ',"')):
        raise ArgumentRefused(
            f"a value of --{argument.name} is empty or holds a comma or a quote.", "Rename it first."
        )
    return value


def _boolean(what: str, text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise ArgumentRefused(f"{what} is true or false.", "Write the switch alone, or with =true or =false.")
    return text.lower()


def _check_open_bounds(argument: Argument, value: float) -> None:
    below = argument.minimum is not None and not argument.min_included and value <= argument.minimum
    above = argument.maximum is not None and not argument.max_included and value >= argument.maximum
    if below or above:
        raise ArgumentRefused(
            f"--{argument.name} is out of range.", "The bound itself does not belong to the range."
        )


def _resolved(bound: BoundArgument, resolver: Resolver) -> BoundArgument:
    if bound.role not in PATH_ROLES:
        return bound
    paths = tuple(_unsplit(bound.argument, resolver(bound.role, text)) for text in bound.values)
    if not all(path.startswith("/") for path in paths):
        raise ValueError(f"the resolver of --{bound.name} returned a path that is not absolute")
    return BoundArgument(bound.argument, paths, resolved=True)


def _words(bound: BoundArgument) -> Iterator[str]:
    argument = bound.argument
    if bound.role in PATH_ROLES and not bound.resolved:
        raise ValueError(f"the paths of --{bound.name} are not resolved")
    if argument.type == "boolean":
        yield f"--{bound.name}" if bound.values == ("true",) else f"--{bound.name}=false"
        return
    values = bound.values
    if argument.packed and (not argument.repeatable or argument.element_type in ("integer", "real")):
        values = (",".join(values),)
    yield from (f"--{bound.name}={value}" for value in values)


def _guarded(word: str) -> str:
    """The word itself. A last look, independent of all that came before."""
    token = word.partition("=")[0].lower()
    if not word.startswith("--") or token in RESERVED_TOKENS or word.endswith("=?") or "\0" in word:
        raise ValueError(f"{token} must never be passed to GDAL")
    if len(word.encode()) > ELEMENT_BYTES + 1024:
        raise ArgumentRefused(f"{token} is too long.", f"The most is {ELEMENT_BYTES} bytes.")
    return word
