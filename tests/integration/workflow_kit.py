"""The workflow examples with their data: a workspace, a server, the command line, and comparisons."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from mcp import StdioServerParameters

from gdal_mcp.calls.workflows.document import bind, load
from gdal_mcp.testing.client import GdalMcpClient, connected
from sandbox.labels import CALL

EXAMPLES = Path(__file__).parents[2] / "examples" / "workflows"
PASSED_ON = ("KUBECONFIG", "DOCKER_HOST", "PATH", "HOME")


def make_ground(tmp_path: Path) -> Path:
    """A workspace with the data of the examples."""
    folder = tmp_path / "maps"
    subprocess.run([sys.executable, EXAMPLES / "make_data.py", folder], check=True)
    shutil.copytree(
        EXAMPLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    (folder / "single").mkdir()
    tmp_path.chmod(0o755)  # contains the settings files
    for path in (folder, *folder.iterdir()):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return folder


def options(ground: Path) -> list[str]:
    return ["--workspace", str(ground), "--state-dir", str(ground.parent / "state")]


def environment() -> dict[str, str]:
    """The variables that a server needs to reach the engine that the tests use."""
    return {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("GDAL_MCP_")
    }


@contextmanager
def serving(ground: Path, *more: str) -> Iterator[GdalMcpClient]:
    words = ["-m", "gdal_mcp", "serve", *options(ground), *more]
    with connected(StdioServerParameters(command=sys.executable, args=words, env=environment())) as client:
        yield client


def files(ground: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(ground)): path.read_bytes()
        for path in ground.rglob("*")
        if path.is_file() and ".gdal-mcp" not in path.parts
    }


def program(ground: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gdal_mcp", *words, *options(ground)],
        capture_output=True,
        text=True,
        check=False,
    )


def events(state: Path, kind: str, tool: str) -> list[dict[str, Any]]:
    log = state / "audit.jsonl"
    rows = [json.loads(line)["event"] for line in log.read_text().splitlines()] if log.exists() else []
    return [event for event in rows if event["type"] == kind and event.get("tool") == tool]


def containers(call_id: str) -> list[str]:
    command = ["docker", "ps", "-a", "-q", "--filter", f"label={CALL}={call_id}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def by_single_calls(client: GdalMcpClient, name: str) -> dict[str, str]:
    """The path of each output of a workflow if its steps are made one by one."""
    workflow, outputs = bind(load((EXAMPLES / f"{name}.yaml").read_text()), {}), {}
    for step, declared in workflow.steps.items():
        arguments = workflow.arguments(step, outputs)
        arguments["output"] = f"single/{arguments['output']}"
        result = client.call(declared.tool, **arguments)
        outputs[step] = (result["output"],)
    return {target: outputs[source.step][0] for source, target, _ in workflow.published}


def mistaken(name: str, step: str, **arguments: Any) -> dict[str, Any]:
    document = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    next(entry for entry in document["steps"] if entry["id"] == step)["arguments"].update(arguments)
    return document
