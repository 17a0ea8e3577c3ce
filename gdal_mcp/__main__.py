"""The program, and `python -m gdal_mcp`: refuses a system where it cannot run before it loads what does not exist there."""

import os
import sys

_NOT_UNIX = r"""gdal-mcp: this program needs Linux or another Unix. On Windows, run it in a container of Docker Desktop:
  docker run -i --rm -v /var/run/docker.sock:/var/run/docker.sock -v C:\maps:/maps ghcr.io/gdal-mcp/gdal-mcp serve --workspace /maps
"""


def main() -> int:
    if os.name != "posix":
        sys.stderr.write(_NOT_UNIX)
        return 2
    if problem := _stranger():
        sys.stderr.write(problem)
        return 2
    from gdal_mcp.cli.main import main as run  # noqa: PLC0415 - loads what only a Unix has

    return run()


def _stranger() -> str:
    """The problem if another package named `sandbox` comes before ours; "" if there is none."""
    import gdal_mcp  # noqa: PLC0415 - as below
    import sandbox  # noqa: PLC0415 - before anything of it is used

    own, actual = (os.path.dirname(os.path.dirname(str(module.__file__))) for module in (gdal_mcp, sandbox))  # noqa: PTH120 - before pathlib is loaded
    if own == actual:
        return ""
    return (
        f"gdal-mcp: the package `sandbox` in {actual} hides the one of this program. Install gdal-sandbox-mcp into an "
        "environment of its own: uv tool install gdal-sandbox-mcp\n"
    )


if __name__ == "__main__":
    sys.exit(main())
