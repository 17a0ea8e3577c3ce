"""Runs of a workflow in any order with every possible event, against a model.

Invariants:

* a workspace has all outputs of a run that succeeded, and no output of a run that did not;
* the published outputs follow from the contents of the inputs at the time of approval, also when steps are reused;
* a step with the same contents, arguments and earlier steps runs once, unless everything is to run again;
* private results belong only to recorded steps, and leftovers of a killed run are gone after the next;
* an undo restores the previous files.
"""

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gdal_mcp.approvals.model import (
    Approval,
    ApprovalQuestion,
    Approver,
    Decision,
    Suspended,
    Terminal,
)
from gdal_mcp.calls.pipeline import Reply, Request
from gdal_mcp.errors import Code
from gdal_mcp.plan import Draft
from gdal_mcp.server.operations.undoing import undo
from gdal_mcp.toolboxes.preflight import Preflight
from gdal_mcp.toolboxes.toolbox import Described, Toolbox
from sandbox.workspace import WorkspacePath
from tests.integration.memory_server import ANN, Person, Server, World
from tests.integration.memory_workflows import (
    MADE_CRS,
    PUBLISHED,
    STEPS,
    Steps,
    document,
    joined,
    run,
    toolbox,
    workflows,
)
from tests.waiting import until

CONTENTS = st.sampled_from([b"red", b"green"])
WORDS = st.sampled_from(["", "other"])
STEP = st.sampled_from(sorted(STEPS))
FOREIGN = b"of somebody else"
Key = tuple[str, ...]


class WorkflowModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)
        self.root = self.folder / "ws"
        self.root.mkdir(mode=0o755)
        self.files: dict[str, bytes] = {"one.bin": b"red", "two.bin": b"red", "in.bin": b"input"}
        self.certain: set[Key] = set()  # steps with a stored result
        self.possible: set[Key] = set()  # steps that may have a stored result
        self.runs: list[tuple[str, dict[str, bytes]]] = []  # undoable calls, each with the files before it
        self.was_killed = False

    @initialize()
    def begin(self) -> None:
        for name in ("one.bin", "two.bin"):
            (self.root / name).write_bytes(self.files[name])
        self._serve()

    def _serve(self) -> None:
        self.serving = ExitStack()
        self.world = Steps()
        self.server = self.serving.enter_context(workflows(self.folder, self.world))

    def teardown(self) -> None:
        self.serving.close()
        self.stack.close()

    def _keys(self, word: str) -> dict[str, Key]:
        first, second = (self.files[name].decode() for name in ("one.bin", "two.bin"))
        return {"a": ("a", first), "b": ("b", word, first), "c": ("c", second)}

    def _expected(self, word: str) -> dict[str, bytes]:
        first = joined("", self.files["one.bin"])
        return {PUBLISHED["b"]: joined(word, first), PUBLISHED["c"]: joined("", self.files["two.bin"])}

    def _ended(self, reply: Reply, word: str, *, fresh: bool = False, stopped: str = "") -> None:
        """Records the effects of a run in which the step `stopped` did not succeed."""
        keys, ran = self._keys(word), self.world.ran
        assert len(set(ran)) == len(ran)
        if not fresh:
            assert not self.certain & {keys[name] for name in ran}
        if reply.error is None:
            before = dict(self.files)
            self.files |= self._expected(word)
            self.runs.append((reply.call_id, before))
            assert set(ran) >= {
                name for name in STEPS if fresh or keys[name] not in self.certain | self.possible
            }
            self.certain |= set(keys.values())
        else:
            self.possible |= {keys[name] for name in ran if name != stopped}
        self.was_killed = False

    def _run(self, word: str, *, fresh: bool = False, yes: bool | None = True) -> Reply:
        self.world.ran.clear()
        return anyio.run(lambda: run(self.server, word=word, fresh=fresh, yes=yes))

    def _with(self, step: str, then: object, word: str, *, fresh: bool = False) -> Reply:
        self.world.at, self.world.then = step, then  # type: ignore[assignment]
        try:
            return self._run(word, fresh=fresh)
        finally:
            self.world.at = ""

    @rule(word=WORDS, fresh=st.booleans())
    def succeeds(self, word: str, fresh: bool) -> None:
        reply = self._run(word, fresh=fresh)
        assert reply.error is None, reply.result
        self._ended(reply, word, fresh=fresh)

    @rule(word=WORDS)
    def is_denied(self, word: str) -> None:
        reply = self._run(word, yes=False)
        assert reply.error is not None
        assert reply.error.code is Code.DENIED
        assert self.world.ran == []

    @rule(word=WORDS, step=STEP, fresh=st.booleans())
    def fails(self, word: str, step: str, fresh: bool) -> None:
        reply = self._with(step, lambda: 1, word, fresh=fresh)
        assert (reply.error is not None) == (step in self.world.ran)
        if reply.error is not None:
            assert (reply.error.check or {})["step"] == step
        self._ended(reply, word, fresh=fresh, stopped=step)

    @rule(word=WORDS, step=STEP, fresh=st.booleans())
    def is_cancelled(self, word: str, step: str, fresh: bool) -> None:
        started, over = threading.Event(), threading.Event()

        def wait() -> int:
            started.set()
            over.wait(60)
            return 1

        async def cancelled() -> Reply | None:
            replies: list[Reply] = []

            async def call() -> None:
                replies.append(await run(self.server, word=word, fresh=fresh))
                group.cancel_scope.cancel()

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await anyio.to_thread.run_sync(started.wait, 60, abandon_on_cancel=True)
                group.cancel_scope.cancel()
                over.set()  # unlike a container, a thread cannot be killed
            return replies[0] if replies else None

        self.world.ran.clear()
        self.world.at, self.world.then = step, wait
        try:
            reply = anyio.run(cancelled)
        finally:
            self.world.at = ""
            over.set()
            started.set()
        if reply is not None:
            assert step not in self.world.ran
            self._ended(reply, word, fresh=fresh)
        else:
            keys = self._keys(word)
            self.possible |= {keys[name] for name in self.world.ran if name != step}

    @rule(word=WORDS, step=STEP)
    def meets_a_file_that_came_meanwhile(self, word: str, step: str) -> None:
        def write() -> int:
            (self.root / "c.bin").write_bytes(FOREIGN)
            return 0

        reply = self._with(step, write, word)
        if step in self.world.ran:
            assert reply.error is not None
            self.files["c.bin"] = FOREIGN
            self.runs.clear()  # an undo would find files other than those of the run
        self._ended(reply, word)

    @rule(
        word=WORDS,
        step=STEP,
        name=st.sampled_from(["one.bin", "two.bin"]),
        content=CONTENTS,
        fresh=st.booleans(),
    )
    def meets_an_input_that_changes(
        self, word: str, step: str, name: str, content: bytes, fresh: bool
    ) -> None:
        reply = self._with(step, lambda: (self.root / name).write_bytes(content) * 0, word, fresh=fresh)
        assert reply.error is None or step in self.world.ran
        read_by = "c" if name == "two.bin" else "a"
        if reply.error is not None:  # even for the same content, written again
            assert (reply.error.check or {})["step"] == read_by
        self._ended(reply, word, fresh=fresh, stopped=read_by)
        if step in self.world.ran:
            self.files[name] = content

    @rule(word=WORDS, step=STEP)
    def is_killed(self, word: str, step: str) -> None:
        keys = self._keys(word)
        self.serving.close()
        words = [sys.executable, "-m", "tests.integration.memory_workflows", str(self.folder), step, word]
        ended = subprocess.run(words, capture_output=True, check=False)
        self._serve()
        if ended.returncode == 0:  # the result of the step existed
            assert keys[step] in self.certain | self.possible, ended.stderr
            self.files |= self._expected(word)
            self.runs.clear()
        else:
            assert ended.returncode == -9, ended.stderr
            assert keys[step] not in self.certain
            self.was_killed = True
        self.possible |= set(keys.values()) - ({keys[step]} if self.was_killed else set())

    @rule()
    def is_restarted(self) -> None:
        self.serving.close()
        self._serve()

    @rule(name=st.sampled_from(["one.bin", "two.bin"]), content=CONTENTS)
    def another_input(self, name: str, content: bytes) -> None:
        (self.root / name).write_bytes(content)
        self.files[name] = content

    @rule()
    def is_undone(self) -> None:
        if not self.runs:  # no precondition: which runs succeed depends on which of two steps is faster
            return
        call, before = self.runs.pop()
        undo(self.server.app, call, "ann")
        inputs = {name: self.files[name] for name in ("one.bin", "two.bin")}
        self.files = {**before, **inputs}

    @invariant()
    def the_workspace_is_complete(self) -> None:
        contents = {path.name: path.read_bytes() for path in self.root.iterdir() if path.is_file()}
        assert contents == self.files

    @invariant()
    def private_results_are_those_of_recorded_steps(self) -> None:
        store = self.folder / "state" / "workflows"
        if not store.exists() or self.was_killed:
            return
        folders = {path.name for path in store.iterdir() if path.is_dir() and path.name != ".gdal-mcp"}
        records = list(store.glob("*.json"))
        assert not {name for name in folders if name.startswith("check-")}
        assert len(folders) <= len(records) <= len(self.certain | self.possible)


