"""Fills the generated parts of the documentation from the code and from the tables beside it.

`--check` writes nothing and exits with 1 when a part is not what the code says now.

Invariants:
* the same text on every host and with every Python version, so that a check never fails for where it runs;
* what is listed is complete: a subject without its sentence, and a sentence without its subject, are errors.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from docs import assurance, container, engines, operation, surface
from docs.page import ROOT, Drift, Parts, filled, pages

PARTS: Parts = {
    "tools": surface.tools,
    "toolsets": surface.toolsets,
    "algorithms": surface.algorithms,
    "roles": surface.roles,
    "prompts": surface.prompt_rows,
    "settings": operation.settings,
    "errors": operation.errors,
    "cli": operation.commands,
    "hardening": container.hardening,
    "engines": engines.tried,
    "engine-exemptions": engines.exemptions,
    "engine-checks": engines.checks,
    "cis": assurance.cis,
    "threats": assurance.threats,
    "gaps": assurance.gaps,
    "peers": assurance.peers,
    "faults": assurance.faults,
    "claim-links": assurance.links,
    "claim-links-front": assurance.front_links,
}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs", description="Writes the generated parts of the documentation."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when a part is out of date"
    )
    check = parser.parse_args(arguments).check
    try:
        stale = {page: text for page in pages(root) if (text := _rewritten(page, root)) is not None}
    except Drift as drift:
        sys.stderr.write(f"{drift}\n")
        return 1
    for page, text in stale.items():
        if not check:
            page.write_text(text, encoding="utf-8")
        done = "out of date; run `make docs`" if check else "written"
        sys.stdout.write(f"{page.relative_to(root)}: {done}\n")
    return 1 if check and stale else 0


def _rewritten(page: Path, root: Path) -> str | None:
    """The page as it should be, or None where it is so already. Raises Drift."""
    old = page.read_text(encoding="utf-8")
    try:
        new = filled(old, PARTS)
    except Drift as drift:
        raise Drift(f"{page.relative_to(root)}: {drift}") from drift
    return new if new != old else None


if __name__ == "__main__":
    sys.exit(main())
