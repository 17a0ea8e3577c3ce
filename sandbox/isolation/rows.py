"""What is looked at in a container, and how it is judged: rules, each of which makes rows. Pure.

Three readers select from the rules. A slot compares what its worker measured before it gives it a job (`measured.FACTS`);
the attestation of a host adds the limits in force and what was tried in a probe container; the escape test and the conformance
suite add everything that the probe tries (`sandbox/escape/rules.py`).

Invariants: malformed or missing evidence makes a failing row, never an exception; an attempt that worked fails its row, and
so does a group of attempts that is missing or empty; what a container shows and cannot hide is a note.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from sandbox.template import SandboxTemplate

Verdict = Literal["held", "failed", "warning", "note", "n/a"]
_MALFORMED: Final = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, OSError)


@dataclass(frozen=True, slots=True)
class Row:
    """One judged property. `cis` names the checks of the CIS benchmark that it is evidence for."""

    group: str
    name: str
    asked: str
    found: str
    verdict: Verdict
    cis: str = ""

    @property
    def ok(self) -> bool:
        return self.verdict != "failed"


@dataclass(frozen=True, slots=True)
class ProbedFolder:
    """What tells one folder from another; `names` is the SHA-256 over the names in it."""

    device: int
    inode: int
    names: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements of one container, and the server's own view of the same facts."""

    template: SandboxTemplate
    facts: Mapping[str, Any] = field(default_factory=dict)  # what its worker measured before any job
    look: Mapping[str, Any] = field(default_factory=dict)  # what the probe found, by section
    nonces: Mapping[str, str] = field(default_factory=dict)  # file inside -> what the server wrote there
    folders: Mapping[str, ProbedFolder] = field(
        default_factory=dict
    )  # folder inside -> what the server sees there
    # of these folders, those whose numbers may differ from mount to mount
    shares: frozenset[str] = frozenset()
    boot: str = ""  # of the engine's kernel, if its device and inode numbers mean the same here
    security_options: tuple[str, ...] = ()  # of the engine, such as name=apparmor
    namespaces: Mapping[str, str] = field(default_factory=dict)  # of the server's own process
    limits_by_node: bool = False  # of a Pod its node decides some things: those are judged by effect
    gone: bool = True  # the engine does not know the container any more after its job


class Judgement(NamedTuple):
    """What one rule says. Rules that make several rows give each its name, and its numbers where they differ."""

    asked: str
    found: str
    verdict: Verdict
    name: str = ""
    cis: str = ""


Judge = Callable[[Evidence], Iterable[Judgement]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One property of a container: where it belongs, its name, how it is judged, and its numbers in the CIS benchmark."""

    group: str
    name: str
    judge: Judge
    cis: str = ""


def judged(rules: Iterable[Rule], evidence: Evidence) -> tuple[Row, ...]:
    """A row, or several, for each rule."""
    rows: list[Row] = []
    for rule in rules:
        try:
            found = list(rule.judge(evidence))
        except _MALFORMED as error:
            found = [Judgement("", f"malformed: {error!r}"[:200], "failed")]
        rows += [Row(rule.group, one.name or rule.name, *one[:3], one.cis or rule.cis) for one in found]
    return tuple(rows)


def differs(name: str, asked: object, made: object) -> Row:
    """A field that an engine made otherwise than asked."""
    return Row("read-back", name, repr(asked), repr(made), "failed")


def verdict(held: object) -> Verdict:
    return "held" if held else "failed"


def same(asked: object, found: object, name: str = "", cis: str = "") -> Judgement:
    """Held when both read the same."""
    return Judgement(str(asked), str(found), verdict(str(asked) == str(found)), name, cis)


def none(found: Iterable[object], name: str = "", cis: str = "") -> Judgement:
    """Held when nothing was found."""
    names = list(map(str, found))
    return Judgement("none", few(names) or "none", verdict(not names), name, cis)


def note(found: str, name: str = "") -> Judgement:
    """What a container shows and cannot hide."""
    return Judgement("", found, "note", name)


def nothing(sought: Callable[[Evidence], Iterable[object]]) -> Judge:
    """A judge that holds when nothing of what is sought is found."""
    return lambda evidence: [none(sought(evidence))]


def few(names: list[str]) -> str:
    """The first eight names; the rest are counted."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def failure_summary(rows: Iterable[Row]) -> str:
    """The rows that failed, for a message."""
    failing = [row for row in rows if not row.ok][:5]
    return "; ".join(
        f"{row.name}: asked {row.asked or 'to be refused'}, found {row.found}" for row in failing
    )[:1000]
