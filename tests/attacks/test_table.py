"""Every attack of the table, through the protocol, against the real server and its containers."""

import json
import re

import mcp_types as t
import pytest

from tests.attacks.cases import CASES, LISTED
from tests.attacks.conftest import Attacked
from tests.attacks.leaks import code, discreet
from tests.attacks.table import TABLE
from tests.mcp.attack_files import EARLY, TYPED, UNSAFE, started_calls
from tests.mcp.talk import Talk

pytestmark = pytest.mark.engine

LIMITS = {"TIMEOUT", "MEMORY_LIMIT", "DISK_LIMIT", "OUTPUT_LIMIT"}


def identity(key: str) -> str:
    """`A06c` is one of the calls of `A06`."""
    found = re.match(r"[A-Z]\d+", key)
    assert found is not None
    return found[0]


def call_id(result: t.CallToolResult) -> str:
    said = result.structured_content
    return said["error"]["call_id"] if result.is_error else said["receipt"]["call_id"]


def kept_promise(kind: str, result: t.CallToolResult, *, started: bool) -> bool:
    """Whether a call ended as its letter says."""
    ended = code(result)
    if kind == "V":
        early = result.is_error and result.structured_content["error"]["stage"] in EARLY
        return early and not started and ended in TYPED | {"APPROVAL_DENIED", "OUTPUT_EXISTS"}
    if kind == "K":
        return ended in LIMITS
    if kind == "A":
        return ended == "OK"
    return started and ended in {"OK", "GDAL_ERROR"}


def test_each_attack_of_the_table_has_a_call_and_each_call_an_attack():
    assert {identity(key) for key in CASES} == set(TABLE)
    assert all(CASES.values())
    assert {kind for kind, _ in TABLE.values()} == set("VSAK")


def ends(talk: Talk, kinds: str) -> dict[str, t.CallToolResult]:
    """How the calls of these letters ended; they are made together, and one that stands for several ids is made once."""
    calls = {
        (key, number): call
        for key, several in CASES.items()
        if TABLE[identity(key)][0] in kinds
        for number, call in enumerate(several)
    }
    once = {json.dumps(call): call for call in calls.values()}
    under_way = {text: talk.start(tool, **arguments) for text, (tool, arguments) in once.items()}
    return {
        f"{key} {number}": under_way[json.dumps(call)].result(timeout=500)
        for (key, number), call in calls.items()
    }


def check(attacked: Attacked, ended: dict[str, t.CallToolResult]) -> None:
    started = started_calls(attacked.place)
    broken = {
        key: f"{code(end)} {str(end.structured_content)[:300]}"
        for key, end in ended.items()
        if not kept_promise(TABLE[identity(key)][0], end, started=call_id(end) in started)
    }
    assert broken == {}, broken
    assert [key for key, end in ended.items() if not discreet(end)] == []
    assert [key for key, end in ended.items() if UNSAFE.search(str(end.structured_content))] == []


@pytest.mark.claim("content.known-attacks-end-as-the-table-says")
def test_what_is_refused_is_refused_before_a_container_is_started(attacked: Attacked):
    check(attacked, ends(attacked.talk, "V"))


@pytest.mark.nightly
@pytest.mark.claim("content.known-attacks-end-as-the-table-says")
def test_what_is_tried_reaches_nothing_and_what_is_harmless_works(attacked: Attacked):
    ended = ends(attacked.talk, "SA")
    check(attacked, ended)
    named = ended["P19 0"].structured_content["untrusted"]["report"]
    assert [one["driver"] for one in named] == ["GTiff"] * len(LISTED)


@pytest.mark.nightly
@pytest.mark.claim("content.known-attacks-end-as-the-table-says")
def test_what_never_ends_is_ended(attacked: Attacked, hurried: Talk):
    check(attacked, ends(hurried, "K"))
