"""Errors that callers see: a code, the stage of the failure, what happened and what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from gdal_mcp.invoked import cite


class Code(StrEnum):
    """The reasons why a call can fail; part of the public interface."""

    PATH_NOT_ALLOWED = "PATH_NOT_ALLOWED"
    NOT_FOUND = "NOT_FOUND"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    FORMAT_UNAVAILABLE = "FORMAT_UNAVAILABLE"
    NETWORK_BLOCKED = "NETWORK_BLOCKED"
    DENIED = "DENIED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    RATE_LIMITED = "RATE_LIMITED"
    BUSY = "BUSY"
    TIMEOUT = "TIMEOUT"
    MEMORY_LIMIT = "MEMORY_LIMIT"
    DISK_LIMIT = "DISK_LIMIT"
    OUTPUT_LIMIT = "OUTPUT_LIMIT"
    GDAL_ERROR = "GDAL_ERROR"
    TOOL_ERROR = "TOOL_ERROR"  # like GDAL_ERROR, for another toolbox
    REMOTE_ERROR = "REMOTE_ERROR"  # a remote source did not return the requested data
    OUTPUT_REJECTED = "OUTPUT_REJECTED"
    ENGINE_UNAVAILABLE = "ENGINE_UNAVAILABLE"
    CANCELLED = "CANCELLED"
    INTERNAL = "INTERNAL"


class Stage(StrEnum):
    LOOKUP = "lookup"
    VALIDATE = "validate"
    RESOLVE = "resolve"
    POLICY = "policy"
    APPROVAL = "approval"
    QUEUE = "queue"
    AUDIT = "audit"
    RUN = "run"
    PUBLISH = "publish"
    RENDER = "render"


# neither frozen nor compared: contextlib sets attributes of an exception that passes through it
@dataclass(eq=False)
class ToolError(Exception):
    """A failed call. `message` and `suggestion` are our own text; `untrusted` has cleaned text from GDAL or a file.

    `retry_after` is an estimate in seconds of when the same call may be accepted. `confirmation` is the question that
    a person must answer before the same call can run.
    """

    code: Code
    stage: Stage
    message: str
    suggestion: str = ""
    untrusted: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None
    check: Mapping[str, Any] | None = None  # the check that refused the call: code, numbers, suggested_call
    confirmation: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def changed(self, **changes: Any) -> "ToolError":
        """A copy in which these fields are changed. A plain ToolError, because subclasses have other parameters."""
        values = {row.name: getattr(self, row.name) for row in fields(ToolError)}
        return ToolError(**{**values, **changes})

    def as_dict(self, call_id: str) -> dict[str, Any]:
        error: dict[str, Any] = {
            "code": str(self.code),
            "stage": str(self.stage),
            "message": cite(self.message),
            "suggestion": cite(self.suggestion),
            "call_id": call_id,
        }
        if self.retry_after is not None:
            error["retry_after_seconds"] = self.retry_after
        if self.check is not None:
            error["check"] = {key: value for key, value in self.check.items() if value != error.get(key)}
        if self.confirmation is not None:
            error["requiresConfirmation"] = dict(self.confirmation)
        if self.untrusted:
            error["untrusted"] = dict(self.untrusted)
        return {"error": error}
