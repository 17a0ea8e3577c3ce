"""Runs the probes for known GDAL faults in a container of an image.

Used by `gdal-mcp setup` and `doctor`; the server never imports this module.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from gdal_mcp.toolboxes.gdal.catalogue.capture import CaptureFailed, run_program
from gdal_mcp.toolboxes.gdal.faults import Probed, probe_program, save_probed, states_of
from sandbox.engine import Engine
from sandbox.parsing import parse_json

_MAX_VALUES: Final = 10_000  # members and elements of the states of a few faults


def probe(engine: Engine, image: str, digest: str, state_dir: Path) -> Probed:
    """Probes the image and stores the results.

    If the program does not run, nothing is stored and every fault is unknown. A result that cannot be stored is still
    returned.
    """
    try:
        printed = parse_json(run_program(engine, image, probe_program(), ""), _MAX_VALUES)
    except (CaptureFailed, ValueError):
        return Probed(digest)
    probed = Probed(digest, states_of(printed))
    with suppress(OSError):
        save_probed(state_dir, probed)
    return probed
