"""Which earlier calls the expected time of a step is taken from."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gdal_mcp.calls.workflows.times import FEWEST, expected_time
from gdal_mcp.plan import AlgorithmStep, Command, Draft, Review, Work


def draft(program: str, *words: str, **parts: Any) -> Draft:
    return Draft(Command(program, words, ("/ws/dem.asc",), "/staging/out.tif"), (), **parts)


def timed_commands(step: Draft | None, *, done: bool = False) -> list[tuple[str, ...]]:
    """The commands whose times are looked up for a step."""
    commands: list[tuple[str, ...]] = []
    checked_step = SimpleNamespace(id="one", draft=step, result="made" if done else None)
    checked = cast("Any", SimpleNamespace(steps=(checked_step,)))
    expected_time(checked, "ann", lambda _principal, wanted: commands.extend(wanted) or {})
    return commands


@pytest.mark.parametrize(
    ("step", "command"),
    [
        (draft("gdal", "raster", "slope", "--unit=degree"), ("gdal", "raster", "slope")),
        (draft("gdal", "convert"), ("gdal", "convert")),
        (draft("gdalwarp", "-r", "near"), ("gdalwarp",)),
        (draft("query", "SELECT 1"), ("query",)),
    ],
)
def test_step_is_compared_with_its_program_and_algorithm(step: Draft, command: tuple[str, ...]):
    assert timed_commands(step) == [command]


@pytest.mark.parametrize(
    "step",
    [
        draft("python", "sha256:00", review=Review(code="1 / 0")),
        draft("gdal", "raster", "pipeline", work=Work(chain=(AlgorithmStep("raster read", {}),) * 2)),
        None,
    ],
)
def test_time_of_code_and_pipelines_is_unknown(step: Draft | None):
    assert timed_commands(step) == []


def test_step_with_reused_result_needs_no_time():
    assert timed_commands(draft("gdal", "convert"), done=True) == []


@pytest.mark.parametrize(("count", "is_known"), [(0, False), (FEWEST - 1, False), (FEWEST, True)])
def test_few_calls_give_no_time_more_their_median(count: int, *, is_known: bool):
    step = SimpleNamespace(id="one", draft=draft("gdal", "convert"), result=None)
    seconds = [1.0, 2.5, 90.0][:count]
    checked = cast("Any", SimpleNamespace(steps=(step,)))
    text = expected_time(checked, "ann", lambda _principal, wanted: {wanted[0]: seconds})
    assert ("2.5" in text, "unknown" in text) == (is_known, not is_known)
