"""The arguments of `workflow_check` and `workflow_run`. Pure."""

from typing import Any

from pydantic import Field

from gdal_mcp.toolboxes.base import Arguments


class CheckArguments(Arguments):
    workflow: dict[str, Any] | str = Field(description="Document, or its path")
    parameters: dict[str, str | float | bool] | None = None


class RunWorkflowArguments(CheckArguments):
    fresh: bool = Field(default=False, description="Run every step again")
    manifest: str | None = Field(None, description="File for the record, as JSON", max_length=1000)
