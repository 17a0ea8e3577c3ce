"""The tools of the toolbox `augment`: exactly those of the specification, and two more."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any, Final

from gdal_mcp.toolboxes.augment.answers import CHAINED, chain_suggestion, question
from gdal_mcp.toolboxes.augment.arguments import (
    AugmentDatasetArguments,
    AugmentImageArguments,
    ListTransformsArguments,
    MakeChipsArguments,
    ValidatePromptArguments,
)
from gdal_mcp.toolboxes.augment.drafts import augment_dataset, augment_image, make_chips, parse_prompt
from gdal_mcp.toolboxes.augment.steps import complexity, estimated_seconds
from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS
from gdal_mcp.toolboxes.base import DraftScope, ImmediateResult, Tool, draft_function, schema_and_draft

START_SECONDS: Final = 4.0  # seconds to start a container, with its imports
_WRITTEN: Final[Mapping[str, Any]] = {"writes": True, "replaces": True}


@cache
def specification() -> Mapping[str, Any]:
    """The tools of the specification, in its own words."""
    text = files("gdal_mcp.toolboxes.augment").joinpath("data", "tools.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def tools() -> tuple[Tool, ...]:
    image = _specified_tool(
        "augment_image",
        "Augment an image",
        draft_function(AugmentImageArguments, augment_image),
        writes=True,
        pictures=True,
        required_keys=tuple(specification()["augment_image"]["outputSchema"]["required"]),
        uncut=("augmented_image",),
        ask_model=question,
    )
    listing = _specified_tool(
        "list_available_transforms",
        "List transforms",
        draft_function(ListTransformsArguments, _list_transforms),
        writes=False,
        runs=False,
    )
    validating = _specified_tool(
        "validate_prompt",
        "Validate a prompt",
        draft_function(ValidatePromptArguments, _validate_prompt),
        writes=False,
        runs=False,
    )
    dataset = Tool(
        name="augment_dataset",
        title="Augment a dataset",
        description="Augments a georeferenced raster of any type as a prompt says, with its mask and labels by the same draw. "
        "Flips, quarter turns, crops and new sizes keep their place on earth; free rotation and warps lose it, and say so.",
        **schema_and_draft(AugmentDatasetArguments, augment_dataset),
        like="augment_dataset",
        **_WRITTEN,
    )
    chips = Tool(
        name="make_chips",
        title="Make chips",
        description="Cuts a large raster into chips for training, with labels and masks, augmented as a prompt says, and split by "
        "place so that no two parts share a pixel. Writes a manifest, footprints, annotations in COCO's format and a config.json "
        "from which each chip is made again to the byte.",
        **schema_and_draft(MakeChipsArguments, make_chips),
        like="make_chips",
        **_WRITTEN,
    )
    return image, listing, validating, dataset, chips


def _specified_tool(name: str, title: str, draft: Any, **further: Any) -> Tool:
    entry = specification()[name]
    return Tool(
        name=name,
        title=title,
        description=entry["description"],
        schema=lambda: entry["inputSchema"],
        draft=draft,
        own_keys={**entry["outputSchema"]["properties"], **CHAINED},
        meta={key: entry[key] for key in ("visibility", "capabilities")},
        like=name,
        lists_keys=True,
        **further,
    )


def _list_transforms(arguments: ListTransformsArguments, _scope: DraftScope) -> ImmediateResult:
    chosen = [
        transform for transform in TRANSFORMS.values() if arguments.category in ("all", transform.category)
    ]
    rows = [
        {
            "name": transform.name,
            "category": transform.category,
            "description": transform.description,
            "parameters": transform.parameters,
            **({"examples": list(transform.examples)} if arguments.include_examples else {}),
            "aliases": list(transform.aliases),
        }
        for transform in chosen
    ]
    return ImmediateResult(
        {
            "transforms": rows,
            "total_count": len(rows),
            "categories": list(dict.fromkeys(transform.category for transform in TRANSFORMS.values())),
            **chain_suggestion("validate_prompt"),
        }
    )


def _validate_prompt(arguments: ValidatePromptArguments, _scope: DraftScope) -> ImmediateResult:
    parsed = parse_prompt(arguments.prompt)
    problems = [asdict(problem) for problem in parsed.errors]
    if arguments.strict_mode:
        problems += [
            {
                "message": f"{ambiguity.text!r} can be meant in {len(ambiguity.interpretations)} ways.",
                "severity": "error",
                "suggestion": f"Say which: {'; '.join(ambiguity.interpretations)}.",
            }
            for ambiguity in parsed.ambiguities
        ]
    usable = parsed.steps and not any(problem["severity"] == "error" for problem in problems)
    following = (
        chain_suggestion("augment_image", prompt=arguments.prompt)
        if usable
        else chain_suggestion("list_available_transforms")
    )
    return ImmediateResult(
        {
            "parsed_transforms": [
                {"name": step.name, "parameters": dict(step.parameters), "confidence": step.confidence}
                for step in parsed.steps
            ],
            "validation_errors": problems,
            "suggestions": list(parsed.suggestions),
            "ambiguities": [asdict(ambiguity) for ambiguity in parsed.ambiguities],
            "estimated_execution_time": START_SECONDS + estimated_seconds(parsed.steps),
            "complexity_score": complexity(parsed.steps),
            **following,
        }
    )
