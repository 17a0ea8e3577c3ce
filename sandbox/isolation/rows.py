"""The properties that are checked in a container, and the rules that judge them; each rule produces rows. Pure.

Three users select from the rules. A slot judges its worker's measurements before it gets a job (`measured.FACTS`).
The attestation of a host adds the limits in force and the attempts of a probe container. The escape test and the
conformance suite add everything that the probe tries (`sandbox/escape/rules.py`).

Invariants:
* Malformed or missing evidence produces a failed row, never an exception.
* An attempt that succeeded fails its row, and so does a group of attempts that is missing or empty.
* Something that a container shows and cannot hide is a note.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from sandbox.template import SandboxTemplate

Verdict = Literal["held", "failed", "warning", "note", "n/a"]
_MALFORMED: Final = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, OSError)


@dataclass(frozen=True, slots=True)
class Row:
    """One judged property. `cis` lists the checks of the CIS benchmark that use it as evidence."""

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
    """Identifies a folder. `names` is the SHA-256 of the names in it."""

    device: int
    inode: int
    names: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements of one container, and the server's own view of the same facts."""

    template: SandboxTemplate
    facts: Mapping[str, Any] = field(default_factory=dict)  # measured by the worker before any job
    look: Mapping[str, Any] = field(default_factory=dict)  # findings of the probe, by section
    # file in the container -> the nonce that the server wrote to it
    nonces: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, ProbedFolder] = field(
        default_factory=dict
    )  # folder in the container -> the same folder as the server sees it
    # the folders whose device and inode numbers may differ between mounts
    shares: frozenset[str] = frozenset()
    boot: str = ""  # boot id of the engine's kernel, if its device and inode numbers are valid here
    security_options: tuple[str, ...] = ()  # security options of the engine, such as name=apparmor
    namespaces: Mapping[str, str] = field(default_factory=dict)  # namespaces of the server's own process
    limits_by_node: bool = False  # True for a Pod: what its node decides is judged by effect
    gone: bool = True  # True if the engine removed the container after its job


class Judgement(NamedTuple):
    """The result of one rule.

    Rules that produce several rows give each its own name, and its own numbers if they differ.
    """

    asked: str
    found: str
    verdict: Verdict
    name: str = ""
    cis: str = ""


Judge = Callable[[Evidence], Iterable[Judgement]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One property of a container: its group, name, judge and numbers in the CIS benchmark."""

    group: str
    name: str
    judge: Judge
    cis: str = ""


def judged(rules: Iterable[Rule], evidence: Evidence) -> tuple[Row, ...]:
    """The rows of all rules; a rule may produce several."""
    rows: list[Row] = []
    for rule in rules:
        try:
            judgements = list(rule.judge(evidence))
        except _MALFORMED as error:
            judgements = [Judgement("", f"malformed: {error!r}"[:200], "failed")]
        rows += [
            Row(rule.group, judgement.name or rule.name, *judgement[:3], judgement.cis or rule.cis)
            for judgement in judgements
        ]
    return tuple(rows)


def differs(name: str, requested: object, created: object) -> Row:
    """A failed row for a field in which the created container differs from the request."""
    return Row("read-back", name, repr(requested), repr(created), "failed")


def verdict(is_fulfilled: object) -> Verdict:
    return "held" if is_fulfilled else "failed"


def same(expected: object, observed: object, name: str = "", cis: str = "") -> Judgement:
    """Holds if both values have the same text."""
    return Judgement(str(expected), str(observed), verdict(str(expected) == str(observed)), name, cis)


def none(observed: Iterable[object], name: str = "", cis: str = "") -> Judgement:
    """Holds if nothing was found."""
    names = list(map(str, observed))
    return Judgement("none", few(names) or "none", verdict(not names), name, cis)


def note(observed: str, name: str = "") -> Judgement:
    """A note on something that a container shows and cannot hide."""
    return Judgement("", observed, "note", name)


def finds_nothing(sought: Callable[[Evidence], Iterable[object]]) -> Judge:
    """A judge that holds if the search finds nothing."""
    return lambda evidence: [none(sought(evidence))]


def few(names: list[str]) -> str:
    """The first eight names and the number of the others."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def failure_summary(rows: Iterable[Row]) -> str:
    """The first five failed rows, as text for a message."""
    failing = [row for row in rows if not row.ok][:5]
    return "; ".join(
        f"{row.name}: asked {row.asked or 'to be refused'}, found {row.found}" for row in failing
    )[:1000]
