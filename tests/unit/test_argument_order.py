"""The order of the keys of a call changes nothing."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gdal_mcp.gdal.catalogue.binding import bind_json
from gdal_mcp.gdal.catalogue.checks import Context
from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.gdal.catalogue.model import Algorithm, Argument, Role

CATALOGUE = packaged()
VALUES = {"boolean": True, "integer": 3, "real": 2.5}
PLAIN = sorted(CATALOGUE.algorithms)


def value_of(argument: Argument) -> Any:
    value = argument.choices[0] if argument.choices else VALUES.get(argument.element_type, "a")
    return [value] if argument.is_list else value


def arguments_of(algorithm: Algorithm) -> dict[str, Any]:
    """Arguments that take any value of their kind, and those that must be there."""
    free = {
        one.name: value_of(one)
        for one in algorithm.arguments
        if one.role is Role.VALUE
        and not one.hidden
        and not one.rule.check
        and not algorithm.companions(one, "exclusion_group")
    }
    return {one.name: value_of(one) for one in algorithm.arguments if one.required} | free


def words(algorithm: Algorithm, arguments: dict[str, Any]) -> object:
    """What it is bound to, in order, or why it is refused."""
    try:
        bound = bind_json(algorithm, arguments, Context(CATALOGUE, allow_sql=True))
    except Exception as error:  # noqa: BLE001 - a refusal must be the same, too
        return type(error)
    return [(one.name, one.values) for one in bound.arguments]


@settings(max_examples=300)
@given(st.sampled_from(PLAIN), st.randoms(use_true_random=False))
def test_permuting_the_keys_changes_nothing(path: str, chance: Any) -> None:
    algorithm = CATALOGUE.algorithms[path]
    arguments = arguments_of(algorithm)
    keys = list(arguments)
    chance.shuffle(keys)
    assert words(algorithm, {key: arguments[key] for key in keys}) == words(algorithm, arguments)


def test_features_come_before_their_limit() -> None:
    algorithm = CATALOGUE.algorithms["vector info"]
    for keys in (("input", "limit", "features"), ("features", "limit", "input")):
        given_so = {"input": ["a.gpkg"], "limit": 2, "features": True}
        names = [name for name, _ in words(algorithm, {key: given_so[key] for key in keys})]  # type: ignore[attr-defined]
        assert names.index("features") < names.index("limit")
