"""Confines containers with the host's security module: our AppArmor profile, or SELinux's container type."""

import os
import secrets
import subprocess
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from sandbox.engines.oci.config import SecurityLabels
from sandbox.errors import IsolationRefused

PROFILE: Final = "gdal-mcp-sandbox"  # the name in apparmor.profile
_APPARMOR: Final = Path("/sys/module/apparmor/parameters/enabled")
_SELINUX: Final = Path("/sys/fs/selinux/enforce")
_CATEGORIES: Final = 1024  # number of categories in the targeted policy, c0 to c1023
_SECONDS: Final = 60.0


@cache
def security_options() -> tuple[str, ...]:
    """The security options of this host, in the notation of engines, such as name=apparmor."""
    apparmor = _APPARMOR.exists() and _APPARMOR.read_text(encoding="ascii").startswith("Y")
    modules = (("apparmor", apparmor), ("selinux", _SELINUX.exists()))
    return tuple(f"name={name}" for name, on in modules if on)


def confinement() -> SecurityLabels:
    """The labels for one container. Raises IsolationRefused if a module is active and no label can be set."""
    options = security_options()
    if "name=apparmor" in options:
        # without root, an administrator must have loaded it; otherwise no container can be created
        if os.geteuid() == 0:
            _load()
        return SecurityLabels(apparmor=PROFILE)
    if "name=selinux" in options:
        return selinux_labels(secrets.randbelow(_CATEGORIES), secrets.randbelow(_CATEGORIES - 1))
    return SecurityLabels()


def selinux_labels(category: int, other: int) -> SecurityLabels:
    """SELinux labels with a pair of categories that hardly any other container has. `other` skips `category`."""
    first, second = sorted((category, other + (other >= category)))
    level = f"s0:c{first},c{second}"
    return SecurityLabels(
        selinux=f"system_u:system_r:container_t:{level}",
        selinux_files=f"system_u:object_r:container_file_t:{level}",
    )


@cache
def _load() -> None:
    """Loads the profile, once per process. After a restart, it replaces a profile that an administrator removed."""
    text = resources.files(__package__).joinpath("apparmor.profile").read_bytes()
    try:
        ended = subprocess.run(
            ["apparmor_parser", "--replace", "--skip-cache"],  # noqa: S607 - it lies where the system has it
            input=text,
            capture_output=True,
            env={"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"},
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise IsolationRefused(f"{_HOW} {error}") from error
    if ended.returncode:
        raise IsolationRefused(f"{_HOW} {ended.stderr.decode(errors='replace').strip()[-300:]}")


_HOW: Final = "AppArmor is on here and our profile could not be loaded, so nothing is run. Install apparmor, or use Docker."
