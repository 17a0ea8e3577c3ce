"""Checks KEY=VALUE options for drivers, the warper and the transformer. Pure.

Invariants:
* only options that GDAL declares are passed, in the declared spelling and with a value of their type;
* every declared option has a decision with a reason: `decide` is total;
* a text option needs a hand-written rule (`data/options.toml`); so does an option of a closed type that is named or
  described like a file, a URL, a library or SQL;
* if GDAL chooses the driver by inspecting the file, an option is passed only if it is refused for no driver.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue, OptionRule, OptionSpec, Scope, ValueSpec
from gdal_mcp.toolboxes.gdal.catalogue.values import check_shape, check_text

_KEY: Final = re.compile(r"[A-Za-z0-9_]{1,128}")
_REVIEW_NAME: Final = re.compile(
    r"(?<!PRO)FILE|PATH|URL|URI|HREF|HTTP|REMOTE|DOWNLOAD|SERVER|HOST|PASSW|PWD|USER(?!UNIT|PIXEL)|TOKEN|SECRET|SQL|SCRIPT"
    r"|XML|XSD|XMP|JSON|TEMPLATE|SEED|CONF(?!ORM|LICT)|TEMP|TMP|CACHE|EXTERNAL|DRIVER|LIBRARY|PLUGIN|LINK|APPEND|OVERWRITE"
    r"|_DIR$|VIRTUAL"
)
_REVIEW_DESCRIPTION: Final = re.compile(
    r"file ?names?\b|\bpaths?\b|\burls?\b|https?:|download|\bsql\b|librar|script|director|folder|shell|command|network|server",
    re.IGNORECASE,
)
_INTEGER_TYPES: Final = frozenset(("int", "integer", "unsigned int"))
_OPTION_NAMES: Final = {
    Scope.CREATION: "creation option",
    Scope.LAYER: "layer creation option",
    Scope.OPEN: "open option",
    Scope.WARP: "warp option",
    Scope.TRANSFORM: "transform option",
}


def check_option(catalogue: Catalogue, scope: Scope, drivers: Sequence[str], text: str) -> str:
    """The option as it is passed to GDAL.

    Warp and transform options belong to no driver. If no driver is named for an open option, GDAL chooses one by
    inspecting the file, so it may be any driver that reads. Raises ArgumentRefused unless at least one of the drivers
    has the option and it is refused for none of them.
    """
    if scope is Scope.OPEN:
        drivers = drivers or tuple(driver.name for driver in catalogue.drivers if driver.reads(None))
    key, value = _split(_OPTION_NAMES[scope], text)
    what = f"{_OPTION_NAMES[scope]} {key.upper()}"
    declared = _declared(catalogue, scope, drivers, key)
    decided = [(name, spec, decide(catalogue, name, scope, spec)) for name, spec in declared]
    if not decided:
        raise ArgumentRefused(
            f"{what} does not exist{_for(drivers)}.", _existing(catalogue, scope, drivers, key)
        )
    for name, _, rule in decided:
        if rule.shape is None:
            raise ArgumentRefused(
                f"{what}{_for([name])} is not passed on: {rule.reason}.", rule.suggestion or "Leave it out."
            )
    refusals: list[ArgumentRefused] = []
    for _, spec, rule in decided:  # the option in the form of the first driver that accepts it
        assert rule.shape is not None
        try:
            return f"{spec.canonical(key) or spec.name}={check_shape(rule.shape, value, what)}"
        except ArgumentRefused as error:
            refusals.append(error)
    raise refusals[0]


def decide(catalogue: Catalogue, driver: str, scope: Scope, spec: OptionSpec) -> OptionRule:
    """The decision on an option: the reason, and the shape of its values or None if it is refused.

    `driver` is "*" for warp and transform options.
    """
    rules = catalogue.option_rules
    rule = rules.get((driver, scope, spec.name)) or rules.get(("*", scope, spec.name))
    if rule is not None:
        if rule.shape is not None and rule.shape.kind == "closed":
            return OptionRule(rule.reason, _closed_shape(spec))
        if rule.shape is None or spec.max_letters is None:
            return rule
        return OptionRule(rule.reason, replace(rule.shape, max_letters=spec.max_letters))
    shape = _closed_shape(spec)
    if shape is None:
        return OptionRule(
            "free text that has not been reviewed", None, "Leave it out; GDAL's default is used."
        )
    if needs_review(spec):
        return OptionRule("it is named or described like a file, a URL or a program", None)
    return OptionRule(f"its values are of the closed type {spec.type}", shape)


def needs_review(spec: OptionSpec) -> bool:
    """True if an option's name or description sounds dangerous and needs a hand-written rule, whatever its type."""
    return bool(_REVIEW_NAME.search(spec.name.upper()) or _REVIEW_DESCRIPTION.search(spec.description))


def _closed_shape(spec: OptionSpec) -> ValueSpec | None:
    if spec.choices:
        return ValueSpec("choice", choices=(*spec.choices, *spec.choice_aliases))
    if spec.type == "boolean":
        return ValueSpec("boolean")
    if spec.type in _INTEGER_TYPES:
        low = 0 if spec.type == "unsigned int" and spec.minimum is None else spec.minimum
        return ValueSpec("integer", minimum=low, maximum=spec.maximum)
    if spec.type == "float":
        return ValueSpec("real", minimum=spec.minimum, maximum=spec.maximum)
    return None


def _split(what: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not _KEY.fullmatch(key):
        raise ArgumentRefused(
            f"a {what} is KEY=VALUE with a key of letters, digits and underscores.",
            "For example COMPRESS=LZW.",
        )
    return key, check_text(value, f"the value of {what} {key}")


def _declared(
    catalogue: Catalogue, scope: Scope, drivers: Iterable[str], key: str
) -> list[tuple[str, OptionSpec]]:
    if scope in (Scope.WARP, Scope.TRANSFORM):
        return [("*", spec) for spec in catalogue.shared_options[scope] if spec.canonical(key)]
    candidates = (catalogue.driver_names.get(name.lower()) for name in drivers)
    known = ((driver.name, driver.options.get(scope, ())) for driver in candidates if driver is not None)
    return [(name, spec) for name, specs in known for spec in specs if spec.canonical(key)]


def _for(drivers: Sequence[str]) -> str:
    return f" for {drivers[0]}" if len(drivers) == 1 and drivers[0] != "*" else ""


def _existing(catalogue: Catalogue, scope: Scope, drivers: Sequence[str], key: str) -> str:
    if len(drivers) > 1:
        return "Name the format of the input, or leave the option out."
    driver = catalogue.driver_names.get(drivers[0].lower()) if drivers else None
    specs = driver.options.get(scope, ()) if driver else catalogue.shared_options.get(scope, ())
    extensions = set(driver.extensions) if driver else set()
    alike = [other.name for other in catalogue.drivers if extensions & set(other.extensions)]
    if others := _declared(catalogue, scope, alike, key):
        return f"{others[0][0]}, which has the same extension, has it: name that as the output format."
    near = get_close_matches(key.upper(), [spec.name for spec in specs], 3)
    return f"Did you mean {', '.join(near)}?" if near else "`formats` lists those that may be set."
