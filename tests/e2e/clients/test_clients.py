"""Third-party clients and bridges: each lists, reads, writes with approval, shows progress, cancels, and reads
resources and pictures.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conformance.node import Programs, programs
from tests.e2e.mcp.talk import ERAS, Place, environment
from tests.e2e.mcp.test_endings import LONG
from tests.e2e.web.hosted import bearer, hosting
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine, pytest.mark.timeout(900)]

PROGRAMS = Path(__file__).parent / "programs"
UV = Path(sys.prefix) / "bin" / "uv"
ROWS: list[dict[str, Any]] = tomllib.loads(Path("docs/clients.toml").read_text(encoding="utf-8"))["client"]
SDK = "mcp==2.3.0"
APPROVAL = {"GDAL_MCP_APPROVAL_WAIT": "2"}
MODERN = ERAS[1]


@pytest.fixture(scope="session")
def node() -> Programs:
    """The npm packages of programs/package-lock.json. Fails, and never skips, without npm's registry."""
    return programs(PROGRAMS)


def in_environment(*packages: str) -> list[str]:
    """A command in a separate environment that has these packages from PyPI."""
    options = [word for package in packages for word in ("--with", package)]
    return [str(UV), "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable, *options]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bridge_command(
    row: dict[str, Any], server: list[str], port: int, node: Programs
) -> tuple[list[str], str]:
    """The bridge in front of the server, and its address."""
    pinned = f"{row['package']}=={row['version']}", *row.get("with", ())
    if row["bridge"] == "mcp-proxy":
        words = [
            *in_environment(*pinned),
            "mcp-proxy",
            "--port",
            str(port),
            "--pass-environment",
            "--",
            *server,
        ]
        return words, f"http://127.0.0.1:{port}/mcp"
    if row["bridge"] == "mcpo":
        words = [*in_environment(*pinned), "mcpo", "--host", "127.0.0.1", "--port", str(port), "--", *server]
        return words, f"http://127.0.0.1:{port}"
    entry = node.modules / "supergateway" / "dist" / "index.js"
    options = ["--outputTransport", "streamableHttp", "--stateful", "--port", str(port)]
    return [str(node.node), str(entry), "--stdio", " ".join(server), *options], f"http://127.0.0.1:{port}/mcp"


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def bridged(
    row: dict[str, Any], server: list[str], env: dict[str, str], log: Path, node: Programs
) -> Iterator[str | None]:
    """The address of the row's bridge until the block ends; None for a client that starts the server itself."""
    if "bridge" not in row:
        yield None
        return
    port = free_port()
    command, url = bridge_command(row, server, port, node)
    with log.open("ab") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            until(lambda: answers(port))
            yield url
        finally:
            os.killpg(process.pid, 15)
            process.wait()


def program(row: dict[str, Any], node: Programs) -> list[str]:
    file = PROGRAMS / row["program"]
    if file.suffix == ".mjs":
        copied = node.modules.parent / file.name  # Node looks for packages beside the program
        shutil.copy(file, copied)
        return [str(node.node), str(copied)]
    package = SDK if "bridge" in row else f"{row['package']}=={row['version']}"
    return [*in_environment(package), "python", str(file)]


@contextmanager
def connection(
    row: dict[str, Any], transport: str, place: Place, env: dict[str, str], log: Path, node: Programs
) -> Iterator[dict[str, Any]]:
    """The address and the headers with which the client reaches the server while the block lasts; no address over stdio."""
    if transport == "http":
        with hosting(place, log, env=APPROVAL) as hosted:
            yield {"url": hosted.url, "headers": bearer(hosted.token("client"))}
        return
    with bridged(row, place.command(), env, log, node) as url:
        yield {"url": url, "headers": {}}


RUNS = [
    (row, transport) for row in ROWS if "program" in row for transport in row.get("transports", ["stdio"])
]


@pytest.mark.parametrize(("row", "transport"), RUNS, ids=[f"{row['name']}, {how}" for row, how in RUNS])
def test_a_client_does_what_the_table_says(row, transport, make_place, node, tmp_path):
    place: Place = make_place("rgb.tif")
    env = environment(**APPROVAL)
    own = {**os.environ, **env, "PYTHONPATH": str(PROGRAMS), "MCP_USE_ANONYMIZED_TELEMETRY": "false"}
    approve = [sys.executable, "-m", "gdal_mcp", "approve", *place.options]
    log = tmp_path / "server.log"
    with connection(row, transport, place, own, log, node) as reached:
        setup = {
            "command": place.command(), "environment": env, "workspace": str(place.workspace),
            "state": str(place.state), "approve": approve, "long": LONG, **reached,
        }  # fmt: skip
        words = [*program(row, node), json.dumps(setup), *row.get("words", ())]
        done = subprocess.run(words, env=own, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, (done.stderr[-3000:], log.read_text()[-2000:] if log.exists() else "")
    differences = {
        step: outcome
        for step, outcome in json.loads(done.stdout.splitlines()[-1]).items()
        if outcome is not True
    }
    assert differences == row.get(
        "differs_http" if transport == "http" else "differs", row.get("differs", {})
    )
    if "writes with approval" not in differences:  # a client that asks its user, in the way of its era
        assert ("approval.requested" in {event["type"] for event in place.audited}) == (row["era"] == MODERN)
