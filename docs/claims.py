"""The claims of the security documents: what is promised, which tests show it, and where that does not fit.

`docs/claims.toml` holds the claims. A test carries their ids: `@pytest.mark.claim("network.no-interface")`, or the same mark in its
module's `pytestmark`. Marks are read from the source, without running it, so an id stands there as plain text.

In the two security documents a section is a promise unless its heading is in EXPLAINED. In a promise every sentence, and every row
of a table that a person wrote, ends with the ids of its claims: `No container has a network [network.no-interface].`

`python -m docs.claims` prints what does not fit, `python -m docs.claims ID ...` the tests of those claims.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = "docs/claims.toml"
DOCUMENTS = ("SECURITY.md", "docs/security.md")

# Folders and files in which every test attacks or breaks something, so that each has to say which promise it holds up.
ATTACKING = (
    "tests/attacks/",
    "tests/escape/",
    "tests/faults/",
    "tests/scope/",
    "tests/mcp/test_lockdown.py",
)

ID = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")
_CITED = re.compile(rf"\[({ID.pattern})\](?!\()")  # a link to a page is no id
_PLACE = re.compile(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:py|toml|json))`")

# What is not promised: how to read the page, what it rests on, what it leaves out.
EXPLAINED = (
    "How to read this page",
    "Report",
    "Supported versions",
    "In scope",
    "Out of scope",
    "More",
    "What this rests on",
    "What a file can still do to a model",
    "What a yes cannot mean",
    "Limits",
    "Reports in scope",
    "Reports out of scope",
)

_IDS_AT_END = re.compile(rf"(\s\[{ID.pattern}\])+[.:;|]?\s*\|?$")
_HEADING = re.compile(r"^#{2,} (.*)$", re.MULTILINE)
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"^    .*$", re.MULTILINE)
_DASHES = re.compile(r"\|[|\s:-]+\|")
_DEFINITION = re.compile(r"\[[^]]+\]: |<!--")
_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z`*\"(])")


class Drift(Exception):
    """Documentation and code do not fit together."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One promise. `gap` says why no test shows it; a claim has a test or a gap, never both."""

    id: str
    sentence: str
    threat: str
    target: str
    mitigation: str
    gap: str = ""

    @property
    def area(self) -> str:
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The areas by name with their titles, the claims in order, and the tests that attack but hold up no claim, with the reason."""

    areas: Mapping[str, str]
    claims: tuple[Claim, ...]
    exempt: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Marks:
    """The tests of each claim, the tests without one, and those that are nightly; a test is `tests/unit/test_x.py::test_y`."""

    tests: Mapping[str, tuple[str, ...]]
    unmarked: tuple[str, ...]
    nightly: frozenset[str] = frozenset()


def manifest(path: Path = ROOT / MANIFEST) -> Manifest:
    """Raises Drift for a claim that is there twice, is not written as the others are, or belongs to no area."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    if unknown := sorted(set(found) - {"areas", "claim", "exempt"}):
        raise Drift(f"{path.name}: there is no {', '.join(unknown)}; there are areas, claim and exempt")
    claims: dict[str, Claim] = {}
    for row in found["claim"]:
        try:
            claim = Claim(**row)
        except TypeError as error:
            raise Drift(f"{path.name}: {row.get('id', 'a claim without id')}: {error}") from error
        if empty := sorted(key for key, text in row.items() if not text.strip()):
            raise Drift(f"claim {claim.id}: empty: {', '.join(empty)}")
        if not ID.fullmatch(claim.id) or claim.area not in found["areas"] or claim.id in claims:
            raise Drift(
                f"claim {claim.id}: an id is an area of [areas], a full stop and small words with dashes, once"
            )
        claims[claim.id] = claim
    return Manifest(found["areas"], tuple(claims.values()), found.get("exempt", {}))


def marks(root: Path = ROOT) -> Marks:
    """What the tests below `root` carry. Raises Drift for a mark whose id is not plain text."""
    tests: dict[str, list[str]] = {}
    unmarked, nightly = [], set()
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name, ids, at_night in _marked(
            path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        ):
            for one in ids:
                tests.setdefault(one, []).append(name)
            if not ids:
                unmarked.append(name)
            if at_night:
                nightly.add(name)
    return Marks({one: tuple(names) for one, names in tests.items()}, tuple(unmarked), frozenset(nightly))


