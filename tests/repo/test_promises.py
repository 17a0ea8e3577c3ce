"""Every security promise has a test that runs, and the checker of this detects errors."""

from dataclasses import replace

import pytest

from docs import promises as checker
from docs.promises import Drift, Limitation, Marks, Promises

INSIDE = "tests/unit/test_a.py::test_b"
OTHER = "tests/unit/test_a.py::test_c"
ATTACK = "tests/security/attacks/test_a.py::test_c"
KNOWN = Promises(
    {"paths": "Paths", "audit": "Records"},
    {"paths.inside": "A path stays inside."},
    (Limitation("audit.signed", "The log is signed.", "There is no key.", "a checkpoint"),),
)
FOUND = Marks({"paths.inside": (INSIDE,)}, ())
PAGES = {"SECURITY.md": "It stays [`paths.inside`]", "docs/security.md": "[signed](promises.md#audit.signed)"}


@pytest.mark.claim("supply.promises-tested")
def test_promises_tests_and_documents_agree():
    wrong = checker.problems(checker.promises(), checker.marks(), checker.documents())
    assert not wrong, "\n" + "\n".join(wrong)


def test_agreement_has_no_problem():
    assert checker.problems(KNOWN, FOUND, PAGES) == []


BY_NIGHT = replace(FOUND, nightly=frozenset({INSIDE}))
DISAGREEMENTS = {
    "a promise without a test": ({"marks": Marks({}, ())}, "paths.inside"),
    "a promise with nightly tests only": ({"marks": BY_NIGHT}, "paths.inside"),
    "a limitation with a test": (
        {"marks": Marks({**FOUND.tests, "audit.signed": (OTHER,)}, ())},
        "audit.signed",
    ),
    "an unknown id on a test": (
        {"marks": Marks({**FOUND.tests, "paths.outside": (OTHER,)}, ())},
        "paths.outside",
    ),
    "an unknown id in brackets": ({"documents": {"README.md": "[`paths.gone`]"}}, "paths.gone"),
    "an unknown id in a link": (
        {"documents": {"README.md": "[x](docs/promises.md#paths.gone)"}},
        "paths.gone",
    ),
    "an attack without a promise": ({"marks": Marks(FOUND.tests, (ATTACK,))}, ATTACK),
}


@pytest.mark.parametrize("what", DISAGREEMENTS)
def test_each_disagreement_is_named(what):
    change, subject = DISAGREEMENTS[what]
    problems = checker.problems(**{"known": KNOWN, "marks": FOUND, "documents": PAGES, **change})
    assert len(problems) == 1
    assert subject in problems[0]


def test_an_ordinary_test_needs_no_promise():
    assert checker.problems(KNOWN, Marks(FOUND.tests, (OTHER,)), PAGES) == []


TEST_MODULE = """
import pytest

pytestmark = [pytest.mark.engine, pytest.mark.claim("paths.all")]
NAMED = pytest.mark.claim("paths.named")

@NAMED
@pytest.mark.claim("paths.one", "paths.two")
def test_three(): ...

@pytest.mark.nightly
class TestGroup:
    async def test_nightly(self): ...

def helper(): ...
"""


def test_marks_are_read_from_decorators_names_classes_modules(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(TEST_MODULE, encoding="utf-8")
    marks = checker.marks(tmp_path)
    three, nightly = "tests/test_a.py::test_three", "tests/test_a.py::TestGroup::test_nightly"
    assert marks.tests == {
        "paths.all": (three, nightly),
        **{f"paths.{name}": (three,) for name in ("named", "one", "two")},
    }
    assert marks.nightly == {nightly}


def test_id_that_is_not_plain_text_is_refused(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(
        "import pytest\n@pytest.mark.claim(ID)\ndef test_x(): ...\n", encoding="utf-8"
    )
    with pytest.raises(Drift):
        checker.marks(tmp_path)


LIMITATION = '[[limitation]]\nid = "paths.b"\nwish = "x"\nwhy = "x"\ninstead = "x"\n'
GOOD = f'[areas]\npaths = "Paths"\n[promises.paths]\na = "x"\n{LIMITATION}'
SLIPS = {
    "a name twice": GOOD.replace('a = "x"', 'a = "x"\na = "y"'),
    "no area": GOOD.replace("[promises.paths]", "[promises.names]"),
    "a name with a blank": GOOD.replace('\na = "x"', '\n"A b" = "x"'),
    "an empty sentence": GOOD.replace('\na = "x"', '\na = " "'),
    "an unknown key": f'{GOOD}more = "x"\n',
    "a missing key": GOOD.replace('instead = "x"\n', ""),
    "a promise that is a limitation": GOOD.replace("paths.b", "paths.a"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_the_file_is_refused(tmp_path, slip):
    page = tmp_path / "promises.toml"
    page.write_text(GOOD, encoding="utf-8")
    assert checker.promises(page).sentences == {"paths.a": "x"}
    page.write_text(SLIPS[slip], encoding="utf-8")
    with pytest.raises(Drift):
        checker.promises(page)
