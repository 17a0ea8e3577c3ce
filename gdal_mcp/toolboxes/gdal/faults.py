"""Faults of GDAL that silently change results: a table, results of probes, and the work-arounds.

An image is judged by its behaviour, not by its version: `gdal-mcp setup` and `doctor` run `inside/fault_probes.py` in
a container of the installed image. The results are stored as one private file for each image:

    faults/<SHA-256 of digest and probe program>    JSON: the state of each fault

Invariants:
* a fault without a result is treated as present;
* only a result of the same image (by its digest) and of the same program can switch off a work-around.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gdal_mcp.settings.state import put_private
from gdal_mcp.toolboxes.gdal import data_of

FOLDER: Final = "faults"


class FaultState(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of `faults.toml`."""

    name: str
    seen: str  # releases in which the fault was observed
    upstream: str
    condition: str
    effect: str
    workaround: str
    environment: Mapping[str, str] = field(default_factory=dict)
    patch: bool = False
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Probed:
    """Results of the probes of one image."""

    digest: str = ""  # digest of the image; "" if no image was probed
    states: Mapping[str, FaultState] = field(default_factory=dict)

    def state(self, name: str) -> FaultState:
        return self.states.get(name, FaultState.UNKNOWN)

    def absent(self) -> frozenset[str]:
        return frozenset(name for name in faults() if self.state(name) is FaultState.ABSENT)


NOT_PROBED: Final = Probed()


@cache
def faults() -> Mapping[str, Fault]:
    rows = data_of("gdal_mcp.toolboxes.gdal", "faults.toml")["fault"]
    return MappingProxyType({name: Fault(name, **row) for name, row in rows.items()})


def workarounds(probed: Probed) -> dict[str, str]:
    """Environment variables that work around faults in the containers of the probed image."""
    absent = probed.absent()
    rows = (fault.environment for fault in faults().values() if fault.name not in absent)
    return {name: value for row in rows for name, value in row.items()}


def states_of(answer: Any) -> dict[str, FaultState]:
    """The results from the parsed output of the probe program: true is present, false is absent, all else unknown."""
    results = answer if isinstance(answer, dict) else {}
    known = {True: FaultState.PRESENT, False: FaultState.ABSENT}
    return {
        name: known[results[name]]
        for name, fault in faults().items()
        if fault.probe and isinstance(results.get(name), bool)
    }


@cache
def probe_program() -> str:
    return files("gdal_mcp.toolboxes.gdal.inside").joinpath("fault_probes.py").read_text(encoding="utf-8")


def load_probed(state_dir: Path, digest: str) -> Probed:
    """The results for the image with this digest. All faults are unknown if the file cannot be read."""
    try:
        stored = json.loads(_place(state_dir, digest).read_text(encoding="utf-8"))
        states = {name: FaultState(stored[name]) for name in faults() if name in stored}
    except (OSError, ValueError, TypeError):
        return Probed()
    return Probed(digest, states)


def save_probed(state_dir: Path, probed: Probed) -> None:
    """Stores the results for an image. Raises OSError."""
    text = json.dumps({name: state.value for name, state in probed.states.items()})
    put_private(_place(state_dir, probed.digest), text.encode())


@cache
def _place(state_dir: Path, digest: str) -> Path:
    key = f"{digest}\n{probe_program()}".encode()
    return state_dir / FOLDER / hashlib.sha256(key).hexdigest()
