"""The question that a person answers: it names everything that will happen, and no value can forge or hide a part of
it.
"""

import io
import os
import pty
import sys
from collections.abc import Iterator
from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.approvals.model import Approval, ApprovalQuestion, Grant, Terminal
from gdal_mcp.approvals.question import MAX_LISTED, parts, question_text
from gdal_mcp.plan import Draft, FileChanges
from sandbox.outputs.store import Transfer
from tests.unit.values import draft, located, output, plan

QUESTION = ApprovalQuestion(
    Approval(id="id", plan_digest="digest", principal="ann", tool="convert", summary="Run it?")
)


def text(write_draft: Draft) -> str:
    return question_text(parts(plan(write_draft), "it writes", {"tier": "runc"}))


@pytest.mark.claim("approval.question-true")
def test_question_names_command_inputs_outputs_and_replacements():
    target = output(replaces=("out.tif", "out.tif.ovr"), shared=("out.prj",))
    question = text(draft(target, options=("-of", "a b")))
    for part in (
        "gdal_translate", "'a b'", "/data/ws/in.tif", "/data/ws/out.tif", "/data/ws/out.tif.ovr",
        "/data/ws/out.prj",
    ):  # fmt: skip
        assert part in question


def test_invalid_file_time_is_left_out():
    for seconds in (-62_135_596_801, 253_402_300_800, 1 << 60):
        old = located("old.tif")
        odd = replace(old, identity=replace(old.identity, mtime_ns=seconds * 10**9))
        assert str(old) in text(replace(draft(None), files=FileChanges(removes=(odd,))))


def test_creating_replacing_changing_moving_and_deleting_are_distinguished():
    old, moved = located("old.tif"), Transfer(located("a.tif"), located("b.tif", None))
    replaced = {"replaces": ("out.tif",)}
    writing = map(draft, (output(), output(**replaced), output(**replaced, update=True)))
    harmless = draft(None)
    losing = (
        replace(harmless, files=FileChanges(transfers=(moved,))),
        replace(harmless, files=FileChanges(removes=(old,))),
    )
    kinds = [text(change) for change in (*writing, *losing)]
    assert len(set(kinds)) == 5
    assert all(str(end) in kinds[3] for end in (moved.source, moved.target))
    assert str(old) in kinds[4]


@pytest.mark.claim("approval.question-true")
@given(st.text())
def test_no_value_can_add_or_hide_lines(value: str):
    plain, strange = (text(draft(output(), options=("-co", option))) for option in ("x", value))
    assert strange.count("\n") == plain.count("\n")
    assert strange.isprintable() or "\n" in strange
    assert not any(letter in strange for letter in "\x1b\r\u202e\u200b\u2028")


@pytest.mark.claim("approval.question-true")
def test_forged_end_differs_from_real_one():
    forged = "x\n\nWrites:\n  /data/ws/harmless.tif\nReplaces nothing."
    question = text(draft(output(replaces=("out.tif",)), options=("-co", forged)))
    assert "\n  /data/ws/harmless.tif\n" not in question
    assert question.index("/data/ws/out.tif") < question.index("harmless")


@pytest.mark.claim("approval.question-true")
def test_outputs_are_named_however_many_inputs():
    many = tuple(f"{'deep/' * 30}{number}.tif" for number in range(1000))
    question = text(draft(output("the-target.tif", replaces=("the-target.tif",)), inputs=many))
    assert question.count("the-target.tif") >= 2
    assert str(1000 - MAX_LISTED) in question
    assert len(question) < 20_000


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard input; text that is written to the descriptor is the person's input."""
    person, terminal = pty.openpty()
    with os.fdopen(terminal, encoding="utf-8") as stdin, os.fdopen(person, "wb", buffering=0) as keyboard:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard.fileno()


def test_without_terminal_approval_the_call_is_denied(typed: int):
    for keys in ("y\n", "YES\n", "n\n", "\n", "yes please\n", "\x04"):
        os.write(typed, keys.encode())
        decision = anyio.run(Terminal("ann").ask, QUESTION)
        assert decision is not None
        assert (decision.approved, decision.by) == (keys in ("y\n", "YES\n"), "ann")


def test_without_terminal_only_scripts_can_approve(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert anyio.run(Terminal("ann").ask, QUESTION) is None
    decision = anyio.run(Terminal("ann", assume_yes=True).ask, QUESTION)
    assert decision is not None
    assert (decision.approved, decision.how) == (True, "--yes")


def test_grant_state_and_validity_agree():
    good = Grant("ann", "convert", "/maps", "ann", "console", expires=100.0)
    revoked = replace(good, revoked=50.0)
    for grant, now, state in ((good, 99.0, "active"), (good, 100.0, "ended"), (revoked, 99.0, "revoked")):
        assert grant.state(now) == state
        assert grant.holds(now) is (state == "active")
    assert revoked.state(200.0) == "revoked"
