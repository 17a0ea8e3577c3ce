"""Every algorithm and every step: valid arguments are passed on and read back unchanged; others are refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gdal_mcp.toolboxes.gdal.catalogue.arguments import read_words
from gdal_mcp.toolboxes.gdal.catalogue.binding import Bound, bind, render
from gdal_mcp.toolboxes.gdal.catalogue.checks import Context
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import PATH_ROLES, RESERVED_TOKENS, Algorithm, Argument, Role
from gdal_mcp.toolboxes.gdal.catalogue.schema import input_schema, json_name, offered
from tests.unit.toolboxes.fitting import BY_CONTEXT, FITTING, calls, minimal, sample

CONTEXT = Context(packaged(), threads=4, allow_sql=True)
EVERY = {
    **{f"gdal {path}": algorithm for path, algorithm in packaged().algorithms.items()},
    **{f"step {path}": step.algorithm for path, step in packaged().steps.items()},
}
PIPELINES = {
    name for name, algorithm in EVERY.items() if any(a.rule.check == "pipeline" for a in algorithm.arguments)
}
BINDABLE = sorted(set(EVERY) - PIPELINES)


def covering() -> list[str]:
    """A few algorithms that together have an argument of every type, role, check, form and group."""
    traits = {
        name: {
            (
                argument.type,
                argument.role,
                argument.rule.check,
                argument.rule.form,
                bool(argument.exclusion_group),
                argument.packed,
            )
            for argument in EVERY[name].arguments
        }
        for name in BINDABLE
    }
    chosen, missing = [], set[Any]().union(*traits.values())
    while missing:
        chosen.append(max(sorted(traits), key=lambda name: len(traits[name] & missing)))
        missing -= traits[chosen[-1]]
    return chosen


COVERING = covering()
FEW = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def resolved(bound: Bound) -> Bound:
    return bound.resolve(lambda _argument, text: f"/ws/{text}")


def test_the_table_of_fitting_values_knows_every_check() -> None:
    used = {
        argument.rule.check
        for algorithm in EVERY.values()
        for argument in offered(algorithm)
        if argument.element_type == "string" and argument.role not in PATH_ROLES
    }
    assert used == set(FITTING) | BY_CONTEXT


def test_fitting_values_are_passed_and_read_back_unchanged() -> None:
    for name in COVERING:
        FEW(given(st.just(EVERY[name]), calls(EVERY[name]))(reads_back))()


def reads_back(algorithm: Algorithm, call: dict[str, Any]) -> None:
    bound = resolved(bind(algorithm, call, CONTEXT))
    argv = render(bound)
    read = {parsed.argument.name: parsed.values for parsed in read_words(algorithm, argv)}
    assert read == {
        argument.name: argument.values for argument in bound.arguments if argument.role is not Role.HOST_OWNED
    }
    assert not {word.partition("=")[0].lower() for word in argv} & RESERVED_TOKENS
    # the order of the keys changes nothing
    assert render(resolved(bind(algorithm, dict(reversed(call.items())), CONTEXT))) == argv
    for compact in (False, True):
        schema = Draft202012Validator(input_schema(algorithm, compact=compact))
        assert not list(schema.iter_errors({json_name(name): value for name, value in call.items()}))


WRONG_TYPE = {"boolean": "yes", "integer": "ten", "real": True, "string": {"a": ["b"]}, "dataset": 5}


def spoiled(algorithm: Algorithm) -> Iterator[dict[str, Any]]:
    """Calls with one error: a name too many or too few, or a value with a wrong type, range, list or combination."""
    call = minimal(algorithm)
    yield {**call, "no-such-argument": 1}
    for missing in (name for name in call if algorithm.long_names[name].required):
        yield {name: value for name, value in call.items() if name != missing}
    for argument in offered(algorithm):
        wrong: list[Any] = [WRONG_TYPE[argument.element_type]]
        if argument.element_type in ("integer", "real"):
            wrong.append(float("nan"))
            if argument.minimum is not None:
                low = argument.minimum - 1
                wrong.append([low] * max(1, argument.min_count) if argument.is_list else low)
        elif argument.rule.check == "choice":
            wrong.append("no-such-choice")
        if argument.element_type == "string" and not argument.is_list:
            wrong.append(["a", "b"])
        yield from ({**call, argument.name: value} for value in wrong)
        for rival in algorithm.companions(argument, "exclusion_group"):
            pair = (argument, algorithm.long_names[rival])
            if all(member in offered(algorithm) and member.element_type != "boolean" for member in pair):
                yield {**call, **{member.name: sample(member) for member in pair}}


@pytest.mark.claim("args.unknown-refused")
def test_a_call_with_one_thing_wrong_is_refused() -> None:
    for name in BINDABLE:
        for call in spoiled(EVERY[name]):
            with pytest.raises(ArgumentRefused):
                assert not bind(EVERY[name], call, CONTEXT), (name, call)


@pytest.mark.claim("args.unknown-refused")
def test_no_name_reaches_forbidden_hidden_or_internal_arguments() -> None:
    for name in sorted(EVERY):
        algorithm = EVERY[name]
        closed = {
            known
            for known, argument in algorithm.long_names.items()
            if argument.role is Role.FORBIDDEN or argument.hidden
        }
        for word in closed | {token[2:] for token in RESERVED_TOKENS} - set(algorithm.long_names):
            for value in (True, "x", ["x"], {"x": "y"}):
                with pytest.raises(ArgumentRefused):
                    bind(algorithm, {word: value}, CONTEXT)


HOSTILE = [
    "/etc/passwd", "@/etc/passwd", "../../etc/passwd", "~/.ssh/id_rsa", "http://127.0.0.1/x",
    "/vsicurl/http://127.0.0.1/x", "<VRTDataset/>", "a\0b", "a\nb", "a\u202eb", "x=?", "?",
]  # fmt: skip
FORMULAS = {"@/etc/passwd", " @/etc/passwd", "a\0b", "http://127.0.0.1/x", "<VRTDataset/>", "?"}  # fmt: skip


@pytest.mark.claim("args.unknown-refused")
def test_values_and_expressions_exclude_paths_urls_and_controls() -> None:
    for name in BINDABLE:
        algorithm = EVERY[name]
        for argument in offered(algorithm):
            if argument.element_type != "string" or argument.role not in (Role.VALUE, Role.EXPRESSION):
                continue
            for text in FORMULAS if argument.role is Role.EXPRESSION else HOSTILE:
                if argument.role is Role.VALUE and harmless(argument, text):
                    continue
                value = [text] if argument.is_list and argument.max_count != 1 else text
                with pytest.raises(ArgumentRefused):
                    bind(algorithm, {**minimal(algorithm), argument.name: value}, CONTEXT)


def harmless(argument: Argument, text: str) -> bool:
    """Text for a page is neither opened nor fetched, and may not contain markup; names inside a file may contain a
    colon or a slash.
    """
    check = argument.rule.check
    if check == "page-text":
        return not set(text) & set("<\0\n\u202e") and not text.endswith("?")
    return check in ("page-url", "layer", "field", "metadata-name") and text.startswith("http:")


@pytest.mark.claim("args.pipelines-parsed")
def test_pipeline_text_is_never_bound_as_a_value() -> None:
    for name in sorted(PIPELINES):
        with pytest.raises(ArgumentRefused):
            bind(EVERY[name], {"pipeline": "read a.tif ! write b.tif"}, CONTEXT)
