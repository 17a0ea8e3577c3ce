"""The program, and `python -m gdal_mcp`: refuses a system where it cannot run before it loads what does not exist there."""

import os
import sys

_ELSEWHERE = r"""gdal-mcp: this program needs a Unix. On Windows it runs in a container of Docker Desktop:
  docker run -i --rm -v /var/run/docker.sock:/var/run/docker.sock -v C:\maps:/maps ghcr.io/gdal-mcp/gdal-mcp serve --workspace /maps
"""


def main() -> int:
    if os.name != "posix":
        sys.stderr.write(_ELSEWHERE)
        return 2
    from gdal_mcp.cli import main as run  # noqa: PLC0415 - loads what only a Unix has

    return run()


if __name__ == "__main__":
    sys.exit(main())
