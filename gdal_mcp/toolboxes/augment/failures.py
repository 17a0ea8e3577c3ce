"""Failures with the specification's error codes, stages and severities, in addition to the product's own. Pure."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from gdal_mcp.errors import Code, Stage, ToolError

_CODES: Final[Mapping[Code, str]] = {
    Code.INVALID_ARGUMENT: "PARSE_ERROR",
    Code.NOT_FOUND: "INVALID_IMAGE",
    Code.FORMAT_UNAVAILABLE: "INVALID_IMAGE",
    Code.REMOTE_ERROR: "INVALID_IMAGE",
    Code.PATH_NOT_ALLOWED: "PERMISSION_DENIED",
    Code.NETWORK_BLOCKED: "PERMISSION_DENIED",
    Code.DENIED: "PERMISSION_DENIED",
    Code.APPROVAL_EXPIRED: "PERMISSION_DENIED",
    Code.RATE_LIMITED: "RATE_LIMITED",
    Code.BUSY: "RATE_LIMITED",
    Code.TIMEOUT: "TIMEOUT",
}
_STAGES: Final[Mapping[str, str]] = {"PARSE_ERROR": "parsing", "INVALID_IMAGE": "pre_transform", "PERMISSION_DENIED": "pre_mcp", "RATE_LIMITED": "pre_mcp"}  # fmt: skip


def refusal(code: Literal["PARSE_ERROR", "INVALID_IMAGE"], message: str, suggestion: str) -> ToolError:
    """A failure that has no error code of the product."""
    return ToolError(Code.INVALID_ARGUMENT, Stage.VALIDATE, message, suggestion, check={"code": code})


def details(error: ToolError) -> Mapping[str, Any]:
    """`error_details` of the specification. All text in it is the server's."""
    code = str((error.check or {}).get("code") or _CODES.get(error.code, "TRANSFORM_FAILED"))
    critical = error.code in (Code.INTERNAL, Code.ENGINE_UNAVAILABLE)
    return {
        "error_details": {
            "error_code": code,
            "stage": _STAGES.get(code, "image_processing"),
            "message": error.message,
            "severity": "critical" if critical else "error",
            "recoverable": not critical and code != "PERMISSION_DENIED",
            "suggestions": [error.suggestion] if error.suggestion else [],
        }
    }
