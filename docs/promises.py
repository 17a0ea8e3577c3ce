"""The security promises, the tests that show them, and a check that both agree.

A promise has an id, `area.name`, and one line in docs/promises.toml. A test that shows it carries the id:
`@pytest.mark.claim("network.no-interface")`, or the same mark in its module's `pytestmark`. Marks are read from the source of the tests,
so an id must be written there as plain text.

`python -m docs.promises` prints every disagreement, `python -m docs.promises ID ...` the tests of these promises.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = "docs/promises.toml"
DOCUMENTS = ("SECURITY.md", "docs/security.md")

# Every test in these places attacks or breaks something, so each has to name the promise that it shows.
ATTACKING = (
    "tests/security/attacks/",
    "tests/security/escape/",
    "tests/security/faults/",
    "tests/security/scope/",
    "tests/e2e/mcp/test_lockdown.py",
)

ID = re.compile(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*")
_CITED = re.compile(rf"promises\.md#({ID.pattern})\)|\[`?({ID.pattern})`?\](?!\()")


class Drift(Exception):
    """The documentation and the code disagree."""


@dataclass(frozen=True, slots=True)
class Limitation:
    """A promise that the project would like to make and cannot make, or cannot prove yet."""

    id: str
    wish: str
    why: str
    instead: str


@dataclass(frozen=True, slots=True)
class Promises:
    """Titles by area, sentences by id in the order of the file, and the limitations."""

    areas: Mapping[str, str]
    sentences: Mapping[str, str]
    limitations: tuple[Limitation, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """Tests by promise, tests without one, and nightly tests. A test is `tests/unit/test_x.py::test_y`."""

    tests: Mapping[str, tuple[str, ...]]
    unmarked: tuple[str, ...]
    nightly: frozenset[str] = frozenset()


def promises(path: Path = ROOT / FILE) -> Promises:
    """The promises in docs/promises.toml. Raises Drift for an id or a sentence in another form."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        limitations = tuple(Limitation(**row) for row in document["limitation"])
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise Drift(f"{path.name}: {error}") from error
    areas = document["areas"]
    sentences = {
        f"{area}.{name}": sentence
        for area, rows in document["promises"].items()
        for name, sentence in rows.items()
    }
    for id_ in (*sentences, *(limitation.id for limitation in limitations)):
        if not ID.fullmatch(id_) or id_.partition(".")[0] not in areas:
            raise Drift(
                f"{path.name}: {id_!r} is not an area of [areas], a full stop and lower-case words with dashes"
            )
    texts = {**sentences, **{row.id: row.why for row in limitations}}
    if empty := sorted(id_ for id_, text in texts.items() if not text.strip()):
        raise Drift(f"{path.name}: no text: {', '.join(empty)}")
    if twice := sorted({row.id for row in limitations} & set(sentences)):
        raise Drift(f"{path.name}: both a promise and a limitation: {', '.join(twice)}")
    return Promises(areas, sentences, limitations)


def marks(root: Path = ROOT) -> Marks:
    """The marks of all tests below `root`. Raises Drift for a mark whose id is not plain text."""
    tests: dict[str, list[str]] = {}
    unmarked, nightly = [], set()
    for path in sorted((root / "tests").rglob("test_*.py")):
        source, place = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        for name, ids, runs_nightly in _marked(source, place):
            for id_ in ids:
                tests.setdefault(id_, []).append(name)
            if not ids:
                unmarked.append(name)
            if runs_nightly:
                nightly.add(name)
    return Marks({id_: tuple(names) for id_, names in tests.items()}, tuple(unmarked), frozenset(nightly))


def _marked(source: str, place: str) -> Iterator[tuple[str, tuple[str, ...], bool]]:
    """Every test of a module with its ids and whether it is nightly, by its own marks, its class's or the module's."""
    module = _Module(ast.parse(source, place), place)
    yield from module.tests(module.tree.body, place, tuple(filter(None, [module.named.get("pytestmark")])))


class _Module:
    """The source of one test module. A mark may have a name there: `INSIDE = pytest.mark.claim("paths.inside")`."""

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
                nightly = any("pytest.mark.nightly" in ast.unparse(mark) for mark in marks)
                yield f"{place}::{node.name}", tuple(dict.fromkeys(self.ids(*marks))), nightly
            elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                yield from self.tests(node.body, f"{place}::{node.name}", (*shared, *node.decorator_list))

    def ids(self, *nodes: ast.AST) -> tuple[str, ...]:
        """The ids of every mark in these nodes, including marks behind a name."""
        waiting, followed, ids = list(nodes), set[str](), []
        while waiting:
            for node in ast.walk(waiting.pop(0)):
                if isinstance(node, ast.Name) and node.id in self.named and node.id not in followed:
                    followed.add(node.id)
                    waiting.append(self.named[node.id])
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.claim":
                    ids += [self._text(argument) for argument in node.args]
        return tuple(ids)

    def _text(self, argument: ast.expr) -> str:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
        raise Drift(
            f"{self.place}:{argument.lineno}: write the promise's id as plain text, so that a search finds it"
        )


def cited(text: str) -> set[str]:
    """The ids that a document names, as a link to docs/promises.md or in square brackets."""
    return {match[1] or match[3] for match in _CITED.finditer(text)}


def problems(known: Promises, marks: Marks, documents: Mapping[str, str]) -> list[str]:
    """Every disagreement as one line: the id, the problem, and what to do."""
    limitations = {limitation.id for limitation in known.limitations}
    return [
        *(
            f"{id_}: no test carries it; mark one, or write it as a [[limitation]]"
            for id_ in known.sentences
            if id_ not in marks.tests
        ),
        *(
            f"{id_}: only nightly tests carry it; mark one that `make test` runs"
            for id_ in known.sentences
            if id_ in marks.tests and marks.nightly.issuperset(marks.tests[id_])
        ),
        *(
            f"{id_}: it is a limitation, and {marks.tests[id_][0]} carries it; remove one of the two"
            for id_ in sorted(limitations & set(marks.tests))
        ),
        *(
            f"{id_}: {names[0]} carries it, and {FILE} does not have it; write its sentence there"
            for id_, names in sorted(marks.tests.items())
            if id_ not in known.sentences and id_ not in limitations
        ),
        *(
            f"{id_}: {page} names it, and {FILE} does not have it"
            for page, text in documents.items()
            for id_ in sorted(cited(text) - set(known.sentences) - limitations)
        ),
        *(
            f"{test}: it attacks or breaks something and carries no promise; mark it"
            for test in sorted(marks.unmarked)
            if test.startswith(ATTACKING)
        ),
    ]


def documents(root: Path = ROOT) -> dict[str, str]:
    return {name: (root / name).read_text(encoding="utf-8") for name in DOCUMENTS}


def main(arguments: list[str]) -> int:
    test_marks = marks()
    if arguments:
        for id_ in arguments:
            sys.stdout.write(
                "\n".join((id_, *(f"  {test}" for test in test_marks.tests.get(id_, ())))) + "\n"
            )
        return 0 if all(id_ in test_marks.tests for id_ in arguments) else 1
    wrong = problems(promises(), test_marks, documents())
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
