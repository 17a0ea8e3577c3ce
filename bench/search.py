"""How well and how fast plain questions find their algorithm: `python -m bench.search`. Prints Markdown."""

import statistics
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gdal_mcp.gdal.catalogue.load import catalogue, packaged
from gdal_mcp.gdal.discovery.search import Hit, index, search

QUESTIONS = Path(__file__).parent.parent / "tests" / "data" / "questions.toml"
ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """One question with its hits and the median of its durations in milliseconds."""

    question: str
    expected: tuple[str, ...]
    hits: tuple[Hit, ...]
    milliseconds: float

    @property
    def rank(self) -> int | None:
        """The place of the first expected algorithm, from 1."""
        return next((place for place, hit in enumerate(self.hits, 1) if hit.path in self.expected), None)

    def within(self, places: int) -> bool:
        return self.rank is not None and self.rank <= places


def main() -> int:
    catalogue()
    begun = time.perf_counter()
    index(packaged(), ())
    built = (time.perf_counter() - begun) * 1000
    groups = {
        name: list(ask(entries)) for name, entries in tomllib.loads(QUESTIONS.read_text("utf-8")).items()
    }
    print("| questions | first | in the first three | in the first ten | of |")
    print("| --- | --- | --- | --- | --- |")
    for name, asked in groups.items():
        counts = [sum(one.within(places) for one in asked) for places in (1, 3, 10)]
        print(f"| {name} | {counts[0]} | {counts[1]} | {counts[2]} | {len(asked)} |")
    times = [one.milliseconds for asked in groups.values() for one in asked]
    print(
        f"\nIndex: {built:.0f} ms. A question: median {statistics.median(times):.2f} ms, slowest {max(times):.2f} ms."
    )
    for asked in groups.values():
        print(
            "".join(f"\n* missed: {one.question} ({_top(one)})" for one in asked if not one.within(3)), end=""
        )
    print()
    return 0


def ask(entries: list[dict[str, list[str] | str]]) -> Iterator[Asked]:
    for entry in entries:
        question = str(entry["ask"])
        times = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            hits = search(packaged(), question, 10)
            times.append((time.perf_counter() - begun) * 1000)
        yield Asked(question, tuple(entry["expected"]), hits, statistics.median(times))


def _top(asked: Asked) -> str:
    return ", ".join(hit.path for hit in asked.hits[:3]) or "nothing"


if __name__ == "__main__":
    sys.exit(main())
