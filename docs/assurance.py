"""The tables of docs/security.md: threats and gaps from the claims, CIS checks, and what peers and faults do.

`docs/peers.toml` says what happened to other servers, `docs/faults.toml` what a caller gets when something breaks; the tests of
both read the same rows.
"""

import tomllib
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from docs.claims import Claim, cited, manifest
from docs.page import ROOT, table
from docs.promises import sentences
from sandbox.isolation.cis import BENCHMARK, CHECKS
from sandbox.isolation.measured import FACTS, LIMITS_IN_FORCE
from sandbox.isolation.tried import ATTEMPTS, CALLS, SIGHT


def threats() -> Iterator[str]:
    """One table for each area, in the order of the manifest."""
    found = manifest()
    shown = (claim for claim in found.claims if not claim.gap)
    for area, claims in groupby(shown, key=lambda claim: claim.area):
        yield from ("", f"### {found.areas[area]}", "")
        yield from table(("threat", "target", "what holds", "how", "claim"), map(_threat, claims))


def _threat(claim: Claim) -> tuple[str, ...]:
    return (
        claim.threat,
        claim.target,
        claim.sentence,
        claim.mitigation,
        f'<a id="{claim.id}"></a>`{claim.id}`',
    )


def gaps() -> Iterator[str]:
    """What is wished for and not shown by a test, with the reason."""
    rows = (
        (claim.sentence, claim.gap, claim.mitigation, f'<a id="{claim.id}"></a>`{claim.id}`')
        for claim in manifest().claims
        if claim.gap
    )
    yield from table(("not shown", "why", "what there is instead", "claim"), rows)


def links() -> Iterator[str]:
    """Where the ids of docs/security.md lead."""
    for claim in manifest().claims:
        yield f"[{claim.id}]: #{claim.id}"


def front_links() -> Iterator[str]:
    """Where the ids of SECURITY.md lead."""
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for one in sorted(set().union(*(cited(sentence.text) for sentence in sentences(page)))):
        yield f"[{one}]: docs/security.md#{one}"


def cis() -> Iterator[str]:
    """Every check of section 5, those that do not apply included."""
    rules = (*ATTEMPTS.values(), CALLS, *SIGHT, *FACTS, *LIMITS_IN_FORCE)
    for_number = {
        check.number: [rule.name for rule in rules if check.number in rule.cis.split(", ")]
        for check in CHECKS
    }
    rows = ((one.number, one.title, one.how, ", ".join(for_number[one.number])) for one in CHECKS)
    yield from table((BENCHMARK, "check", "here", "judged by, among others"), rows)


def peers() -> Iterator[str]:
    rows = (
        (row["attack"], row["peers"], row["there"], row["here"], f"[{row['claim']}]")
        for row in _rows("peers.toml")
    )
    yield from table(("attack", "server", "what it did", "here", "claim"), rows)


def faults() -> Iterator[str]:
    rows = (
        (row["fault"], f"`{row['code']}`", str(row["seconds"]), row["left"]) for row in _rows("faults.toml")
    )
    yield from table(("fault", "the caller gets", "within seconds", "what is left"), rows)


def _rows(name: str) -> list[dict[str, Any]]:
    """The rows of the one table of a file beside this one."""
    (rows,) = tomllib.loads((ROOT / "docs" / name).read_text(encoding="utf-8")).values()
    return list(rows)
