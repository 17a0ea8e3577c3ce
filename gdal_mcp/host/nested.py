"""A server that itself runs in a container: its engine is told the host's names of folders, and the map is proven.

Proven before anything runs, by one container that mounts every workspace and every staging place through the map: in
each staging place it must find the nonce that the server has just put there, and each workspace must be, by device and
inode, the folder that the server sees. A map that is wrong in one pair refuses the whole.
"""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from sandbox.errors import AttestationFailed, EngineUnavailable
from sandbox.isolation.attest import Row
from sandbox.outputs.staging import Staging, StagingArea
from sandbox.program import delivered, source, worker_command
from sandbox.runner import Job, Runner
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation

_NONCE_FILE = "path-map"


def prove(
    runner: Runner, template: SandboxTemplate, areas: Sequence[StagingArea], cancel: Cancellation
) -> tuple[Row, ...]:
    """That containers like `template`, and those with staging in one of `areas`, see the server's own folders.

    Raises AttestationFailed, which names the folder and what to set.
    """
    with ExitStack() as stack:
        staged = [
            stack.enter_context(area.open(f"mapped-{secrets.token_hex(4)}", template.user)) for area in areas
        ]
        asked = _asked(template, staged)
        final = _look(runner, asked, cancel)
        rows = tuple(_rows(asked, final))
    if wrong := [row for row in rows if not row.ok]:
        said = "; ".join(f"{row.name}: {row.found}" for row in wrong[:5])
        raise AttestationFailed(
            f"containers do not see this server's folders, so no call is run: {said}. Set path_map to pairs INSIDE:HOST, "
            "with each folder as this server sees it and as the engine's host does."
        )
    return rows


@dataclass(frozen=True, slots=True)
class _Asked:
    """A container to look from, and what it is to find."""

    template: SandboxTemplate
    nonces: Mapping[str, tuple[Path, str]]  # by the file inside: the staging place outside, and what it wrote


def _asked(template: SandboxTemplate, staged: Sequence[Staging]) -> _Asked:
    mounts, nonces = list(template.mounts), {}
    for number, staging in enumerate(staged):
        place, nonce = PurePosixPath(f"/staging-{number}"), secrets.token_hex(16)
        (staging.path / _NONCE_FILE).write_text(nonce, encoding="ascii")
        mounts.append(replace(staging.mount, target=place))
        nonces[str(place / _NONCE_FILE)] = (staging.path, nonce)
    sent = delivered(worker_command(source("gdal_mcp.gdal.inside", "nested_probe.py")))
    looking = replace(template, mounts=tuple(mounts), command=sent.command, program=sent.program)
    return _Asked(looking, nonces)


def _look(runner: Runner, asked: _Asked, cancel: Cancellation) -> Mapping[str, Any]:
    folders = [str(mount.target) for mount in asked.template.mounts if mount.read_only]
    request = {"folders": folders, "nonces": list(asked.nonces)}
    try:
        result = runner.run(Job(f"mapped-{secrets.token_hex(4)}", asked.template, request), cancel)
    except EngineUnavailable as error:
        raise AttestationFailed(
            f"{error} If it is a folder that the engine does not find, correct path_map: INSIDE:HOST, with the folder as "
            "this server sees it and as the engine's host does."
        ) from error
    if result.final is None:
        raise AttestationFailed(
            f"the container that looks at the mapped folders did not finish: {result.outcome}"
        )
    return result.final


def _rows(asked: _Asked, final: Mapping[str, Any]) -> Iterator[Row]:
    """Answers of another shape are rows that fail."""
    folders, nonces = _texts(final.get("folders")), _texts(final.get("nonces"))
    # another kernel, as gVisor is, gives numbers of its own; its folders are compared by their names
    comparable = final.get("kernel") == os.uname().release
    for mount in asked.template.mounts:
        if mount.read_only and comparable:
            yield _row(Path(mount.source.path), _identity(mount.source.path), folders.get(str(mount.target)))
    for inside, (place, nonce) in asked.nonces.items():
        yield _row(place, nonce, nonces.get(inside))


def _row(place: Path, asked: str, found: str | None) -> Row:
    same = found == asked
    return Row(
        f"{place} through the path map",
        "the same",
        "the same" if same else f"another ({found})"[:80],
        ok=same,
    )


def _texts(value: object) -> Mapping[str, str]:
    return {str(key): str(inner) for key, inner in value.items()} if isinstance(value, Mapping) else {}


def _identity(folder: str) -> str:
    """As `identity` in `gdal_mcp/gdal/inside/nested_probe.py`."""
    status = Path(folder).stat()
    return f"{status.st_dev}:{status.st_ino}"
