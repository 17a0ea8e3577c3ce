"""Our own seccomp profile: `seccomp.json`, which is readable for people, compiled for one architecture.

A profile for one architecture keeps the filter short and ends a process that makes system calls of another one
(32-bit, x32).
"""

import errno
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from sandbox.errors import IsolationRefused

# engine's name -> name in seccomp.json; Podman uses the image format's names
_ARCHITECTURES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@cache
def profile(architecture: str) -> str:
    """The profile as JSON text for an engine. Raises IsolationRefused for an unknown architecture."""
    if architecture not in _ARCHITECTURES:
        known = ", ".join(sorted(_ARCHITECTURES))
        raise IsolationRefused(
            f"there is no system call profile for {architecture!r}. Use a host of {known}."
        )
    ours = _ARCHITECTURES[architecture]
    allowed, answered = (
        [group for group in rules()[kind] if group.get("architecture", ours) == ours]
        for kind in ("allowed", "answered")
    )
    compiled = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": getattr(errno, rules()["default"]),
        "architectures": [f"SCMP_ARCH_{ours.upper()}"],
        "syscalls": [
            # one entry for each accepted value of an argument, because entries with the same name are alternatives
            *(
                {"names": group["names"], "action": "SCMP_ACT_ALLOW", "args": condition}
                for group in allowed
                for condition in _conditions(group)
            ),
            *(
                {
                    "names": group["names"],
                    "action": "SCMP_ACT_ERRNO",
                    "errnoRet": getattr(errno, group["errno"]),
                    "args": [],
                }
                for group in answered
            ),
        ],
    }
    return json.dumps(compiled, separators=(",", ":"))


@cache
def rules() -> Mapping[str, Any]:
    """The contents of `seccomp.json`: groups of names, each with its reason."""
    text = resources.files("sandbox.isolation").joinpath("seccomp.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _conditions(group: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
    if "argument" not in group:
        yield []
    for value in group.get("is", {}).values():
        yield [{"index": group["argument"], "value": int(value, 0), "op": "SCMP_CMP_EQ"}]
    if "without_bits" in group:
        mask = int(group["without_bits"], 0)
        yield [{"index": group["argument"], "value": mask, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
