"""Who sends a call, and what that one may do. Pure.

Every principal is known by one text, which is the same in approvals, records, tasks and resources: `local:USER` of the
operating system, `token:NAME` of a static token, `oauth:ISSUER#SUBJECT` of a signed one.
"""

from dataclasses import dataclass
from typing import Final

READ: Final = "gdal:read"  # calls that only read, and their results
WRITE: Final = "gdal:write"  # calls that write, once they are approved
APPROVE: Final = "gdal:approve"  # to be that person, for the calls of others too
ADMIN: Final = "gdal:admin"  # everybody's records, figures and grants
METRICS: Final = "gdal:metrics"  # the figures that monitoring collects, and nothing else
SCOPES: Final = (READ, WRITE, APPROVE, ADMIN, METRICS)


@dataclass(frozen=True, slots=True)
class Principal:
    """An identified caller."""

    id: str
    scopes: frozenset[str] = frozenset()

    def holds(self, scope: str) -> bool:
        return scope in self.scopes


def local(user: str) -> Principal:
    """Who uses the server on a machine of one's own: everything that the server may do, this user may ask for."""
    return Principal(f"local:{user}", frozenset(SCOPES))
