"""A handler for `sandbox/worker.py` that says which folders a container sees. Standard library only."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def prepare() -> None:
    pass


def run(job: dict[str, Any], _report: object) -> dict[str, Any]:
    return {
        "code": 0,
        "kernel": os.uname().release,
        "folders": {path: attempt(identity, path) for path in job["folders"]},
        "nonces": {path: attempt(first_bytes, path) for path in job["nonces"]},
    }


def identity(path: str) -> str:
    """As `_identity` in `gdal_mcp/host/nested.py`."""
    status = Path(path).stat()
    return f"{status.st_dev}:{status.st_ino}"


def first_bytes(path: str) -> str:
    with Path(path).open(encoding="ascii", errors="replace") as file:
        return file.read(64)


def attempt(look: Callable[[str], str], path: str) -> str:
    try:
        return look(path)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "EUNKNOWN")
