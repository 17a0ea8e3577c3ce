"""Parts of the demonstration: its folders, a connected client, and checks that stop it at the first unexpected result."""

import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp import Client
from mcp.client import ClientRequestContext

CLIENT_INFO = t.Implementation(name="demo", version="1")


class Surprise(Exception):
    """A result is not as expected."""


def expect(condition: object, what: str) -> None:
    """Raises Surprise unless `condition` is true."""
    if not condition:
        raise Surprise(what)


def step(title: str) -> None:
    print(f"\n== {title}")


def say(text: str) -> None:
    print(textwrap.indent(text, "   "))


@dataclass(slots=True)
class Demo:
    """One session: the folders, the person's next answer, and the calls so far."""

    folder: Path
    says_yes: bool = True
    questions: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def log(self) -> Path:
        """The server's log, which is shown after an error."""
        return self.folder / "server.log"

    def options(self) -> list[str]:
        return ["--workspace", str(self.workspace), "--state-dir", str(self.folder / "state")]

    async def ask(self, context: ClientRequestContext, params: t.ElicitRequestParams) -> t.ElicitResult:
        """The client's handler of a question: shows it to the person, who is this script."""
        del context
        lines = [line for line in params.message.splitlines() if line]
        shown = lines if not self.questions else [*lines[:3], "..."]  # all of them look alike
        self.questions.append(params.message)
        say("The client's user is asked:\n" + textwrap.indent("\n".join(shown), "| "))
        say(f"The user answers: {'yes' if self.says_yes else 'no'}")
        return (
            t.ElicitResult(action="accept", content={}) if self.says_yes else t.ElicitResult(action="decline")
        )

    def program(self, *words: str) -> str:
        """The output of `gdal-mcp`, run beside the server."""
        done = subprocess.run(  # noqa: S603 - our own program and words
            [sys.executable, "-m", "gdal_mcp", *words], capture_output=True, text=True, check=False
        )
        expect(done.returncode == 0, f"`gdal-mcp {words[0]}` failed: {done.stdout}{done.stderr}")
        return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class Session:
    """A connected client."""

    demo: Demo
    client: Client

    async def call(self, tool: str, /, **arguments: Any) -> Mapping[str, Any]:
        """The result of a call that must succeed."""
        result = await self._send(tool, arguments)
        expect(not result.is_error, f"{tool} failed: {result.structured_content}")
        answer = dict(result.structured_content or {})
        self.demo.calls.append(answer["receipt"]["call_id"])
        return answer

    async def expect_refusal(self, code: str, tool: str, /, **arguments: Any) -> str:
        """Makes a call that must fail with this code. Returns everything that the client received."""
        result = await self._send(tool, arguments)
        error = dict(result.structured_content or {}).get("error", {})
        expect(result.is_error and error.get("code") == code, f"{tool} should end with {code}: {error}")
        self.demo.calls.append(error["call_id"])
        lines = error.get("untrusted", {}).get("gdal", [])
        say(
            "\n".join(
                [f"{code} ({error['stage']}): {error['message']}", error["suggestion"], *dict.fromkeys(lines)]
            )
        )
        return result.model_dump_json()

    async def picture(self, tool: str, /, **arguments: Any) -> t.ImageContent:
        """The picture of a call that must succeed and have one."""
        result = await self._send(tool, arguments)
        expect(not result.is_error, f"{tool} failed: {result.structured_content}")
        pictures = [part for part in result.content if isinstance(part, t.ImageContent)]
        expect(len(pictures) == 1, f"{tool} shows {len(pictures)} pictures")
        self.demo.calls.append(dict(result.structured_content or {})["receipt"]["call_id"])
        return pictures[0]

    async def answer(self, tool: str, /, **arguments: Any) -> Mapping[str, Any]:
        """The answer of a tool that needs no container."""
        result = await self._send(tool, arguments)
        expect(not result.is_error, f"{tool} failed: {result.structured_content}")
        return dict(result.structured_content or {})

    async def record(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """The contents of the resource of the answered call."""
        uri = f"gdal://calls/{answer['receipt']['call_id']}"
        content = (await self.client.read_resource(uri)).contents[0]
        if not isinstance(content, t.TextResourceContents):
            raise Surprise(f"{uri} is not text")
        read: Mapping[str, Any] = json.loads(content.text)
        return read

    async def _send(self, tool: str, arguments: dict[str, Any]) -> t.CallToolResult:
        say(f"{tool} {json.dumps(arguments)}")
        return await self.client.call_tool(tool, arguments)


@contextmanager
def temporary(*, keep: bool) -> Iterator[Demo]:
    demo = Demo(Path(tempfile.mkdtemp(prefix="gdal-mcp-demo-")))
    demo.workspace.mkdir()
    try:
        yield demo
    finally:
        if keep:
            print(f"\nkept: {demo.folder}")
        else:
            shutil.rmtree(demo.folder, ignore_errors=True)
