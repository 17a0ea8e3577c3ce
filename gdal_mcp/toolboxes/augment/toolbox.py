"""The toolbox `augment` as one value. GDAL's worker runs in its containers, with additional programs."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.augment.expected import AugmentPreflight
from gdal_mcp.toolboxes.augment.failures import details
from gdal_mcp.toolboxes.augment.tool import tools
from gdal_mcp.toolboxes.gdal.answers.described import described, shortened
from gdal_mcp.toolboxes.gdal.datasets.paths import companions
from gdal_mcp.toolboxes.gdal.datasets.scope import places
from gdal_mcp.toolboxes.gdal.environment import ANSWER_SETTINGS, gdal_threads
from gdal_mcp.toolboxes.gdal.environment import environment as gdal_environment
from gdal_mcp.toolboxes.gdal.worker_source import command_around, modules_of
from gdal_mcp.toolboxes.toolbox import Analysis, Answering, Execution, Toolbox
from gdal_mcp.toolboxes.wheels import WheelImage

IMAGE: Final = WheelImage("augment")
INSTRUCTIONS: Final = (
    "augment_image changes one picture as a prompt says; augment_dataset does so with a georeferenced raster, its mask and its "
    "labels, and make_chips with many windows of a large one. validate_prompt shows what a prompt would do."
)
_INSIDE: Final = "gdal_mcp.toolboxes.augment.inside"
_HANDLER: Final = "augment_worker"
_REFUSED: Final[Mapping[str, str]] = {
    "INVALID_IMAGE": "the image cannot be used; the library's own words are under `untrusted`.",
    "TRANSFORM_FAILED": "the arguments of a transform do not fit together; the library's own words are under `untrusted`.",
}


def augment(_settings: Settings) -> Toolbox:
    return Toolbox(
        name="augment",
        title="Augmentation",
        version=f"albumentations {IMAGE.locked['albumentations']}; sha256:{IMAGE.digest}",
        image=IMAGE.spec,
        toolsets={"augment": tools},
        operations=frozenset({"augment_image", "augment_dataset", "make_chips"}),
        instructions=INSTRUCTIONS,
        execution=Execution(
            answer_settings=ANSWER_SETTINGS,
            environment=lambda limits, _digest: {
                **gdal_environment(limits),
                # otherwise the library looks for a newer version in the network
                "NO_ALBUMENTATIONS_UPDATE": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "CHIP_THREADS": str(gdal_threads(limits)),
            },
            program=augment_command,
            request=_request,
        ),
        analysis=Analysis(
            companions=companions,
            mounts=places,
            only_inputs=True,
            preflight=lambda _limits: AugmentPreflight(),
        ),
        answering=Answering(describe=described, shorten=shortened, explain=_explained, error_details=details),
    )


@cache
def augment_command(idle_seconds: float = 120.0) -> tuple[str, ...]:
    own = dict.fromkeys(set(modules_of(_INSIDE)) - {_HANDLER}, _INSIDE)
    modules = {**dict(sorted(own.items())), "sentences": "gdal_mcp.toolboxes.augment"}
    return command_around(_INSIDE, _HANDLER, modules, idle_seconds)


def _request(draft: Draft, preview_pixels: int) -> Mapping[str, Any]:
    return {
        **draft.command.extra,
        "program": draft.command.program,
        "inputs": (),  # empty, because GDAL's worker would examine inputs first
        "outputs": [{"path": output.inside, "kind": output.kind} for output in draft.outputs],
        "preview_pixels": 0,  # a folder has no preview
        "picture_pixels": preview_pixels,
        "remote": bool(draft.addresses),
    }


def _explained(_draft: Draft, final: Mapping[str, Any]) -> ToolError | None:
    refused = final.get("refused")
    code = str(refused.get("code")) if isinstance(refused, dict) else ""
    if code not in _REFUSED:
        return None
    advice = (
        "Correct the prompt, or give another image." if code == "TRANSFORM_FAILED" else "Give another image."
    )
    return ToolError(Code.TOOL_ERROR, Stage.RUN, _REFUSED[code], advice, check={"code": code})
