"""Tables of the container engines and of the checks that each of them passes."""

from itertools import groupby

from docs.tables.markdown import Lines, Parts, table
from sandbox.engines.discovery import endpoints
from tests.engines.checks import CHECKS
from tests.engines.known import KNOWN


def _engines() -> Lines:
    rows = (
        (
            engine.name,
            engine.tried,
            f"{len(CHECKS) - len(engine.exemptions)} of {len(CHECKS)}",
            engine.outcome,
        )
        for engine in KNOWN
    )
    yield from table(("engine", "tried with", "checks passed", "so"), rows)


def _sockets() -> Lines:
    """The sockets for a user whose id and home folder are written as variables."""
    known = endpoints(None, {"HOME": "~", "XDG_RUNTIME_DIR": "$XDG_RUNTIME_DIR"})
    return table(
        ("engine", "socket"),
        ((endpoint.origin, f"`{endpoint.address.removeprefix('unix://')}`") for endpoint in known),
    )


def _exemptions() -> Lines:
    """One row for each reason, with all the checks that it applies to."""
    rows = [
        (engine.name, " ".join(f"`{exemption.check}`" for exemption in group), reason)
        for engine in KNOWN
        for reason, group in groupby(engine.exemptions, key=lambda exemption: exemption.reason)
    ]
    yield from table(("engine", "checks", "why not"), rows)


def _checks() -> Lines:
    yield from table(
        ("check", "an engine"), ((f"`{name}`", check.__doc__ or "") for name, check in CHECKS.items())
    )


PARTS: Parts = {
    "engines": _engines,
    "sockets": _sockets,
    "engine-exemptions": _exemptions,
    "engine-checks": _checks,
}
