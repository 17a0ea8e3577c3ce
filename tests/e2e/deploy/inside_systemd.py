"""Runs on a separate kernel on which systemd started the server; `test_systemd.py` starts it. The order matters: the last test stops the server."""

import os
import pwd
import stat
import subprocess
from pathlib import Path

import httpx2

from gdal_mcp.testing.client import connected, over_http
from sandbox.workspace import RESERVED
from tests.waiting import until

UNIT = os.environ.get("UNIT", "")
ADDRESS = "http://127.0.0.1:8000"
WORKSPACE = Path("/srv/geodata")
# the state folder, and the containers of the engine without a daemon
STATE, CONTAINERS = {
    "gdal-mcp-user": (Path("/var/lib/gdal-mcp/state"), Path("/var/lib/gdal-mcp/oci/containers")),
}.get(UNIT, (Path("/var/lib/gdal-mcp"), Path("/var/lib/gdal-mcp-oci/containers")))
PATIENCE = 600.0  # seconds on an emulated processor


def output(*words: str) -> str:
    return subprocess.check_output(words, text=True).strip()


def value(name: str) -> str:
    """The value of a property of the unit."""
    return output("systemctl", "show", "--value", f"--property={name}", UNIT)


def containers() -> set[str]:
    if UNIT == "gdal-mcp":
        return set(output("docker", "ps", "--all", "--quiet", "--no-trunc").split())
    return {path.name for path in CONTAINERS.iterdir() if not path.name.startswith("new-")}


def status(path: str) -> int:
    try:
        return httpx2.get(f"{ADDRESS}{path}", trust_env=False).status_code
    except httpx2.TransportError:
        return 0


def wait_for_server() -> None:
    until(lambda: status("/readyz") == httpx2.codes.OK, PATIENCE)
    assert status("/healthz") == httpx2.codes.OK


def in_service(*words: str) -> bool:
    """True if the command succeeds with the files that the service sees."""
    namespace = f"--mount=/proc/{value('MainPID')}/ns/mnt"
    return subprocess.run(["nsenter", namespace, *words], capture_output=True, check=False).returncode == 0


def call(tool: str, **arguments: str) -> dict:
    token = Path("/run/token").read_text().split()[-1]
    with connected(over_http(f"{ADDRESS}/mcp", token)) as client:
        return client.call(tool, **arguments)


def test_enabled_unit_answers_after_boot():
    wait_for_server()
    assert value("ActiveState") == "active"
    assert value("NRestarts") == "0"


def test_calls_read_and_write():
    assert call("info", path="points.csv")["driverShortName"] == "CSV"
    owner = WORKSPACE.stat().st_uid
    assert owner != 0
    call("convert", input="points.csv", output="copy.gpkg")
    assert (WORKSPACE / "copy.gpkg").stat().st_uid == owner


def test_restrictions_are_in_force():
    lines = Path(f"/proc/{value('MainPID')}/status").read_text().splitlines()
    process = dict(line.split(":\t", 1) for line in lines)
    if UNIT != "gdal-mcp-root":
        user = pwd.getpwnam("gdal-mcp").pw_uid
        assert {int(one) for one in process["Uid"].split()} == {user}
        assert int(process["CapEff"], 16) == 0
    if UNIT == "gdal-mcp-user":
        return  # it has no other restrictions
    assert process["Seccomp"] == "2"
    assert int(process["CapBnd"], 16) & 1 << 25 == 0  # CAP_SYS_TIME
    if UNIT == "gdal-mcp":
        assert process["NoNewPrivs"] == "1"
        assert value("CPUWeight") == "1000"
        assert int(process["CapBnd"], 16) == 0
    assert in_service("touch", str(WORKSPACE / "new"), str(STATE / "new"))
    for path in ("/usr/new", "/etc/new", "/var/new"):
        assert not in_service("touch", path)
    assert not in_service("ls", "/root/.bashrc")


def test_restart_gives_a_new_process_that_answers():
    before = value("MainPID")
    output("systemctl", "restart", UNIT)
    wait_for_server()
    assert value("MainPID") != before
    assert value("NRestarts") == "0"


def test_killed_server_restarts_and_its_containers_are_removed():
    until(containers, PATIENCE)
    before, of_killed = value("MainPID"), containers()
    output("kill", "-9", before)
    until(lambda: value("NRestarts") == "1", PATIENCE)
    wait_for_server()
    assert value("MainPID") != before
    assert call("info", path="copy.gpkg")["driverShortName"] == "GPKG"
    until(lambda: not of_killed & containers(), PATIENCE)


def test_stop_leaves_nothing():
    group = Path(f"/sys/fs/cgroup{value('ControlGroup')}")
    assert (group / "cgroup.procs").exists()
    output("systemctl", "stop", UNIT)
    assert (value("ActiveState"), value("Result")) == ("inactive", "success")
    assert containers() == set()
    assert not group.exists()
    assert not list(Path("/sys/fs/cgroup").glob("gdal-mcp/*/"))
    assert list((WORKSPACE / RESERVED).glob("staging/*")) == []
    assert [path for path in STATE.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)] == []
    assert status("/healthz") == 0
