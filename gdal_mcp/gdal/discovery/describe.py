"""Everything that a client may want to know of one algorithm before it calls it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from gdal_mcp.gdal.catalogue.model import Algorithm, Catalogue, Step
from gdal_mcp.gdal.catalogue.schema import input_schema
from gdal_mcp.gdal.discovery.effects import effects
from gdal_mcp.gdal.discovery.entries import tool_name
from gdal_mcp.gdal.discovery.tables import read

Schema = Callable[[Algorithm], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Example:
    """A worked call. File names are made up and relative to the first workspace."""

    algorithm: str
    does: str
    arguments: Mapping[str, Any]


def describe(catalogue: Catalogue, algorithm: Algorithm, schema: Schema = input_schema) -> dict[str, Any]:
    """Name, help, input schema, effects, worked examples, and what goes with it. `schema` makes the schema of its arguments."""
    told = {
        "algorithm": algorithm.path,
        "tool": tool_name(algorithm.path),
        "line": algorithm.description,
        "url": algorithm.url,
        "effects": effects(algorithm).as_dict(),
        "pipeline_step": _step(catalogue.steps.get(algorithm.path)),
        "examples": [
            {"does": one.does, "arguments": dict(one.arguments)} for one in examples_of(algorithm.path)
        ],
        "related": list(related().get(algorithm.path, ())),
        "input_schema": schema(algorithm),
    }
    steps = _steps_of(catalogue, algorithm.path)
    return {**told, "steps": steps} if steps else told


def describe_step(catalogue: Catalogue, path: str, schema: Schema = input_schema) -> dict[str, Any]:
    """A step of pipelines by its key, such as `raster read`: what it takes and gives, and the schema of its arguments."""
    step = catalogue.steps[path]
    told = _step(step)
    assert told is not None
    return {
        "step": path,
        "line": step.algorithm.description,
        **told,
        "input_schema": schema(step.algorithm),
    }


def _steps_of(catalogue: Catalogue, pipeline: str) -> dict[str, list[str]]:
    """The steps of a pipeline command by what they do to the data; nothing for other algorithms."""
    found: dict[str, list[str]] = {}
    for path, step in catalogue.steps.items():
        if pipeline in step.pipelines:
            found.setdefault(f"{step.takes or 'nothing'} -> {step.gives or 'nothing'}", []).append(path)
    return found


def _step(step: Step | None) -> dict[str, Any] | None:
    """What an algorithm is inside a pipeline; None where it is no step."""
    if step is None:
        return None
    return {
        "name": step.name,
        "pipelines": list(step.pipelines),
        "places": list(step.places),
        "takes": step.takes,
        "gives": step.gives,
    }


def examples_of(path: str) -> tuple[Example, ...]:
    """The worked calls of one algorithm, the plainest first."""
    return tuple(one for one in examples() if one.algorithm == path)


@lru_cache(maxsize=1)
def examples() -> tuple[Example, ...]:
    """All worked calls."""
    return tuple(
        Example(entry["algorithm"], entry["does"], MappingProxyType(entry["arguments"]))
        for entry in read("examples.toml")["example"]
    )


@lru_cache(maxsize=1)
def related() -> Mapping[str, tuple[str, ...]]:
    """For an algorithm the ones that somebody who looks at it may mean, or need next."""
    return MappingProxyType(
        {path: tuple(others) for path, others in read("examples.toml")["related"].items()}
    )
