"""The deployment's files match the server and one another: settings exist, locks agree, and no default is insecure."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from gdal_mcp.settings import PREFIX, Settings

ROOT = Path(__file__).parents[3]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
SERVER, PROXY = COMPOSE["server"], COMPOSE["engine-proxy"]
ENGINE_SOCKET = "/var/run/docker.sock"
UNITS = ("gdal-mcp", "gdal-mcp-root", "gdal-mcp-user")


def sources(service: dict) -> list[str]:
    return [
        volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
        for volume in service["volumes"]
    ]


@pytest.mark.parametrize("service", [SERVER, PROXY], ids=["server", "proxy"])
def test_service_has_minimal_rights(service):
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "${SERVER_UID:?}:${SERVER_GID:?}"
    assert not {"privileged", "cap_add", "devices", "pid", "ipc"} & set(service)


@pytest.mark.claim("engine.proxy")
def test_only_the_networkless_proxy_has_the_engine_socket():
    assert ENGINE_SOCKET in sources(PROXY)
    above = ("/", "/var", "/run", "/var/run")
    assert not [source for source in sources(SERVER) if "docker.sock" in source or source in above]
    assert PROXY["network_mode"] == "none"
    assert "group_add" not in SERVER


def test_the_server_is_published_on_loopback_alone():
    assert all(port.startswith("127.0.0.1:") for port in SERVER["ports"])


def test_the_workspace_has_one_path_on_both_sides():
    binds = [volume for volume in SERVER["volumes"] if isinstance(volume, dict)]
    assert [bind["target"] for bind in binds if bind["source"] == "${WORKSPACE:?}"] == ["${WORKSPACE:?}"]
    named = SERVER["environment"]["GDAL_MCP_WORKSPACES"], PROXY["environment"]["MOUNT_SOURCES"]
    assert named == ("${WORKSPACE:?}",) * 2


def test_proxy_gets_what_its_configuration_requires():
    variables = set(re.findall(r"\$\{(\w+)\}", (ROOT / "deploy/engine-proxy/haproxy.cfg").read_text()))
    assert variables == set(PROXY["environment"])


def test_every_setting_that_is_named_exists():
    units = [f"deploy/{unit}.service" for unit in UNITS]
    for file in ["compose.yaml", "Dockerfile", *units, "deploy/healthcheck.py"]:
        named = set(re.findall(rf"\b{PREFIX}([A-Z_]+[A-Z])\b", (ROOT / file).read_text()))
        assert named
        assert named <= {name.upper() for name in Settings.model_fields}


@pytest.mark.nightly
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_takes_the_units_as_they_stand(unit: str, tmp_path: Path):
    text = (ROOT / "deploy" / f"{unit}.service").read_text()
    place = tmp_path / f"{unit}.service"
    place.write_text(
        text.replace("/opt/gdal-mcp/bin/gdal-mcp", "/bin/true")
    )  # which need not be installed here
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(place)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
