"""Runs the conformance suite against a server and compares the results with the expected ones."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conformance.node import Programs

ERAS = ("2025-11-25", "2026-07-28")
EXPECTED = Path(__file__).with_name("expected.toml")
SECONDS = 200  # for all scenarios of an era, which take twenty
_PASSED, _SAID = "SUCCESS", "INFO"
_SCHEMA = "wire-schema-valid"
_STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")  # of the folder with a scenario's results


@dataclass(frozen=True)
class Check:
    """One check of a scenario."""

    scenario: str
    id: str
    status: str
    message: str = ""


@dataclass(frozen=True)
class Expected:
    """The number of passing checks of each scenario, and the failing checks with the reason.

    A failing check is named `scenario:check`; a whole scenario can be named too.
    """

    passed: Mapping[str, int]
    gaps: Mapping[str, str]


def expected(server: str, era: str) -> Expected:
    """The expected results of a server."""
    table = tomllib.loads(EXPECTED.read_text())[server][era]
    gaps = {name: gap["reason"] for gap in table.get("gaps", ()) for name in gap["of"]}
    return Expected(table["passed"], gaps)


def run(programs: Programs, url: str, era: str, folder: Path) -> list[Check]:
    """The checks of all scenarios of the suite for an era, whether scored or not."""
    options = ("server", "--url", url, "--requirements", era, "--output-dir", str(folder))
    ended = programs.conformance(*options, cwd=folder.parent, seconds=SECONDS)
    checks = list(_checks(folder))
    assert checks, ended.stdout[-3000:] + ended.stderr[-3000:]
    return checks


def _checks(folder: Path) -> Iterator[Check]:
    for path in sorted(folder.glob("server-*/checks.json")):
        scenario = _STAMP.sub("", path.parent.name).removeprefix("server-")
        for row in json.loads(path.read_text()):
            yield Check(scenario, row["id"], row["status"], row.get("errorMessage") or "")


def complaints(checks: Iterable[Check], wanted: Expected) -> list[str]:
    """Every difference from the expected results: failures, missing and new checks, and gaps that have been closed."""
    checks = list(checks)
    passed = Counter(check.scenario for check in checks if check.status == _PASSED)
    failed = [check for check in checks if check.status not in (_PASSED, _SAID)]
    gaps = {check: _gap(check, wanted) for check in failed}
    unknown = {check.scenario for check in checks} - wanted.passed.keys() - wanted.gaps.keys()
    return [
        *(
            f"{check.scenario}:{check.id}: {check.status}: {check.message[:500]}"
            for check, gap in gaps.items()
            if not gap
        ),
        *(
            f"{name}: {passed[name]} checks pass, {count} are expected"
            for name, count in wanted.passed.items()
            if passed[name] != count
        ),
        *(f"{name}: a scenario that is not written down" for name in sorted(unknown)),
        *(f"{name}: a gap that is none any more" for name in wanted.gaps.keys() - set(gaps.values())),
    ]


def _gap(check: Check, wanted: Expected) -> str | None:
    """The gap that a failed check belongs to. No gap excuses a message that violates the protocol's schema."""
    if check.id == _SCHEMA:
        return None
    return next(
        (name for name in (f"{check.scenario}:{check.id}", check.scenario) if name in wanted.gaps), None
    )
