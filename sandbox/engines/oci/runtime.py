"""The low-level runtimes for an engine without a daemon, and how each one creates and starts a container."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.errors import CapacityExhausted, EngineUnavailable

# in order of preference, with the oldest version that passed the conformance suite; older versions are not used
FLOORS: Final = {"crun": (1, 8), "runc": (1, 1, 5)}
# the first version with every published fix; distributions backport fixes without changing the version
ADVISED: Final = {"crun": (1, 8), "runc": (1, 2, 8)}
# bytes of a container's memory. runc loads the system call filter in a process of its own that is already under the
# container's limits: with 80 MiB it never had the memory for that, with 96 MiB not always, with 112 MiB always
LEAST_MEMORY: Final = {"crun": 0, "runc": 128 << 20}
# seconds for one step of a runtime, which usually takes hundredths of a second
SECONDS: Final = 60.0
_PLACES: Final = os.pathsep.join(
    (os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin")
)


@dataclass(frozen=True, slots=True)
class Runtime:
    """An installed runtime."""

    name: str
    path: str
    version: str

    def require_memory(self, size: int) -> None:
        """Raises CapacityExhausted if this runtime cannot start a container with a memory limit of `size` bytes."""
        if size < (least := LEAST_MEMORY[self.name]):
            raise CapacityExhausted(
                f"a memory limit of {size >> 20} MiB is too small for {self.name}, which needs a part of it to start a "
                f"container. Set at least {least >> 20} MiB, or use crun."
            )

    def run(
        self,
        step: Sequence[str],
        state: Path,
        log: Path,
        streams: tuple[int, int, int] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        """Runs one command, prefixed by `wrapper`. `streams` become the container's streams.

        Raises EngineUnavailable with the runtime's error.
        """
        stdin, stdout, stderr = streams or (subprocess.DEVNULL,) * 3
        try:
            code = subprocess.run(  # noqa: S603 - our own words, no shell
                [*wrapper, self.path, "--root", str(state), "--log", str(log), *step],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={"PATH": _PLACES},
                timeout=SECONDS,
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineUnavailable(f"{self.name} could not {step[0]} a container: {error}") from error
        if code:
            output = log.read_text(encoding="utf-8", errors="replace").strip()[-500:] if log.exists() else ""
            raise EngineUnavailable(
                f"{self.name} could not {step[0]} a container: {output or f'it ended with {code}'}"
            )


def candidates() -> dict[str, Runtime | None]:
    """The runtimes that this user can use, in order of preference; None for one that is not installed.

    Without root, runc requires user 0 in a container.
    """
    names = FLOORS if os.geteuid() == 0 else ("crun",)
    paths = {name: shutil.which(name, path=_PLACES) for name in names}
    return {name: Runtime(name, path, _version(path)) if path else None for name, path in paths.items()}


def installed() -> tuple[Runtime, ...]:
    """The candidates that are installed."""
    return tuple(runtime for runtime in candidates().values() if runtime)


def _version(path: str) -> str:
    try:
        output = subprocess.run(  # noqa: S603 - a runtime of this host
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "0"
    match = re.search(r"version (\d+(?:\.\d+)+)", output)
    return match[1] if match else "0"


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def too_old(runtime: Runtime) -> str:
    """The reason why a runtime is too old; "" if it is not."""
    floor = FLOORS[runtime.name]
    if numbers(runtime.version) >= floor:
        return ""
    return f"{runtime.name} {runtime.version} is too old: {'.'.join(map(str, floor))} or newer is needed"


def usable(runtimes: Sequence[Runtime]) -> tuple[Runtime, ...]:
    """The runtimes that are new enough. Raises EngineUnavailable if there are none."""
    if fit := tuple(runtime for runtime in runtimes if not too_old(runtime)):
        return fit
    old = "".join(f" {too_old(runtime)}." for runtime in runtimes)
    oldest = " or ".join(f"{name} {'.'.join(map(str, floor))}" for name, floor in FLOORS.items())
    raise EngineUnavailable(
        f"there is no low-level runtime to make containers with.{old} Install {oldest} or newer: apt-get install crun"
    )
