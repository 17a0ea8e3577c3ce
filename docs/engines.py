"""The engines that the conformance suite is run over, and what each is exempt from."""

from collections.abc import Iterator
from itertools import groupby

from docs.page import table
from sandbox.conformance.known import KNOWN
from sandbox.conformance.suite import CHECKS


def tried() -> Iterator[str]:
    rows = (
        (one.name, one.tried, f"{len(CHECKS) - len(one.exemptions)} of {len(CHECKS)}", one.outcome)
        for one in KNOWN
    )
    yield from table(("engine", "tried with", "checks passed", "so"), rows)


def exemptions() -> Iterator[str]:
    """One row for each reason, with all the checks that it is for."""
    rows = []
    for engine in KNOWN:
        for reason, group in groupby(engine.exemptions, key=lambda one: one.reason):
            rows.append((engine.name, " ".join(f"`{one.check}`" for one in group), reason))
    yield from table(("engine", "checks", "why not"), rows)


def checks() -> Iterator[str]:
    yield from table(("check", "an engine"), ((f"`{one.id}`", one.sentence) for one in CHECKS))
