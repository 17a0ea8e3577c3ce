"""The security documents promise nothing without a test, and the rules that see to it are not blind themselves."""

from dataclasses import replace
from pathlib import Path

import pytest

from docs import claims
from docs.claims import Claim, Manifest, Marks
from docs.page import Drift
from docs.promises import EXPLAINED, sentences

ROOT = Path(__file__).parents[2]

ONE = Claim("paths.inside", "It stays inside.", "a path", "files", "`sandbox/workspace.py`")
GAP = Claim("audit.signed", "It is signed.", "a forger", "log", "nothing", "there is no key")
HELD = Manifest({"paths": "Paths", "audit": "Records"}, (ONE, GAP), {})
FOUND = Marks({"paths.inside": ("tests/unit/test_a.py::test_b",)}, ())
PAGES = {"SECURITY.md": "It stays [paths.inside].", "docs/security.md": "and [audit.signed]"}


@pytest.mark.claim("supply.claims-tested")
def test_documents_tests_and_claims_fit_together():
    wrong = claims.problems(claims.manifest(), claims.marks(), claims.documents())
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.claim("supply.claims-tested")
@pytest.mark.parametrize(("page", "at_least"), [("SECURITY.md", 10), ("docs/security.md", 60)])
def test_every_promise_names_its_claims(page, at_least):
    found = list(sentences(claims.documents()[page]))
    without = [f"{one.section}: {one.text}" for one in found if not one.bears_ids]
    assert not without, "sentences without a claim's id at their end:\n" + "\n".join(without)
    assert len(found) >= at_least


def test_every_section_that_only_explains_is_there():
    text = "\n".join(claims.documents().values())
    assert not [heading for heading in EXPLAINED if f"\n## {heading}\n" not in text]


def test_what_fits_has_no_problem():
    assert claims.problems(HELD, FOUND, PAGES) == []


@pytest.mark.parametrize(
    ("held", "found", "pages", "about"),
    [
        pytest.param(HELD, Marks({}, ()), PAGES, "paths.inside", id="a claim without a test"),
        pytest.param(
            HELD,
            replace(FOUND, nightly=frozenset(FOUND.tests["paths.inside"])),
            PAGES,
            "paths.inside",
            id="a claim that is shown at night alone",
        ),
        pytest.param(
            HELD,
            Marks({**FOUND.tests, "audit.signed": ("tests/unit/test_a.py::test_c",)}, ()),
            PAGES,
            "audit.signed",
            id="a gap with a test",
        ),
        pytest.param(
            HELD,
            Marks({**FOUND.tests, "paths.outside": ("tests/unit/test_a.py::test_c",)}, ()),
            PAGES,
            "paths.outside",
            id="a test of no claim",
        ),
        pytest.param(
            HELD, FOUND, {"SECURITY.md": "[paths.inside]"}, "audit.signed", id="a claim in no document"
        ),
        pytest.param(
            HELD,
            FOUND,
            {**PAGES, "docs/security.md": "[audit.signed] [paths.gone]"},
            "paths.gone",
            id="an id of no claim",
        ),
        pytest.param(
            HELD,
            Marks(FOUND.tests, ("tests/attacks/test_a.py::test_c",)),
            PAGES,
            "tests/attacks/test_a.py::test_c",
            id="an attack of no claim",
        ),
        pytest.param(
            replace(HELD, exempt={"tests/attacks/test_a.py::test_gone": "a table"}),
            FOUND,
            PAGES,
            "tests/attacks/test_a.py::test_gone",
            id="an exemption of no test",
        ),
        pytest.param(
            replace(HELD, claims=(replace(ONE, mitigation="`sandbox/nowhere.py`"), GAP)),
            FOUND,
            PAGES,
            "sandbox/nowhere.py",
            id="code that is not there",
        ),
    ],
)
def test_whatever_does_not_fit_is_named(held, found, pages, about):
    (line,) = claims.problems(held, found, pages)
    assert about in line


def test_an_ordinary_test_needs_no_claim_and_an_exempt_attack_none():
    quiet = Marks(FOUND.tests, ("tests/unit/test_a.py::test_c", "tests/attacks/test_a.py::test_table"))
    held = replace(HELD, exempt={"tests/attacks/test_a.py::test_table": "it looks at the table alone"})
    assert claims.problems(held, quiet, PAGES) == []


