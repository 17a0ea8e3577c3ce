"""Predicts what a call will write, as far as the contract of its tool determines it.

The number of chips depends on the data.
"""

from gdal_mcp.plan import Draft
from gdal_mcp.toolboxes.preflight import Preflight


class AugmentPreflight(Preflight):
    """Checks without facts about inputs: only the arguments of `make_chips` decide the size of its chips."""

    def becomes(self, draft: Draft, /) -> str:
        request = draft.command.extra
        if request["tool"] != "make_chips":
            return ""
        size, changes = request["size"], draft.command.options[1:]
        bands = ", with the bands of the raster" if request["format"] == "GTiff" else ""
        after = f", then changed by {', '.join(changes)}" if changes else ""
        return f"folder of {request['format']} chips of {size} x {size} pixels{bands}{after}"
