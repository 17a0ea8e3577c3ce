"""What GDAL's tools may look at while they draft a call."""

from collections.abc import Callable
from dataclasses import dataclass

from gdal_mcp.access.policy import Policy, Verdict, case, decide
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.datasets.paths import Paths
from gdal_mcp.gdal.preflight.service import Preflight
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings
from gdal_mcp.toolbox import Permits


def by_default(tool: str, draft: Draft) -> Verdict:
    """What a server without a policy file and with no settings says of a draft."""
    return decide(case(draft, tool, ""), Policy())


@dataclass(frozen=True)
class DraftContext:
    """Where paths lead, what GDAL has, what this server permits, and what the policy says of a draft for this caller."""

    paths: Paths
    settings: Settings
    surface: Permits
    preflight: Preflight
    catalogue: Catalogue
    verdict: Callable[[str, Draft], Verdict] = by_default

    @property
    def threads(self) -> int:
        return self.paths.threads

    def permits(self, algorithm: str) -> bool:
        """Whether this server was not started without it."""
        return self.surface.permits(algorithm)
