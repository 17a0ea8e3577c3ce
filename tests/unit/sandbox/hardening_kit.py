"""A template, its create body on two engines, and an engine's truthful answer to inspect."""

import copy
from dataclasses import replace
from pathlib import PurePosixPath

from sandbox.engine import EngineInfo
from sandbox.engines.docker_spec import create_body
from sandbox.template import Limits, Mount, SandboxTemplate, host_source

IMAGE = "sha256:" + "a" * 64
WORKSPACE, STAGING = PurePosixPath("/data/ws"), PurePosixPath("/staging")


def engine_info(api, architecture, cgroup, *options):
    """The engine's information about itself, as far as a create body depends on it."""
    return EngineInfo("Docker", "20.10", api, architecture, cgroup, options, False, (), "unix:///x", "")


DOCKER_20 = engine_info((1, 41), "x86_64", "1", "name=seccomp,profile=default")
DOCKER_28 = engine_info(
    (1, 51), "aarch64", "2", "name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"
)
LIMITS = Limits(
    memory_bytes=1 << 30, cpus=1.5, pids=32, file_bytes=1 << 20, open_files=256, scratch_bytes=1 << 24
)
TEMPLATE = SandboxTemplate(
    image=IMAGE,
    command=("/usr/bin/python3", "-I", "-c", "pass"),
    user=(1000, 1001),
    limits=LIMITS,
    mounts=(
        Mount(host_source(WORKSPACE), WORKSPACE),
        Mount(host_source("/data/ws/.gdal-mcp/s/1"), STAGING, read_only=False),
    ),
    masks=(WORKSPACE / ".gdal-mcp",),
    environment={"PATH": "/usr/bin", "HOME": "/nonexistent"},
    runtime="runsc",
)


def body(facts=DOCKER_20, image_environment=(), **changes):
    return create_body(replace(TEMPLATE, **changes), facts, {"owner": "me"}, image_environment)


def host(facts=DOCKER_20, **changes):
    return body(facts, **changes)["HostConfig"]


def truthful(requested):
    """The engine's inspect answer for a container that was created exactly as requested."""
    config = copy.deepcopy({name: value for name, value in requested.items() if name != "HostConfig"})
    mounts = requested["HostConfig"]["Mounts"]
    filled_in = {"Links": None, "Binds": None, "ShmSize": 67108864}
    bind = {"Type": "bind", "Mode": "", "Propagation": "rprivate"}
    return {
        "Image": requested["Image"],
        "Path": requested["Entrypoint"][0],
        "Args": list(requested["Cmd"]),
        "AppArmorProfile": "docker-default",
        "Config": {**config, "Volumes": None, "OnBuild": None},
        "HostConfig": {**copy.deepcopy(requested["HostConfig"]), **filled_in},
        "Mounts": [
            {"Source": row["Source"], "Destination": row["Target"], "RW": not row["ReadOnly"], **bind}
            for row in mounts
        ],
        "NetworkSettings": {"Networks": {"none": {"IPAddress": ""}}, "Ports": {}},
    }