class TestQuick(WorkflowModel.TestCase):
    settings = settings(max_examples=8, stateful_step_count=20)


@pytest.mark.nightly
@pytest.mark.timeout(2400)  # a thousand steps, a fifth of which start a server to kill it
class TestLong(WorkflowModel.TestCase):
    settings = settings(max_examples=25, stateful_step_count=40)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir(mode=0o755)
    for name in ("one.bin", "two.bin"):
        (tmp_path / "ws" / name).write_bytes(b"red")
    return tmp_path


def published(folder: Path) -> dict[str, bytes]:
    return {name: path.read_bytes() for name in PUBLISHED.values() if (path := folder / "ws" / name).exists()}


@pytest.mark.parametrize(("step", "name"), [("a", "one.bin"), ("a", "two.bin"), ("c", "two.bin")])
def test_result_of_changed_file_is_discarded(folder: Path, step: str, name: str):
    def change() -> int:
        (folder / "ws" / name).write_bytes(b"something else")
        return 0

    world = Steps(at=step, then=change)
    with workflows(folder, world) as memory_server:
        reply = anyio.run(lambda: run(memory_server))
        assert reply.error is not None
        assert reply.error.code is Code.APPROVAL_EXPIRED
        assert published(folder) == {}
        world.at = ""
        (folder / "ws" / name).write_bytes(b"red")
        assert anyio.run(lambda: run(memory_server)).error is None
    red = joined("", b"red")
    assert published(folder) == {"b.bin": joined("", red), "c.bin": red}


def test_half_written_file_is_noticed_even_when_restored(
    folder: Path,
):
    two = folder / "ws" / "two.bin"
    world = Steps(at="c", then=lambda: two.write_bytes(b"r") * 0, read=lambda: two.write_bytes(b"red"))
    with workflows(folder, world) as memory_server:
        reply = anyio.run(lambda: run(memory_server))
        assert reply.error is not None
        assert reply.error.code is Code.APPROVAL_EXPIRED
        assert (reply.error.check or {})["step"] == "c"
        assert published(folder) == {}
        world.at = ""
        assert anyio.run(lambda: run(memory_server)).error is None
    red = joined("", b"red")
    assert published(folder) == {"b.bin": joined("", red), "c.bin": red}


