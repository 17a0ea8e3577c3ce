"""The sender of a call, and its permissions. Pure.

Every principal is identified by one text, which is the same in approvals, records, tasks and resources: `local:USER`
of the operating system, `token:NAME` of a static token, `oauth:ISSUER#SUBJECT` of a signed token.
"""

from dataclasses import dataclass
from typing import Final

READ: Final = "gdal:read"  # calls that only read, and their results
WRITE: Final = "gdal:write"  # calls that write, after approval
APPROVE: Final = "gdal:approve"  # approving calls, also those of other principals
ADMIN: Final = "gdal:admin"  # records, figures and grants of everybody
METRICS: Final = "gdal:metrics"  # the figures for monitoring only
SCOPES: Final = (READ, WRITE, APPROVE, ADMIN, METRICS)


@dataclass(frozen=True, slots=True)
class Principal:
    """An identified caller."""

    id: str
    scopes: frozenset[str] = frozenset()

    def holds(self, scope: str) -> bool:
        return scope in self.scopes


def local(user: str) -> Principal:
    """The user of a local server, who has every permission."""
    return Principal(f"local:{user}", frozenset(SCOPES))
