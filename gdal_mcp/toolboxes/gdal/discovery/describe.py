"""Everything that a client needs to know about one algorithm before calling it. Pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gdal_mcp.toolboxes.gdal.catalogue.model import Algorithm, Catalogue, PipelineStep
from gdal_mcp.toolboxes.gdal.catalogue.schema import input_schema, json_name
from gdal_mcp.toolboxes.gdal.discovery import read
from gdal_mcp.toolboxes.gdal.discovery.entries import effects, tool_name
from gdal_mcp.toolboxes.gdal.discovery.sql import sql_of


def describe(catalogue: Catalogue, algorithm: Algorithm) -> dict[str, Any]:
    """Name, help, input schema, effects, worked examples (simplest first), and related algorithms."""
    step = catalogue.steps.get(algorithm.path)
    answer = {
        "algorithm": algorithm.path,
        "tool": tool_name(algorithm.path),
        "line": algorithm.description,
        "url": algorithm.url,
        "effects": effects(algorithm),
        "pipeline_step": _step(step) if step is not None else None,
        "examples": [
            {"does": example["does"], "arguments": example["arguments"]}
            for example in examples()
            if example["algorithm"] == algorithm.path
        ],
        # algorithms that the reader may want instead, or need next
        "related": list(read("examples.toml")["related"].get(algorithm.path, ())),
        "input_schema": input_schema(algorithm),
    }
    steps: dict[str, list[str]] = {}  # for a pipeline command: kinds of data in and out -> steps
    for path, pipeline_step in catalogue.steps.items():
        if algorithm.path in pipeline_step.pipelines:
            steps.setdefault(
                f"{pipeline_step.takes or 'nothing'} -> {pipeline_step.gives or 'nothing'}", []
            ).append(path)
    return {**answer, **({"steps": steps} if steps else {}), **sql_of(algorithm.path)}


def describe_step(catalogue: Catalogue, path: str) -> dict[str, Any]:
    """A pipeline step by its key, such as `raster read`: the kinds of data it takes and gives, and its schema."""
    step = catalogue.steps[path]
    return {
        "step": path,
        "line": step.algorithm.description,
        **_step(step),
        "input_schema": input_schema(step.algorithm),
        **sql_of(path),
    }


def _step(step: PipelineStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "pipelines": list(step.pipelines),
        "places": list(step.places),
        "takes": step.takes,
        "gives": step.gives,
    }


@lru_cache(maxsize=1)
def examples() -> tuple[Mapping[str, Any], ...]:
    """Worked calls. File names are made up and relative to the first workspace."""
    return tuple(
        {**example, "arguments": {json_name(name): value for name, value in example["arguments"].items()}}
        for example in read("examples.toml")["example"]
    )