class Mistaken(Preflight):
    """Predicts a CRS other than the one that the container describes, until it has learned the right one."""

    def __init__(self) -> None:
        self.learned: set[Path] = set()

    def within(self, _limits: object, /) -> "Mistaken":
        return self

    def predicted(self, draft: Draft, /) -> Any:
        return SimpleNamespace(crs="EPSG:4326") if draft.work.algorithm == "join" else None

    def contradictions(self, predicted: Any, facts: Mapping[str, Any], /) -> Mapping[str, tuple[str, str]]:
        actual = facts["crs"]["code"]
        return {"CRS": (predicted.crs, actual)} if predicted is not None and predicted.crs != actual else {}

    def learn(self, located: WorkspacePath, _facts: object, _predicted: object = None, /) -> None:
        self.learned.add(located.path)

    def kind_of(self, located: WorkspacePath, /) -> str:
        return MADE_CRS if located.path in self.learned else "EPSG:4326"


@dataclass
class Answers(Person):
    """Answers its questions in turn, and no further ones."""

    answers: list[bool] = field(default_factory=list)

    async def ask(self, question: ApprovalQuestion) -> Decision | None:
        self.says = self.answers[len(self.asked)]
        return await super().ask(question)


@dataclass
class Repeating(Person):
    """A client that sends each call again with the answer, as in the era of 2026-07-28."""

    answer: str = ""  # the id of the approval that it answers with yes

    def answered(self) -> tuple[str, Decision | None] | None:
        return (
            (self.answer, Decision(approved=True, by="ann", how="a test", way=self.way))
            if self.answer
            else None
        )

    def again(self) -> Person:
        return replace(self, answer="")

    async def ask(self, question: ApprovalQuestion) -> Decision | None:
        raise Suspended(question.row.id)


@pytest.fixture
def mistaken(folder: Path) -> Iterator[Server]:
    """A server whose prediction is wrong for each step, until it has the step's result."""
    preflight = Mistaken()
    with workflows(folder, Steps(), lambda world: toolbox(world, lambda _limits: preflight)) as memory_server:
        yield memory_server


def run_by(memory_server: Server, person: Approver, **more: Any) -> Reply:
    return anyio.run(lambda: memory_server.call("workflow_run", by=person, workflow=document(), **more))


def differences(row: Approval) -> set[str]:
    """The steps that a question names because their results are not as predicted."""
    return {check["step"] for check in row.details["checks"] if check["code"] == "not_as_predicted"}


@pytest.mark.claim("approval.workflow-difference-shown")
def test_unpredicted_crs_is_asked_about_within_the_call(folder: Path, mistaken: Server):
    person = Person()
    reply = run_by(mistaken, person)
    assert reply.error is None
    assert set(published(folder)) == set(PUBLISHED.values())
    shown = [differences(row) for row in person.asked]
    assert all(before < after for before, after in pairwise(shown))
    assert (shown[0], shown[-1]) == (set(), set(STEPS))
    commands = ["\n".join(step["command"] for step in row.details["steps"]) for row in person.asked]
    assert (commands[0].count(MADE_CRS), commands[-1].count(MADE_CRS)) == (0, len(STEPS))
    # each question is a call with a record of its own, and an approval covers the differences that it showed
    assert (
        len({row.plan_digest for row in person.asked})
        == len(person.asked)
        == mistaken.history().count("workflow_run")
    )


@pytest.mark.claim("approval.workflow-difference-shown")
def test_refused_difference_publishes_nothing(folder: Path, mistaken: Server):
    person = Answers(answers=[True, False])
    reply = run_by(mistaken, person)
    assert reply.error is not None
    assert (reply.error.code, len(person.asked)) == (Code.DENIED, 2)
    assert published(folder) == {}


@pytest.mark.claim("approval.workflow-difference-shown")
def test_repeated_call_is_also_asked_about_the_difference(folder: Path, mistaken: Server):
    questions: list[str] = []
    for _ in range(len(STEPS) + 1):
        with pytest.raises(Suspended) as question:
            run_by(mistaken, Repeating(answer=questions[-1] if questions else ""))
        questions.append(str(question.value.reply))
        row = mistaken.app.approvals.approvals.get(questions[-1])
        assert row is not None
        if differences(row) == {*STEPS}:
            break
    assert published(folder) == {}
    assert run_by(mistaken, Repeating(answer=questions[-1])).error is None
    assert set(published(folder)) == set(PUBLISHED.values())


