"""A server that itself runs in a container: its engine is told the host's names of folders, and the map is proven.

Proven before anything runs, by one container that mounts every workspace and every staging place through the map: in
each staging place it must find the nonce that the server has just put there, and each workspace must be, by device and
inode, the folder that the server sees. A map that is wrong in one pair refuses the whole.
"""

import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import PurePosixPath

from sandbox.attestation import prove_folders
from sandbox.errors import AttestationFailed, EngineUnavailable
from sandbox.isolation.rows import Row, told
from sandbox.outputs.store import OutputStore
from sandbox.runner import Runner
from sandbox.template import SandboxTemplate
from sandbox.waiting import Cancellation


def prove(
    runner: Runner, template: SandboxTemplate, areas: Sequence[OutputStore], cancel: Cancellation
) -> tuple[Row, ...]:
    """That containers like `template`, and those with staging in one of `areas`, see the server's own folders.

    Raises AttestationFailed, which names the folder and what to set.
    """
    with ExitStack() as stack:
        mounts, places = list(template.mounts), {}
        for number, area in enumerate(areas):
            staged = stack.enter_context(area.open(f"mapped-{secrets.token_hex(4)}", template.user))
            target = PurePosixPath(f"/staging-{number}")
            mounts.append(replace(staged.mount, target=target))
            places[target] = staged.path
        try:
            found = prove_folders(runner, replace(template, mounts=tuple(mounts)), places, cancel)
        except EngineUnavailable as error:
            raise AttestationFailed(
                f"{error} If it is a folder that the engine does not find, correct path_map: INSIDE:HOST, with the folder as "
                "this server sees it and as the engine's host does."
            ) from error

    def named(name: str) -> str:
        """By the folder that this server sees, not by the place in the container that looked."""
        target, _, rest = name.partition(" ")
        return f"{places.get(PurePosixPath(target), target)} {rest}, through the path map"

    rows = tuple(replace(row, group="path map", name=named(row.name)) for row in found)
    if wrong := told(rows):
        raise AttestationFailed(
            f"containers do not see this server's folders, so no call is run: {wrong}. Set path_map to pairs INSIDE:HOST, "
            "with each folder as this server sees it and as the engine's host does."
        )
    return rows
