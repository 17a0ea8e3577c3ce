"""Icons as data: URIs, so that showing one contacts no other host. They are small, because they are in every list."""

from typing import Final
from urllib.parse import quote

import mcp_types as t

_PLAIN: Final = "=:/'-."  # characters that need no escape in a URI or in JSON


def _icon(drawing: str) -> t.Icon:
    """An icon of strokes on 24 by 24 units, in a green that is visible on light and dark backgrounds."""
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='#3a8a6e' stroke-width='2'>"
        f"<path d='{drawing}'/></svg>"
    )
    return t.Icon(
        src=f"data:image/svg+xml,{quote(svg, safe=_PLAIN)}", mime_type="image/svg+xml", sizes=["any"]
    )


SERVER: Final = _icon("M3 3h18v18H3zM3 15l6-5 5 4 3-3 4 4M16 7h1")  # a picture with hills
PROMPT: Final = _icon("M4 4h16v12H10l-6 5z")  # a speech bubble
OUTPUT: Final = _icon("M6 2h8l5 5v15H6zM14 2v5h5")  # a file
RECORD: Final = _icon("M5 3h14v18H5zM8 8h8M8 12h8M8 16h5")  # a written page
