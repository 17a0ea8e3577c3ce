# ruff: noqa: INP001 - a program of the image, not a module of a package
"""Ends with 0 when the server of this container answers."""

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final

SECONDS: Final = 4.0  # below the time limit of the image's health check


def main() -> int:
    # over stdio there is no port, and whoever holds the other end sees whether it answers
    words = Path("/proc/1/cmdline").read_bytes()
    if b"\0serve\0" in words and b"http\0" not in words:
        return 0
    host = os.environ.get("GDAL_MCP_HOST", "")
    port = int(os.environ.get("GDAL_MCP_PORT") or 8000)
    address = host if host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104 - compared, not bound
    try:
        return 0 if _status(address, port) == 200 else 1
    except (OSError, HTTPException):
        return 1


def _status(address: str, port: int) -> int:
    connection = HTTPConnection(address, port, timeout=SECONDS)
    if os.environ.get("GDAL_MCP_TLS_CERT"):
        # the certificate is for the name that clients use; only whether somebody answers is asked here
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        connection = HTTPSConnection(address, port, timeout=SECONDS, context=context)
    connection.request("GET", "/healthz")
    return connection.getresponse().status


if __name__ == "__main__":
    sys.exit(main())
