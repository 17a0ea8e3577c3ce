"""What was measured, as values and as Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_DIGITS = {"x": 3, "": 0, "ms": 0}  # after the point, by unit; the goals of ratios are as fine as 0.07
BEGIN, END = "<!-- measured: results -->", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that may not be above its limit, or not below it. `reason` says where the time goes when it is.

    `found` is None when it could not be measured, which the reason explains.
    """

    what: str
    limit: float
    found: float | None
    unit: str = "x"
    reason: str = ""
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        if self.found is None:
            return False
        return self.found >= self.limit if self.at_least else self.found <= self.limit

    def row(self) -> tuple[str, ...]:
        bound = f"at {'least' if self.at_least else 'most'} {self.limit:g} {self.unit}".strip()
        if self.found is None:
            return self.what, bound, "", f"not measured: {self.reason}"
        verdict = "met" if self.is_met else f"missed: {self.reason}" if self.reason else "missed"
        return self.what, bound, f"{self.found:.{_DIGITS.get(self.unit, 2)}f} {self.unit}".strip(), verdict


@dataclass(frozen=True, slots=True)
class Section:
    """One table with a sentence before it."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal] = field(default=())

    def markdown(self) -> str:
        return f"### {self.title}\n\n{self.note}\n\n{table(self.header, self.rows)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def document(machine: Section, sections: Sequence[Section]) -> str:
    """Everything of one run."""
    goals = [goal.row() for section in sections for goal in section.goals]
    summary = Section("Goals", "Limits and what was found.", ("what", "goal", "found", ""), goals)
    return "\n".join(section.markdown() for section in (machine, summary, *sections))


def write(path: Path, text: str) -> None:
    """Puts the text between the marks of the file. Raises ValueError when they are not there."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no region between {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def milliseconds(seconds: float) -> str:
    return (
        f"{seconds * 1000:.0f}" if seconds >= 0.01 else f"{seconds * 1000:.1f}"
    )  # below that, tenths matter
