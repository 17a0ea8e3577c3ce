"""Drafts the calls of the toolbox `augment`: the prompt's steps, and the files and bytes to which they apply."""

import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

from gdal_mcp.plan import Command, Draft, Output, PrintedOutput, Work
from gdal_mcp.remote.address import is_address
from gdal_mcp.toolboxes.augment.answers import chips_answer, dataset_answer, image_answer
from gdal_mcp.toolboxes.augment.arguments import (
    AugmentDatasetArguments,
    AugmentImageArguments,
    MakeChipsArguments,
    Options,
)
from gdal_mcp.toolboxes.augment.failures import refusal
from gdal_mcp.toolboxes.augment.prompts import parse
from gdal_mcp.toolboxes.augment.steps import Parsed
from gdal_mcp.toolboxes.augment.transforms import TRANSFORMS
from gdal_mcp.toolboxes.base import CallAnswer, DraftScope
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from sandbox.errors import PathRefused
from sandbox.workspace import WorkspacePath

LONGEST_IMAGE: Final = 10 << 20  # characters of base64, as the specification has it
LONGEST_PROMPT: Final = 500
LONGEST_PATH: Final = 4096  # characters of a path or an address
# bytes of a picture given as a path, as a share of a result's maximal length: in base64 it takes about half
PICTURE_SHARE: Final = 0.35
# first characters of PNG, JPEG, WEBP and TIFF in base64
_SIGNATURES: Final = ("iVBOR", "/9j/", "UklGR", "SUkq", "TU0A", "SUkr")


def augment_image(arguments: AugmentImageArguments, scope: DraftScope) -> Draft:
    parsed, options, paths = require_steps(arguments.prompt), arguments.options, _paths(scope)
    sent = _sent(arguments.image)
    image = None if sent is not None else paths.input(arguments.image)
    files: dict[str, WorkspacePath | None] = {"path": image, "classifier": None, "classes": None}
    folder = scope.settings.classifiers
    if folder is not None and options.enable_classification_check:
        # the operator's model for the requested check, and its list of classes
        for key, ending in (("classifier", "onnx"), ("classes", "txt")):
            with suppress(PathRefused):
                files[key] = paths.workspaces.input(f"{folder}/{options.classifier_model}.{ending}")
    output = paths.new_output("augment", "", "folder")
    # a caller who sent a picture gets it back in full length; a caller who sent a path wants a short answer
    most = 4 * LONGEST_IMAGE if sent is not None else int(scope.settings.result_size * PICTURE_SHARE)
    request: dict[str, Any] = {"tool": "augment_image", "prompt": arguments.prompt, "image": sent}
    request |= {"whole": False, "options": options.model_dump(), "most_bytes": most}
    return _draft(parsed, files, output, request, partial(image_answer, parsed, options, output.target.name))


def augment_dataset(arguments: AugmentDatasetArguments, scope: DraftScope) -> Draft:
    parsed, paths = require_steps(arguments.prompt), _paths(scope)
    files, output = _files_and_output(arguments, paths)
    options = Options(enable_classification_check=False).model_dump()
    most = int(scope.settings.result_size * PICTURE_SHARE)
    request: dict[str, Any] = {"tool": "augment_dataset", "prompt": arguments.prompt, "whole": True}
    request |= {"seed": arguments.seed, "options": options, "most_bytes": most}
    return _draft(parsed, files, output, request, partial(dataset_answer, parsed))


def make_chips(arguments: MakeChipsArguments, scope: DraftScope) -> Draft:
    parsed = require_steps(arguments.prompt) if arguments.prompt is not None else Parsed()
    if arguments.overlap >= arguments.size:
        raise refusal("PARSE_ERROR", "the overlap is as large as a chip.", "Give a smaller `overlap`.")
    files, output = _files_and_output(arguments, _paths(scope))
    request = {
        **arguments.model_dump(exclude={"input", "output", "labels", "mask", "overwrite"}),
        "tool": "make_chips",
        "arguments": _portable(arguments),
    }
    return _draft(parsed, files, output, request, chips_answer)


