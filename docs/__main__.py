"""Fills the generated parts of the documentation from the code and from the tables beside it.

A part is between `<!-- generated: NAME -->` and `<!-- end -->`. `--check` writes nothing and exits with 1 if a part
differs from the code. The text is the same on every host and with every Python version, so a check never fails
because of the machine.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.promises import ROOT, Drift
from docs.tables import PARTS, Parts

END = "<!-- end -->"
_BEGIN = re.compile(r"<!-- generated: (.*?) -->")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs", description="Writes the generated parts of the documentation."
    )
    text = "write nothing; exit with 1 when a part is out of date"
    parser.add_argument("--check", action="store_true", help=text)
    check = parser.parse_args(arguments).check
    try:
        new = {page: filled(page.read_text(encoding="utf-8"), PARTS) for page in pages(root)}
    except Drift as drift:
        sys.stderr.write(f"{drift}\n")
        return 1
    stale = [page for page, text in new.items() if text != page.read_text(encoding="utf-8")]
    for page in stale:
        if not check:
            page.write_text(new[page], encoding="utf-8")
        done = "out of date; run `make docs`" if check else "written"
        sys.stdout.write(f"{page.relative_to(root)}: {done}\n")
    return 1 if check and stale else 0


def filled(text: str, parts: Parts) -> str:
    """The text with every generated part updated. Raises Drift for a part that is unknown or has no end."""
    pieces, position = [], 0
    while match := _BEGIN.search(text, position):
        name, end = match[1], text.find(END, match.end())
        following = _BEGIN.search(text, match.end())
        if name not in parts:
            raise Drift(f"there is no generated part {name!r}; there are {', '.join(sorted(parts))}")
        if end < 0 or (following and following.start() < end):
            raise Drift(f"the generated part {name!r} has no {END}")
        pieces += [text[position : match.end()], "\n", *(f"{line}\n" for line in parts[name]()), END]
        position = end + len(END)
    return "".join([*pieces, text[position:]])


def pages(root: Path = ROOT) -> list[Path]:
    """The pages that may have generated parts."""
    named = [root / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "llms-install.md")]
    return [page for page in named if page.exists()] + sorted((root / "docs").rglob("*.md"))


if __name__ == "__main__":
    sys.exit(main())
