"""The toolbox `python`, in one value: GDAL's worker describes what the code of a call wrote."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.answers.described import described, shortened
from gdal_mcp.toolboxes.gdal.datasets.paths import companions
from gdal_mcp.toolboxes.gdal.datasets.scope import places
from gdal_mcp.toolboxes.gdal.datasets.sidecars import belongs
from gdal_mcp.toolboxes.gdal.environment import ANSWER_SETTINGS, gdal_threads
from gdal_mcp.toolboxes.gdal.environment import environment as gdal_environment
from gdal_mcp.toolboxes.gdal.worker_source import command_around
from gdal_mcp.toolboxes.python.tool import NAME, PYTHON_IMAGE, SHOWN, run_python_tool
from gdal_mcp.toolboxes.toolbox import Analysis, Answering, Execution, Toolbox
from sandbox.template import Limits

_INSIDE: Final = "gdal_mcp.toolboxes.python.inside"
# the printed output, the result and the value may each take this part of a call's answer: one eighth
_SHARE: Final = 8
INSTRUCTIONS: Final = "What no other tool does is written as Python and run by run_python; a person reads and approves the code each time."


def python(settings: Settings) -> Toolbox:
    """The toolbox `python`. The settings limit the size of its answers."""
    versions = PYTHON_IMAGE.locked
    return Toolbox(
        name="python",
        title="Python",
        version=f"{', '.join(f'{name} {versions[name]}' for name in SHOWN)}; sha256:{PYTHON_IMAGE.digest}",
        image=PYTHON_IMAGE.spec,
        toolsets={"python": lambda: (run_python_tool(),)},
        operations=frozenset({NAME}),
        instructions=INSTRUCTIONS,
        execution=Execution(
            environment=environment,
            answer_settings=ANSWER_SETTINGS,
            program=python_command,
            request=partial(_request, settings.stdout_size // _SHARE),
        ),
        analysis=Analysis(companions=companions, mounts=places, only_inputs=True),
        answering=Answering(
            describe=described,
            shorten=shortened,
            belongs=belongs,
            explain=_explain,
            suggest=lambda _errors: (
                "The traceback is under `untrusted.stderr`; correct the code and call again."
            ),
        ),
    )


def environment(limits: Limits, _digest: str = "") -> Mapping[str, str]:
    """GDAL's environment, with as many threads for the libraries as there are whole processors. The image's GDAL is
    not probed.
    """
    threads = str(gdal_threads(limits))
    return {**gdal_environment(limits), "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}


@cache
def python_command(idle_seconds: float = 120.0) -> tuple[str, ...]:
    """The command of a container: our handler, which includes the code's process and GDAL's worker."""
    modules = dict.fromkeys(("child", "gdal_mcp_job"), _INSIDE)
    return command_around(_INSIDE, "python_worker", modules, idle_seconds)


def _request(most_bytes: int, draft: Draft, preview_pixels: int) -> Mapping[str, Any]:
    return {
        **draft.command.extra,
        "inputs": (),  # empty, because GDAL's worker would examine inputs before the code runs
        "outputs": [output.job for output in draft.outputs],
        "expected": ("figures",),  # outputs without a georeference
        "preview_pixels": preview_pixels,
        "printed_bytes": most_bytes,
        "result_bytes": most_bytes,
    }


def _explain(draft: Draft, final: Mapping[str, Any]) -> ToolError | None:
    if final.get("timed_out") is not True:
        return None
    what = f"the code was stopped after {draft.command.extra['seconds']:g} s."
    advice = (
        "Let it do less at a time, or give a longer `timeout`; the server's own limit is --timeout-seconds."
    )
    return ToolError(Code.TIMEOUT, Stage.RUN, what, advice)
