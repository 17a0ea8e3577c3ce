"""Every attack of the table, through the protocol, against the real server and its containers."""

import tomllib
from pathlib import Path

import mcp_types as t
import pytest

from docs.promises import marks
from tests.e2e.mcp.attack_files import EARLY, TYPED, UNSAFE, started_calls
from tests.e2e.mcp.talk import Talk
from tests.security.attacks.conftest import Attacked
from tests.security.attacks.leaks import code, discreet
from tests.security.attacks.table import LISTED, TABLE

pytestmark = pytest.mark.engine

LIMITS = {"TIMEOUT", "MEMORY_LIMIT", "DISK_LIMIT", "OUTPUT_LIMIT"}


def ended_as_promised(letter: str, result: t.CallToolResult, started: set[str]) -> bool:
    """True if a call ended in the way of its letter."""
    ended, content = code(result), result.structured_content
    began = (content["error"] if result.is_error else content["receipt"])["call_id"] in started
    if letter == "V":
        early = result.is_error and content["error"]["stage"] in EARLY
        return early and not began and ended in TYPED | {"APPROVAL_DENIED", "OUTPUT_EXISTS"}
    if letter == "F":
        return ended in LIMITS and "at least" in content["error"]["message"]
    if letter == "K":
        return ended in LIMITS
    if letter == "A":
        return ended == "OK"
    return began and ended in {"OK", "GDAL_ERROR"}


def check(attacked: Attacked, letters: str, talk: Talk | None = None) -> dict[str, t.CallToolResult]:
    """Checks that the calls with these letters ended in the way of their letter, and returns the results."""
    chosen = {key: attack.calls for key, attack in TABLE.items() if attack.letter in letters}
    calls = {f"{key} {number}": call for key, some in chosen.items() for number, call in enumerate(some)}
    ended = attacked.together(calls, talk)
    started = started_calls(attacked.place)
    broken = {
        key: f"{code(end)} {str(end.structured_content)[:300]}"
        for key, end in ended.items()
        if not ended_as_promised(TABLE[key.split()[0]].letter, end, started)
    }
    assert broken == {}, broken
    assert [key for key, end in ended.items() if not discreet(end)] == []
    assert [key for key, end in ended.items() if UNSAFE.search(str(end.structured_content))] == []
    return ended


@pytest.mark.claim(
    "content.known-attacks-end-as-the-table-says", "args.refused-before-anything-runs", "args.unknown-refused"
)
def test_refused_calls_are_refused_before_any_container(attacked: Attacked):
    check(attacked, "V")


@pytest.mark.claim("resources.certain-excess-refused")
def test_a_flood_is_refused_by_its_estimate(attacked: Attacked):
    check(attacked, "F")
    assert not any(attacked.place.path(name).exists() for name in ("big.tif", "tiles"))


@pytest.mark.nightly
@pytest.mark.claim("content.known-attacks-end-as-the-table-says")
def test_attempts_reach_nothing_and_harmless_calls_work(attacked: Attacked):
    named = check(attacked, "SA")["P19 0"].structured_content["untrusted"]["report"]
    assert [row["driver"] for row in named] == ["GTiff"] * len(LISTED)
    assert "south" in attacked.place.path("a42.geojson").read_text()


@pytest.mark.nightly
@pytest.mark.claim("content.known-attacks-end-as-the-table-says")
def test_what_never_ends_is_ended(attacked: Attacked, hurried: Talk):
    check(attacked, "K", hurried)


@pytest.mark.claim("supply.promises-tested")
def test_known_attacks_on_others_are_covered_by_tests():
    tests = marks().tests
    for row in tomllib.loads(Path("docs/peers.toml").read_text(encoding="utf-8"))["attack"]:
        assert row["test"] in tests[row["claim"]], row["attack"]
