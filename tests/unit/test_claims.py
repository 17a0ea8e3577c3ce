"""The security documents promise nothing without a test, and the rules that see to it are not blind themselves."""

from dataclasses import replace
from pathlib import Path

import pytest

from docs import claims
from docs.claims import EXPLAINED, Claim, Drift, Manifest, Marks, sentences

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
def test_every_promise_names_its_claims():
    for page, at_least in (("SECURITY.md", 10), ("docs/security.md", 60)):
        found = list(sentences(claims.documents()[page]))
        without = [f"{one.section}: {one.text}" for one in found if not one.bears_ids]
        assert not without, "sentences without a claim's id at their end:\n" + "\n".join(without)
        assert len(found) >= at_least


def test_every_section_that_only_explains_is_there():
    text = "\n".join(claims.documents().values())
    assert not [heading for heading in EXPLAINED if f"\n## {heading}\n" not in text]


def test_what_fits_has_no_problem():
    assert claims.problems(HELD, FOUND, PAGES) == []


BY_NIGHT = replace(FOUND, nightly=frozenset(FOUND.tests["paths.inside"]))
NOWHERE = replace(ONE, mitigation="`sandbox/nowhere.py`")
AFTER = "tests/unit/test_a.py::test_c"
ATTACK = "tests/attacks/test_a.py::test_c"
MISFITS = {
    "a claim without a test": ({"found": Marks({}, ())}, "paths.inside"),
    "a claim that is shown at night alone": ({"found": BY_NIGHT}, "paths.inside"),
    "a gap with a test": ({"found": Marks({**FOUND.tests, "audit.signed": (AFTER,)}, ())}, "audit.signed"),
    "a test of no claim": ({"found": Marks({**FOUND.tests, "paths.outside": (AFTER,)}, ())}, "paths.outside"),
    "a claim in no document": ({"documents": {"SECURITY.md": "[paths.inside]"}}, "audit.signed"),
    "an id of no claim": ({"documents": {**PAGES, "README.md": "[paths.gone]"}}, "paths.gone"),
    "an attack of no claim": ({"found": Marks(FOUND.tests, (ATTACK,))}, ATTACK),
    "an exemption of no test": ({"claims": replace(HELD, exempt={ATTACK: "a table"})}, ATTACK),
    "code that is not there": ({"claims": replace(HELD, claims=(NOWHERE, GAP))}, "sandbox/nowhere.py"),
}


def test_whatever_does_not_fit_is_named():
    fitting = {"claims": HELD, "found": FOUND, "documents": PAGES}
    for what, (change, about) in MISFITS.items():
        found = claims.problems(**{**fitting, **change})
        assert len(found) == 1, what
        assert about in found[0], what


def test_an_ordinary_test_needs_no_claim_and_an_exempt_attack_none():
    quiet = Marks(FOUND.tests, ("tests/unit/test_a.py::test_c", "tests/attacks/test_a.py::test_table"))
    held = replace(HELD, exempt={"tests/attacks/test_a.py::test_table": "it looks at the table alone"})
    assert claims.problems(held, quiet, PAGES) == []


ROW = 'sentence = "x"\nthreat = "x"\ntarget = "x"\nmitigation = "x"\n'

AREA = '[areas]\npaths = "Paths"\n'
SLIPS = {
    "twice": f'{AREA}[[claim]]\nid = "paths.a"\n{ROW}[[claim]]\nid = "paths.a"\n{ROW}',
    "no area": f'{AREA}[[claim]]\nid = "names.a"\n{ROW}',
    "no id": f'{AREA}[[claim]]\nid = "paths.A b"\n{ROW}',
    "an empty gap": f'{AREA}[[claim]]\nid = "paths.a"\n{ROW}gap = " "\n',
    "an unknown key": f'{AREA}[[claim]]\nid = "paths.a"\n{ROW}more = "x"\n',
    "a missing key": f'{AREA}[[claim]]\nid = "paths.a"\nsentence = "x"\n',
    "an unknown table": f'{AREA}[[claims]]\nid = "paths.a"\n{ROW}[[claim]]\nid = "paths.b"\n{ROW}',
}


def test_a_manifest_with_a_slip_is_refused(tmp_path):
    page = tmp_path / "claims.toml"
    for what, text in SLIPS.items():
        page.write_text(text, encoding="utf-8")
        with pytest.raises(Drift):
            claims.manifest(page)
            pytest.fail(what)


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
    assert [text for text, bears in found if not bears] == ["It does not.", "| there | none |", "another"]
    assert len([text for text, bears in found if bears]) == 4
