"""Runs the probes for known GDAL faults in a container of an image.

Used by `gdal-mcp setup` and `doctor`; the server never imports this module.
"""

import json
from contextlib import suppress
from pathlib import Path

from gdal_mcp.toolboxes.gdal.catalogue.capture import CaptureFailed, run_program
from gdal_mcp.toolboxes.gdal.faults import Probed, probe_program, save_probed, states_of
from sandbox.engine import Engine


def probe(engine: Engine, image: str, digest: str, state_dir: Path) -> Probed:
    """Probes the image and stores the results.

    If the program does not run, nothing is stored and every fault is unknown. A result that cannot be stored is still
    returned.
    """
    try:
        printed = json.loads(run_program(engine, image, probe_program(), ""))
    except (CaptureFailed, ValueError):
        return Probed(digest)
    probed = Probed(digest, states_of(printed))
    with suppress(OSError):
        save_probed(state_dir, probed)
    return probed
