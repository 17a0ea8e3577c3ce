"""Workflows in tests: a file of a repository, checked and run on the workspace of a client."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdal_mcp.calls.workflows.document import load
from gdal_mcp.testing.client import GdalMcpClient


@dataclass(frozen=True)
class WorkflowRunner:
    """Runs workflows by the calls of a client."""

    client: GdalMcpClient

    def check(self, workflow: Path | Mapping[str, Any], /, **parameters: Any) -> dict[str, Any]:
        """The result of a check: `state` is "fine", "wrong" or "unknown". Raises CallFailed for a document that is
        not valid.
        """
        return self.client.call("workflow_check", workflow=_document(workflow), parameters=parameters)

    def run(self, workflow: Path | Mapping[str, Any], /, **parameters: Any) -> dict[str, Any]:
        """The result of a run. Raises CallFailed."""
        return self.client.call("workflow_run", workflow=_document(workflow), parameters=parameters)


def _document(workflow: Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """The parsed file, which may be anywhere, also outside the workspace. Raises WorkflowInvalid, OSError."""
    if isinstance(workflow, Path):
        return load(workflow.read_bytes()).model_dump(mode="json", by_alias=True)
    return workflow