def _marked(source: str, place: str) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Every test of a module with its claims and whether it is nightly, by its own marks, its class's or the module's."""
    module = _Module(ast.parse(source, place), place)
    yield from module.tests(module.tree.body, place, tuple(filter(None, [module.named.get("pytestmark")])))


class _Module:
    """The source of one test module. A mark may have a name there: `HELD = pytest.mark.claim("paths.inside")`."""

    def __init__(self, tree: ast.Module, place: str) -> None:
        self.tree = tree
        self.place = place
        self.named = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def tests(
        self, body: Iterable[ast.stmt], place: str, shared: tuple[ast.expr, ...]
    ) -> Iterator[tuple[str, tuple[str, ...], bool]]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                marks = (*shared, *node.decorator_list)
                nightly = any("pytest.mark.nightly" in ast.unparse(one) for one in marks)
                yield f"{place}::{node.name}", tuple(dict.fromkeys(self.ids(*marks))), nightly
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                yield from self.tests(node.body, f"{place}::{node.name}", (*shared, *node.decorator_list))

    def ids(self, *nodes: ast.AST) -> tuple[str, ...]:
        """The ids of every mark in these nodes, those behind a name included."""
        waiting, seen, found = list(nodes), set[str](), []
        while waiting:
            for node in ast.walk(waiting.pop(0)):
                if isinstance(node, ast.Name) and node.id in self.named and node.id not in seen:
                    seen.add(node.id)
                    waiting.append(self.named[node.id])
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.claim":
                    found += [self._text(given) for given in node.args]
        return tuple(found)

    def _text(self, given: ast.expr) -> str:
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return given.value
        raise Drift(
            f"{self.place}:{given.lineno}: the id of a claim stands there as plain text, or nobody finds it"
        )


def cited(text: str) -> set[str]:
    """The ids that a document names."""
    return {found[1] for found in _CITED.finditer(text)}


def problems(claims: Manifest, found: Marks, documents: Mapping[str, str], root: Path = ROOT) -> list[str]:
    """Everything that does not fit, one line each, with the ids and what to do."""
    known = {claim.id: claim for claim in claims.claims}
    named = {page: cited(text) for page, text in documents.items()}
    every = set().union(*named.values())
    return [
        *(
            f"{one}: no test carries it; mark one, or say in `gap` why none does"
            for one, claim in known.items()
            if not claim.gap and one not in found.tests
        ),
        *(
            f"{one}: only nightly tests carry it; let one of them, or another, run in `make test`"
            for one in known
            if one in found.tests and found.nightly.issuperset(found.tests[one])
        ),
        *(
            f"{one}: it has a gap, and is carried by {found.tests[one][0]}; take one of both away"
            for one, claim in known.items()
            if claim.gap and one in found.tests
        ),
        *(
            f"{one}: carried by {names[0]}, and not in {MANIFEST}; write its sentence there"
            for one, names in sorted(found.tests.items())
            if one not in known
        ),
        *(f"{one}: no document names it; run `make docs`" for one in known if one not in every),
        *(
            f"{one}: named in {page}, and not in {MANIFEST}"
            for page, ids in named.items()
            for one in sorted(ids - set(known))
        ),
        *_attacks_without_a_claim(claims, found),
        *_places_that_are_not_there(claims, root),
    ]


def _attacks_without_a_claim(claims: Manifest, found: Marks) -> Iterator[str]:
    attacking = {test for test in found.unmarked if test.startswith(ATTACKING)}
    for test in sorted(attacking - set(claims.exempt)):
        yield f"{test}: it attacks and carries no claim; mark it, or name it in [exempt] of {MANIFEST} with the reason"
    for test in sorted(set(claims.exempt) - attacking):
        yield f"{test}: exempt in {MANIFEST}, and no such test is without a claim"


def _places_that_are_not_there(claims: Manifest, root: Path) -> Iterator[str]:
    for claim in claims.claims:
        for place in _PLACE.findall(claim.mitigation):
            if not (root / place).exists():
                yield f"{claim.id}: its mitigation names {place}, which is not there"


@dataclass(frozen=True, slots=True)
class Sentence:
    section: str
    text: str

    @property
    def bears_ids(self) -> bool:
        return bool(_IDS_AT_END.search(self.text))


def sentences(page: str) -> Iterator[Sentence]:
    """Every sentence and table row that a person wrote in the sections of a page that promise something."""
    text = _FENCED.sub("", _GENERATED.sub("", page))
    pieces = _HEADING.split(text)[1:]
    for heading, body in zip(pieces[::2], pieces[1::2], strict=True):
        if heading not in EXPLAINED:
            for one in _of(_INDENTED.sub("", body)):
                yield Sentence(heading, one)


def _of(body: str) -> Iterator[str]:
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n|\n(?=[-*] |\|)", body)]
    for text, following in zip(blocks, [*blocks[1:], ""], strict=True):
        if text.startswith("|"):
            if not (_DASHES.fullmatch(text) or _DASHES.fullmatch(following)):  # nor the head of the table
                yield text
        elif text and not _DEFINITION.match(text):
            yield from _SENTENCE_END.split(text.removeprefix("- "))


def documents(root: Path = ROOT) -> dict[str, str]:
    return {name: (root / name).read_text(encoding="utf-8") for name in DOCUMENTS}


def main(arguments: list[str]) -> int:
    found = marks()
    if arguments:
        for one in arguments:
            sys.stdout.write("\n".join((one, *(f"  {test}" for test in found.tests.get(one, ())))) + "\n")
        return 0 if all(one in found.tests for one in arguments) else 1
    wrong = problems(manifest(), found, documents())
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
