"""The result of examining a draft before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gdal_mcp.toolboxes.gdal.answers.transformations import names, operation_rows
from gdal_mcp.toolboxes.gdal.preflight.call import Finding
from gdal_mcp.toolboxes.gdal.preflight.estimate import (
    Estimate,
    LimitViolation,
)


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The result of examining a draft."""

    estimate: Estimate | None = None
    violation: LimitViolation | None = None  # a limit that the call certainly exceeds
    findings: tuple[Finding, ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()  # changes of CRS, in the form of `answers.transformations`

    @property
    def refusals(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def facts(self) -> dict[str, Any]:
        """The operations that change the CRS, for the result."""
        rows = [row for change in self.changes for row in operation_rows(change)]
        return {"transformation": rows[0] if len(rows) == 1 else rows} if rows else {}

    @property
    def untrusted(self) -> dict[str, Any]:
        """The names of these operations, in the same order."""
        operations = [name for change in self.changes for name in names(change)]
        return {"transformation": operations} if operations else {}

    @property
    def figures(self) -> Mapping[str, int | None] | None:
        return self.estimate.figures if self.estimate is not None else None
