"""Captures the algorithms, arguments, drivers and options of a GDAL image.

Used by `gdal-mcp catalogue build` and `gdal-mcp doctor`. The capture runs in a container like that of a call but
without any folder, with the same drivers disabled. The server never imports this module.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from importlib.resources import files
from typing import Any, Final

from gdal_mcp.toolboxes.gdal.catalogue.load import GENERATOR
from gdal_mcp.toolboxes.gdal.catalogue.messages import literals
from gdal_mcp.toolboxes.gdal.environment import FIXED
from sandbox.engine import Engine
from sandbox.errors import SandboxError
from sandbox.outcome import Exited
from sandbox.parsing import parse_json
from sandbox.program import delivered, worker_command
from sandbox.runner import Job, Runner
from sandbox.template import Limits, SandboxTemplate
from sandbox.waiting import Cancellation

_HEAD: Final = ("gdal", "skipped", "file_systems", "messages")
_LISTS: Final = ("algorithms", "steps", "drivers", "warp", "transform")
# a capture needs a tenth of the memory and prints 1 MB
_LIMITS: Final = Limits(memory_bytes=1 << 30, pids=64, stdout_bytes=16 << 20, scratch_bytes=64 << 20)
_MAX_VALUES: Final = 500_000  # members and elements; a capture has 35,000
_NOBODY: Final = (65534, 65534)
_compact: Final = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
_OWNER: Final = "catalogue"  # a server removes containers that this owner left behind
_HANDLER: Final = """
import sys
def prepare(): pass
def run(job, _report):
    sys.argv = ["program", job["argument"]]
    exec(compile(job["program"], "program.py", "exec"), {"__name__": "__main__"})
    return {"code": 0}
"""


class CaptureFailed(SandboxError):
    """The image did not describe its GDAL."""


def capture_image(engine: Engine, image: str) -> str:
    """The catalogue data of this image, as text. Raises CaptureFailed."""
    program = (
        files("gdal_mcp.toolboxes.gdal.catalogue").joinpath("capture_program.py").read_text(encoding="utf-8")
    )
    try:
        texts = _compact([text for group in literals().values() for text in group])
        return render(parse_json(run_program(engine, image, program, texts), _MAX_VALUES))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CaptureFailed(
            f"{image} printed no description of its GDAL: {error!r}. Use an image with GDAL 3.11 or later and its Python module."
        ) from error


def run_program(engine: Engine, image: str, program: str, argument: str) -> bytes:
    """Runs a Python program in a container of the image and returns its output.

    The environment is that of every call. Raises CaptureFailed if the program or the engine fails.
    """
    sent = delivered(worker_command(_HANDLER))
    template = SandboxTemplate(image, sent.command, _NOBODY, _LIMITS, environment=FIXED, program=sent.program)
    try:
        with closing(Cancellation()) as cancel:
            job = Job("capture", template, {"program": program, "argument": argument})
            result = Runner(engine, _OWNER).run(job, cancel)
    except SandboxError as error:
        raise CaptureFailed(f"the engine did not run {image}: {error} Try again.") from error
    if not isinstance(result.outcome, Exited):
        output = result.stderr[-2000:].decode(errors="replace")
        raise CaptureFailed(
            f"the program in {image} ended as {result.outcome}: {output!r}. Use another image."
        )
    return result.stdout


def render(facts: dict[str, Any]) -> str:
    """The data as JSON, one line per algorithm, argument, step, driver and shared option, so that diffs are small."""
    head = {"generator": GENERATOR, **{name: facts[name] for name in _HEAD}}
    lines = [f'"{key}":{_compact(value)}' for key, value in head.items()]
    lines += [f'"{name}":[\n' + ",\n".join(_rows(name, facts[name])) + "\n]" for name in _LISTS]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(name: str, entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        described = [argument for argument in entry.get("arguments", ()) if not isinstance(argument, str)]
        # most steps only name arguments of their algorithm
        if name not in ("algorithms", "steps") or not described:
            yield _compact(entry)
            continue
        head = _compact({key: value for key, value in entry.items() if key != "arguments"})
        arguments = ",\n".join(_compact(argument) for argument in entry["arguments"])
        yield f'{head[:-1]},"arguments":[\n{arguments}\n]}}'
