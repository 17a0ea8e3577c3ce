"""A running server for the adapters, over stdio, with one workspace into which the files of each probe are copied."""

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters

PROGRAM: Final = "ARGLETON_SERVER"  # the command that starts gdal-mcp, as a shell would read it
CALL_SECONDS: Final = 300.0


class Refused(Exception):
    """The server refused a call. The text is its message."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The structured result of a call that succeeded."""

    answer: Mapping[str, Any]

    @property
    def checks(self) -> Mapping[str, str]:
        """The server's checks of the result and of the written files, by code."""
        outputs = [output for output in self.answer.get("outputs", ()) if isinstance(output, dict)]
        rows = [*self.answer.get("checks", ()), *(row for output in outputs for row in output["checks"])]
        return {row["code"]: f"{row['message']} {row.get('suggestion', '')}" for row in rows}

    @property
    def report(self) -> Mapping[str, Any]:
        """Names and values that come from the files."""
        report: Mapping[str, Any] = self.answer["untrusted"]["report"]
        return report

    @property
    def value(self) -> Any:
        """The only value of a query's only row."""
        (row,) = self.report["rows"]
        (value,) = row.values()
        return value


class Session:
    """Calls of one server, which ends with `close`."""

    def __init__(self) -> None:
        self._ending = ExitStack()
        root = Path(self._ending.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        self._workspace = root / "workspace"
        for folder in (root, self._workspace):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)  # calls may run as another user
        self._portal = self._ending.enter_context(start_blocking_portal())
        self._client = Client(_server(root), read_timeout_seconds=CALL_SECONDS)
        self._ending.enter_context(self._portal.wrap_async_context_manager(self._client))

    def close(self) -> None:
        self._ending.close()

    def copied(self, files: Path) -> str:
        """Copies a probe's files into a new folder of the workspace. Returns the folder's name there."""
        folder = Path(tempfile.mkdtemp(dir=self._workspace))
        shutil.copytree(files, folder, dirs_exist_ok=True)
        folder.chmod(0o777)
        return folder.name

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        """Makes a call. Raises Refused if the call is wrong, RuntimeError for every other error."""
        result = self._portal.call(self._client.call_tool, tool, arguments)
        answer = result.structured_content or {}
        error = answer.get("error", {})
        if error.get("code") == "INVALID_ARGUMENT":
            raise Refused(f"{error['message']} {error.get('suggestion', '')}")
        if result.is_error:
            raise RuntimeError(f"{tool} failed: {error or result.content}")
        return Reply(answer)


def _server(root: Path) -> StdioServerParameters:
    command, *words = shlex.split(os.environ.get(PROGRAM, "gdal-mcp"))
    words += ["serve", "--workspace", str(root / "workspace"), "--state-dir", str(root / "state")]
    return StdioServerParameters(command=command, args=[*words, "--approval", "never"], env=dict(os.environ))