def _portable(arguments: MakeChipsArguments) -> dict[str, Any]:
    """The arguments for `config.json`, without folders of this machine and keys in addresses.

    Of the paths of inputs, only the file names are left.
    """
    values = arguments.model_dump(exclude={"only", "output", "overwrite"})
    paths = {name: values[name] for name in ("input", "mask", "labels") if values[name]}
    names = {name: path.partition("?")[0] if is_address(path) else path for name, path in paths.items()}
    return values | {name: PurePosixPath(path).name for name, path in names.items()}


def parse_prompt(prompt: str) -> Parsed:
    """The steps of a prompt. Raises ToolError for a prompt that the specification does not allow."""
    if not 1 <= len(prompt) <= LONGEST_PROMPT:
        raise refusal(
            "PARSE_ERROR", f"a prompt has 1 to {LONGEST_PROMPT} characters.", "Say it in other words."
        )
    return parse(prompt)


def require_steps(prompt: str) -> Parsed:
    """The steps of a prompt. Raises ToolError if a part of it is wrong, or it has no steps."""
    parsed = parse_prompt(prompt)
    wrong = [problem for problem in parsed.errors if problem.severity == "error"]
    if wrong or not parsed.steps:
        message = " ".join(problem.message for problem in wrong) or "the prompt names no transform."
        advice = (
            " ".join(problem.suggestion for problem in wrong) or "list_available_transforms has their names."
        )
        raise refusal("PARSE_ERROR", message, advice)
    return parsed


def _draft(
    parsed: Parsed,
    files: Mapping[str, WorkspacePath | None],
    output: Output,
    request: Mapping[str, Any],
    present: Callable[[CallAnswer], Mapping[str, Any]],
) -> Draft:
    tool = str(request["tool"])
    of_step, of_transform = ("name", "probability", "group"), ("georeference", "bands", "category")
    steps = [
        {key: getattr(step, key) for key in of_step}
        | {key: getattr(TRANSFORMS[step.name], key) for key in of_transform}
        | {"parameters": dict(step.parameters)}
        for step in parsed.steps
    ]
    inputs = tuple(dict.fromkeys(path for path in files.values() if path is not None))
    places = {key: None if path is None else str(path) for key, path in files.items()}
    kind = "geojson" if str(places.get("labels")).lower().endswith("json") else "gpkg"
    absent = dict.fromkeys(("image", "seed", "mask", "labels", "classifier", "classes"))
    extra = {**absent, "labels_format": kind, "steps": steps, **places, **request}
    program, names = "chips" if tool == "make_chips" else "augment", (step.name for step in parsed.steps)
    command = Command(program, (tool, *names), tuple(map(str, inputs)), extra=extra)
    printed = PrintedOutput(is_json=True, present=present)
    return Draft(command, inputs, (output,), work=Work(tool), printed=printed)


def _paths(scope: DraftScope) -> Paths:
    remote = scope.remote if scope.gateway is not None else None
    folder = scope.settings.outputs_folder
    return Paths(scope.workspaces, folder, scope.call_id, as_new=scope.as_new, remote=remote)


def _files_and_output(
    arguments: AugmentDatasetArguments | MakeChipsArguments, paths: Paths
) -> tuple[dict[str, WorkspacePath | None], Output]:
    """The files that a call names, and the folder that it writes."""
    named = {"path": arguments.input, "mask": arguments.mask, "labels": arguments.labels}
    files = {key: None if text is None else paths.input(text) for key, text in named.items()}
    inputs = tuple(path for path in files.values() if path is not None)
    folder = paths.output(arguments.output, inputs=inputs, overwrite=arguments.overwrite, kind="folder")
    return files, folder


def _sent(text: str) -> str | None:
    """The base64 of an image, without a data URI's prefix. None for a path or an address. Raises ToolError."""
    if len(text) > LONGEST_IMAGE:
        raise refusal(
            "INVALID_IMAGE", "the image has more than 10 MiB of base64.", "Give its path, or a smaller one."
        )
    head, comma, data = text.partition(",")
    data = data if comma and head.startswith("data:") else text
    if is_address(text) or not (head.startswith("data:") or text.startswith(_SIGNATURES)):
        if len(text) > LONGEST_PATH:
            raise refusal(
                "INVALID_IMAGE", "the image's format is not known.", "Send PNG, JPEG, WEBP or TIFF."
            )
        return None
    try:
        base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise refusal(
            "INVALID_IMAGE", "the image is not base64.", "Send the file's bytes as base64."
        ) from error
    return data