@pytest.mark.parametrize("fresh", [False, True])
def test_run_with_unseen_difference_ends_and_next_continues(folder: Path, mistaken: Server, *, fresh: bool):
    command = Terminal("ann", assume_yes=True)
    person: Approver = Person() if fresh else command  # a fresh run would make the same result again
    reply = run_by(mistaken, person, fresh=fresh)
    for _ in STEPS:
        assert reply.error is not None
        assert reply.error.code is Code.APPROVAL_EXPIRED
        assert (reply.error.check or {})["differences"]["CRS"]["made"] == MADE_CRS
        assert published(folder) == {}
        reply = run_by(mistaken, command)
        if reply.error is None:
            break
    assert reply.error is None
    assert set(published(folder)) == set(PUBLISHED.values())


def test_unusable_result_is_not_asked_about_again(folder: Path):
    class Uncached(Mistaken):
        def names_others(self, _located: WorkspacePath, /) -> bool:
            return True

    person = Person()
    with workflows(
        folder, Steps(), lambda world: toolbox(world, lambda _limits: Uncached())
    ) as memory_server:
        reply = run_by(memory_server, person)
    assert reply.error is not None
    assert (reply.error.code, len(person.asked)) == (Code.APPROVAL_EXPIRED, 1)
    assert published(folder) == {}


def test_answer_has_warnings_for_new_and_reused_results(folder: Path):
    warning = {"code": "planted", "message": "The result is empty."}

    def warning_box(world: World) -> Toolbox:
        box = toolbox(world)
        described = Described({"crs": {"code": MADE_CRS}}, checks=(warning,))
        return replace(box, answering=replace(box.answering, describe=lambda _final, n: (described,) * n))

    with workflows(folder, Steps(), warning_box) as memory_server:
        for is_reused in (False, True):
            steps = anyio.run(lambda: run(memory_server)).result["steps"]
            assert [step.get("used_again", False) for step in steps] == [is_reused] * len(STEPS)
            assert [[check["code"] for check in step["checks"]] for step in steps] == [["planted"]] * len(
                STEPS
            )


def test_question_has_median_time_per_command_or_unknown(
    folder: Path,
):
    person = Person()
    with workflows(folder, Steps()) as memory_server:
        for fresh in (False, False, True):
            assert run_by(memory_server, person, fresh=fresh).error is None
    first, second, third = (str(row.details["time"]) for row in person.asked)
    assert "unknown" in first
    assert second == ""  # no step runs
    assert re.findall(r"median of (\d+) calls", third) == [str(len(STEPS))] * len(STEPS)
    assert third in person.asked[2].summary


def test_independent_steps_run_at_the_same_time(folder: Path):
    world = Steps(at="a")
    world.then = lambda: until(lambda: "c" in world.ran) or 0
    with workflows(folder, world) as memory_server:
        assert anyio.run(lambda: run(memory_server)).error is None
    assert world.ran[-1] == "b"


def test_run_progress_names_each_step_and_never_falls(folder: Path):
    reports: list[tuple[float, str]] = []
    with workflows(folder, Steps()) as memory_server:
        request = Request(
            "workflow_run",
            {"workflow": document()},
            ANN,
            "test",
            Person(),
            on_progress=lambda fraction, message: reports.append((fraction, message)),
        )
        assert anyio.run(lambda: memory_server.pipeline.call(request)).error is None
    fractions = [fraction for fraction, message in reports if message.startswith("step ")]
    assert {name for name in STEPS if any(message.startswith(f"step {name}") for _, message in reports)} == {
        *STEPS
    }
    assert fractions == sorted(fractions)
    assert fractions[-1] > 0