ROW = 'sentence = "x"\nthreat = "x"\ntarget = "x"\nmitigation = "x"\n'


@pytest.mark.parametrize(
    "text",
    [
        f'[areas]\npaths = "Paths"\n[[claim]]\nid = "paths.a"\n{ROW}[[claim]]\nid = "paths.a"\n{ROW}',
        f'[areas]\npaths = "Paths"\n[[claim]]\nid = "names.a"\n{ROW}',
        f'[areas]\npaths = "Paths"\n[[claim]]\nid = "paths.A b"\n{ROW}',
        f'[areas]\npaths = "Paths"\n[[claim]]\nid = "paths.a"\n{ROW}gap = " "\n',
        f'[areas]\npaths = "Paths"\n[[claim]]\nid = "paths.a"\n{ROW}more = "x"\n',
        '[areas]\npaths = "Paths"\n[[claim]]\nid = "paths.a"\nsentence = "x"\n',
        f'[areas]\npaths = "Paths"\n[[claims]]\nid = "paths.a"\n{ROW}[[claim]]\nid = "paths.b"\n{ROW}',
    ],
    ids=["twice", "no area", "no id", "an empty gap", "an unknown key", "a missing key", "an unknown table"],
)
def test_a_manifest_with_a_slip_is_refused(tmp_path, text):
    page = tmp_path / "claims.toml"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(Drift):
        claims.manifest(page)


def marked_in(tmp_path, source):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(source, encoding="utf-8")
    return claims.marks(tmp_path)


def test_marks_are_found_on_tests_classes_parameters_and_modules(tmp_path):
    found = marked_in(
        tmp_path,
        "import pytest\n"
        'pytestmark = [pytest.mark.engine, pytest.mark.claim("paths.a")]\n'
        '@pytest.mark.claim("paths.b", "paths.c")\n'
        "async def test_one(): ...\n"
        'ROWS = [pytest.param(1, marks=pytest.mark.claim("paths.elsewhere"))]\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.claim("paths.d"))])\n'
        "def test_two(x): ...\n"
        '@pytest.mark.claim("paths.e")\n'
        "class TestThree:\n    def test_four(self): ...\n"
        '@pytest.mark.claim("paths.helper")\n'
        "def helper(): ...\n"
        'NAMED = pytest.mark.claim("paths.f")\n'
        "@NAMED\n"
        "def test_five(): ...\n",
    )
    name = "tests/test_a.py::"
    assert found.tests == {
        "paths.a": (f"{name}test_one", f"{name}test_two", f"{name}TestThree::test_four", f"{name}test_five"),
        "paths.b": (f"{name}test_one",),
        "paths.c": (f"{name}test_one",),
        "paths.d": (f"{name}test_two",),
        "paths.e": (f"{name}TestThree::test_four",),
        "paths.f": (f"{name}test_five",),
    }


def test_a_test_without_a_mark_is_told(tmp_path):
    assert marked_in(tmp_path, "def test_one(): ...\n").unmarked == ("tests/test_a.py::test_one",)


def test_an_id_that_is_not_plain_text_is_refused(tmp_path):
    with pytest.raises(Drift):
        marked_in(tmp_path, "import pytest\nX = 'paths.a'\n@pytest.mark.claim(X)\ndef test_one(): ...\n")


PAGE = """
## What holds

It holds [paths.inside] [audit.signed]. It does not. A dotted 3.13 and `a.b` do [paths.inside].

| from | claims |
| --- | --- |
| here | [paths.inside] |
| there | none |

- a point [paths.inside]
- another

<!-- generated: threats -->
nothing of this counts.
<!-- end -->

## Limits

Nothing here is promised.
"""


def test_sentences_rows_and_points_of_a_promise_are_all_looked_at():
    found = [(one.text, one.bears_ids) for one in sentences(PAGE)]
    assert [text for text, bears in found if not bears] == [
        "It does not.",
        "| there | none |",
        "another",
    ]
    assert len([text for text, bears in found if bears]) == 4
