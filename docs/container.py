"""Every setting that a container is created with, and why.

A setting without a reason here, or a reason without its setting, is an error: neither can be added or dropped without its
sentence.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from docs.page import complete, table
from sandbox.hardening import EngineFacts, create_body
from sandbox.template import STAGING_TARGET, Limits, Mount, SandboxTemplate, host_source

REASONS: Mapping[str, str] = {
    "AttachStderr": "GDAL's messages, kept even when the call is killed",
    "AttachStdin": "the one job comes in here",
    "AttachStdout": "frames go out here, length-limited and strictly parsed",
    "CapDrop": "no capability, whatever the image or the engine adds by default",
    "Cmd": "a few lines that read our worker from stdin and run it if its SHA-256 is the one named here; nothing is mounted to bring it in",
    "Dns": "otherwise resolv.conf would show the host's name servers",
    "Entrypoint": "not the image's",
    "Env": "our own environment; every variable of the image and the engine is removed",
    "Healthcheck": "nothing but the job ever runs inside",
    "Hostname": "fixed, so that outputs do not depend on the container",
    "Image": "by content id, never by a tag; never pulled during a call",
    "IpcMode": "no shared memory",
    "Labels": "whose call this is and when it must be gone, for the reaper",
    "LogConfig": "output is never written to the host's disk",
    "MaskedPaths": "what the kernel tells about the host, and devices that no job needs",
    "Memory": "the kernel ends a job that takes more",
    "MemorySwap": "memory and swap together, so no swap",
    "Mounts": "the workspaces at their own paths, read-only; one private output folder; nothing else of the host",
    "NanoCpus": "processor time",
    "NetworkDisabled": "a network namespace with no interface at all",
    "NetworkMode": "no network",
    "OpenStdin": "the one job comes in here",
    "PidsLimit": "processes and threads",
    "ReadonlyPaths": "kernel settings",
    "ReadonlyRootfs": "nothing of the image can be changed",
    "RestartPolicy": "a container runs once",
    "SecurityOpt": "no privilege can be gained, and system calls are filtered by our own profile, which denies by default",
    "StdinOnce": "stdin ends when the server does, and the container with it",
    "StopSignal": "nothing can ignore it",
    "Tmpfs": "the only scratch space, without programs or devices; other calls' staging is covered by an empty folder",
    "Ulimits": "no core dumps; processor seconds, data segment, size of a file, open files",
    "User": "the workspace owner's ids, never root",
    "WorkingDir": "the scratch space",
    "CgroupnsMode": "its own control groups (only with cgroup version 2)",
}


def hardening() -> Iterator[str]:
    """Every field of the create body: those that say something with their reason, the others in one sentence."""
    body = _sample_body()
    flat = {**{name: value for name, value in body.items() if name != "HostConfig"}, **body["HostConfig"]}
    said = {name: value for name, value in flat.items() if not _says_nothing(value)}
    complete("container setting", set(said), set(REASONS))
    yield from table(
        ("setting", "value", "why"),
        ((f"`{name}`", _value(name, said[name]), REASONS[name]) for name in sorted(said)),
    )
    yield ""
    unset = ", ".join(f"`{name}`" for name in sorted(set(flat) - set(said)))
    yield f"Asked for as empty, zero or false, and read back too: {unset}."


def _sample_body() -> dict[str, Any]:
    """For a workspace `/maps`, on the newest kind of engine."""
    template = SandboxTemplate(
        image="sha256:...",
        command=("python3", "-I", "-c", "..."),
        user=(1000, 1000),
        limits=Limits(),
        mounts=(
            Mount(host_source("/maps"), PurePosixPath("/maps")),
            Mount(host_source("/maps/.gdal-mcp/..."), STAGING_TARGET, read_only=False),
        ),
        masks=(PurePosixPath("/maps/.gdal-mcp"),),
    )
    facts = EngineFacts((1, 44), "x86_64", "2", ("name=seccomp,profile=default",))
    return create_body(template, facts, {"io.gdal-mcp.*": "..."}, ())


def _says_nothing(value: Any) -> bool:
    return value in ("", 0, False, None, [], {})


def _value(name: str, value: Any) -> str:
    match name:
        case "Env":
            return "see `gdal_mcp/gdal/environment.py`"
        case "Mounts":
            return "<br>".join(f"`{row['Target']}` {'ro' if row['ReadOnly'] else 'rw'}" for row in value)
        case "SecurityOpt":
            return "`no-new-privileges:true`, `seccomp=sandbox/seccomp.json`"
        case "Ulimits":
            return ", ".join(f"`{row['Name']}={row['Soft']}`" for row in value)
        case "Tmpfs" | "Labels":
            return "<br>".join(f"`{key}` {text}" for key, text in value.items())
        case "Healthcheck" | "LogConfig" | "RestartPolicy":
            first = next(iter(value.values()))
            return f"`{first[0] if isinstance(first, list) else first}`"
        case _:
            return ", ".join(f"`{one}`" for one in value) if isinstance(value, list) else f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
