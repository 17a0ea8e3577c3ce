"""`python -m scripts.pull`: pulls GDAL's image if it is missing, and prints which one is in use.

It obeys GDAL_MCP_IMAGE and GDAL_MCP_ENGINE.
"""

import os
import sys
import time

from gdal_mcp.runtime.image import ensure
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE, version_warning
from sandbox.engines.opening import open_engine
from sandbox.errors import SandboxError


def progress(line: str) -> None:
    """Prints one line of a set-up, with the minutes and seconds since `make` began, if it reports that."""
    passed = int(time.time() - float(os.environ.get("SETUP_STARTED") or time.time()))
    sys.stdout.write(f"[{passed // 60}:{passed % 60:02d}] {line}\n")
    sys.stdout.flush()


def main() -> int:
    try:
        images = open_engine(os.environ.get("GDAL_MCP_ENGINE")).images
        image = ensure(images, GDAL_IMAGE, os.environ.get("GDAL_MCP_IMAGE") or None, progress)
    except SandboxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    kind = "local stand-in, not the official image" if image.standin else "pulled or built elsewhere"
    progress(f"GDAL {image.version or 'of unknown version'}: {image.reference} ({kind}), {image.id}")
    if warning := version_warning(image.reference, image.version):
        sys.stderr.write(f"{warning}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
