"""The calls during which the tests kill servers; together they get to every point of a call's life that a test can
cause.
"""

import contextlib
import json
import re
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.mcp.pipes import Pipes
from tests.e2e.mcp.talk import Place

WIDTH, HEIGHT = 40, 30
# the values of the tags of its only directory
_ENTRIES = {256: WIDTH, 257: HEIGHT, 258: 8, 259: 1, 262: 1, 273: 122, 277: 1, 278: HEIGHT}
_ENTRIES |= {279: WIDTH * HEIGHT}


def tiff(seed: int) -> bytes:
    """A grey picture as a TIFF file, made without GDAL."""
    rows = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in _ENTRIES.items())
    pixels = bytes((number * seed) % 251 for number in range(WIDTH * HEIGHT))
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(_ENTRIES)) + rows + bytes(4) + pixels


OLD = tiff(7)
_GIVEN = re.compile(r"_[0-9a-f]{10}\.")


@dataclass(frozen=True)
class Scene:
    """One call, the contents of the workspace before it, and whether a person approves it."""

    name: str
    tool: str
    arguments: Mapping[str, Any]
    approval: str = "never"
    before: Mapping[str, bytes] = field(default_factory=dict)
    outcome: str = "OK"
    # a call without a container is only in the audit log, where no server records its end after a crash
    has_end: bool = True

    def prepare(self, place: Place) -> None:
        """Restores the workspace of the time before the call, and removes everything except files kept for undo."""
        for name in user_files(place):
            place.path(name).unlink()
        shutil.rmtree(place.path("outputs"), ignore_errors=True)
        for name, contents in {"in.tif": tiff(3), "broken.tif": b"II*\0" + bytes(60), **self.before}.items():
            place.path(name).write_bytes(contents)

    def call(self, pipes: Pipes) -> dict[str, Any] | None:
        """The structured result, after accepting what the server asked; None if the server died."""
        with contextlib.suppress(BrokenPipeError):
            return self.finish(pipes, self.begin(pipes))
        return None

    def begin(self, pipes: Pipes) -> int:
        """Sends the call and returns the id of its request."""
        return pipes.send("tools/call", {"name": self.tool, "arguments": dict(self.arguments)})

    @classmethod
    def finish(cls, pipes: Pipes, identifier: int) -> dict[str, Any] | None:
        while (message := pipes.receive()) is not None:
            if message.get("method") == "elicitation/create":
                cls.accept(pipes, message)
            elif message.get("id") == identifier and "method" not in message:
                result: dict[str, Any] = message["result"]["structuredContent"]
                return result
        return None

    @classmethod
    def say_yes(cls, pipes: Pipes) -> None:
        """Waits for the question and accepts."""
        cls.accept(pipes, pipes.until(lambda message: message.get("method") == "elicitation/create"))

    @staticmethod
    def accept(pipes: Pipes, question: Mapping[str, Any]) -> None:
        accepted = {"action": "accept", "content": {}}
        pipes.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": accepted}) + "\n")


def write(name: str, algorithm: str, before: Mapping[str, bytes], **arguments: Any) -> Scene:
    return Scene(name, "gdal_write", {"algorithm": algorithm, "arguments": arguments}, before=before)


WORLD = {"in.tfw": b"1\n0\n0\n-1\n0\n0\n"}
SCENES = (
    Scene("replaces", "convert", {"input": "in.tif", "output": "out.tif"}, before={"out.tif": OLD}),
    Scene("asks", "convert", {"input": "in.tif", "output": "asked.tif"}, "writes", {"asked.tif": OLD}),
    write("changes", "raster overview add", {"seen.tif": OLD}, input="seen.tif", levels=[2]),
    write("deletes", "dataset delete", {"gone.tif": OLD}, filename=["gone.tif"]),
    write("copies", "dataset copy", WORLD, source="in.tif", destination="copied.tif"),
    Scene("names its output itself", "gdal_translate", {"src_dataset": "in.tif"}),
    Scene("fails", "convert", {"input": "broken.tif", "output": "never.tif"}, outcome="GDAL_ERROR"),
    Scene("reads", "info", {"path": "in.tif"}),
    Scene("tells", "gdal_search", {"query": "hillshade"}, has_end=False),
)


def user_files(place: Place) -> dict[str, bytes]:
    """The user's files by name."""
    # a file may disappear while a server removes old ones
    tops = [path for path in place.workspace.iterdir() if path.name != ".gdal-mcp"]
    paths = [path for top in tops for path in (top, *top.rglob("*")) if path.is_file()]
    return {str(path.relative_to(place.workspace)): path.read_bytes() for path in paths}


def plain(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same files under names without the part that a server chooses for each call."""
    return {_GIVEN.sub(".", name): contents for name, contents in files.items()}


def outcome_of(result: Mapping[str, Any] | None) -> str:
    """OK, the code of an error, or an empty text if there was no answer."""
    if result is None:
        return ""
    return str(result["error"]["code"]) if "error" in result else "OK"
