"""Interactions of a call's steps: approval with queue, quota, cancellation, engine and records. Runs in milliseconds."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp_types import ElicitResult

from gdal_mcp.approvals import waiting
from gdal_mcp.approvals.model import Approval, ApprovalQuestion, Decision
from gdal_mcp.calls.pipeline import Reply
from gdal_mcp.errors import Code
from gdal_mcp.server.mcp.elicitation import Elicitation
from gdal_mcp.settings import Settings
from sandbox.capacity import LockFileCapacity
from sandbox.errors import EngineUnavailable
from tests.integration.memory_server import ANN, BEN, Person, Server, server
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("unmeasured")]

BOUNDS = '[[principal]]\nprincipals = ["local:ann"]\n{}\n[[principal]]\nprincipals = ["*"]'


@pytest.fixture
def memory_server(tmp_path: Path) -> Iterator[Server]:
    with server(tmp_path) as started:
        yield started


async def wait_for(condition: Any) -> None:
    """Returns when the condition holds; other tasks continue meanwhile."""
    await anyio.to_thread.run_sync(until, condition)


def code(reply: Reply) -> Code | None:
    return reply.error.code if reply.error is not None else None


@dataclass
class Held:
    """A call that runs for as long as the test wants, and occupies its slot."""

    server: Server
    group: Any

    async def start(self) -> None:
        self.server.world.gate.clear()
        self.group.start_soon(lambda: self.server.call("look", path="in.bin"))
        await wait_for(lambda: "look" in self.server.world.jobs)

    def let_go(self) -> None:
        self.server.world.gate.set()


# An approval is never lost


@pytest.mark.claim("approval.kept-until-used")
@pytest.mark.parametrize("full", ["queue", "rate"])
async def test_approval_without_slot_serves_the_repeated_call(tmp_path: Path, full: str):
    policy = BOUNDS.format("concurrent = 1") if full == "rate" else ""
    options = {"queue_length": 0} if full == "queue" else {}
    with server(tmp_path, policy, concurrent=1 if full == "queue" else 4, **options) as memory_server:
        person = Person()
        async with anyio.create_task_group() as group:
            memory_server.pipeline.entitlements.of(ANN.id).preflights["mem"].described(
                [_located(memory_server)], ()
            )
            long_call = Held(memory_server, group)
            await long_call.start()
            refused = await memory_server.make(by=person)
            assert code(refused) is (Code.BUSY if full == "queue" else Code.RATE_LIMITED)
            assert memory_server.states() == ["released"]
            long_call.let_go()
        again = await memory_server.make(by=person)
        assert again.error is None
        assert (memory_server.root / "out.bin").read_bytes() == b"made"
        assert len(person.asked) == 1
        assert memory_server.states() == ["consumed"]


def _located(memory_server: Server) -> Any:
    return memory_server.app.workspaces.input("in.bin")


@pytest.mark.claim("approval.kept-until-used")
async def test_approval_cancelled_in_queue_serves_the_repeated_call(
    tmp_path: Path,
):
    with server(tmp_path, concurrent=1) as memory_server:
        memory_server.pipeline.entitlements.of(ANN.id).preflights["mem"].described(
            [_located(memory_server)], ()
        )
        person = Person()
        async with anyio.create_task_group() as group:
            long_call = Held(memory_server, group)
            await long_call.start()
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as calls:
                    calls.start_soon(lambda: memory_server.make(by=person))
                    await wait_for(lambda: memory_server.pipeline.admission.waiting == 1)
                    assert memory_server.states() == ["reserved"]
                    scope.cancel()
            assert memory_server.states() == ["released"]
            long_call.let_go()
        assert (await memory_server.make(by=person)).error is None
        assert len(person.asked) == 1


async def test_cancelled_call_withdraws_its_unanswered_question(tmp_path: Path):
    with server(tmp_path, approval_wait=60.0) as memory_server:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as calls:
                calls.start_soon(memory_server.make)
                await wait_for(lambda: memory_server.states() == ["asked"])
                scope.cancel()
        assert memory_server.states() == ["expired"]
        assert memory_server.events()[-1]["outcome"] == "CANCELLED"


@pytest.mark.claim("approval.first-decides")
async def test_approval_withdrawn_in_queue_runs_nothing(tmp_path):
    """A and B are equal; the approval of A is withdrawn while both wait for a slot."""
    with server(tmp_path, concurrent=1) as memory_server:
        memory_server.pipeline.entitlements.of(ANN.id).preflights["mem"].described(
            [_located(memory_server)], ()
        )
        replies: dict[str, Reply] = {}
        people = {"a": Person(), "b": Person()}

        async def call(name: str) -> None:
            replies[name] = await memory_server.make(by=people[name])

        async with anyio.create_task_group() as group:
            long_call = Held(memory_server, group)
            await long_call.start()
            for number, name in enumerate(people, 1):
                group.start_soon(call, name)
                await wait_for(lambda number=number: memory_server.pipeline.admission.waiting == number)
            row = people["a"].asked[0]
            memory_server.app.approvals.decide(row.id, Decision(False, "the person", "a page", "console"))
            long_call.let_go()
        assert code(replies["a"]) is Code.DENIED
        assert memory_server.states() == ["consumed", "denied"]
        started = [event["call"] for event in memory_server.events() if event["type"] == "call.started"]
        assert replies["a"].call_id not in started
        assert replies["b"].call_id in started


@pytest.mark.claim("approval.kept-until-used")
async def test_approval_just_before_waiting_ends_counts(
    memory_server: Server, monkeypatch: pytest.MonkeyPatch
):
    """The call checks the row for the last time, then the console approves it, then the wait ends."""
    store, checked = memory_server.app.approvals.approvals, threading.Event()
    get = store.get

    def checking(approval_id: str) -> Approval | None:
        row = get(approval_id)
        checked.set()
        return row

    class Silent(Person):
        async def ask(self, question: ApprovalQuestion) -> Decision | None:
            self.asked.append(question.row)
            await wait_for(checked.is_set)
            memory_server.decide()
            return None

    monkeypatch.setattr(waiting, "LOOK_SECONDS", 600.0)
    monkeypatch.setattr(store, "get", checking)
    person = Silent()
    assert (await memory_server.make(by=person)).error is None
    assert [row.state for row in person.asked] == ["asked"]
    assert memory_server.states() == ["consumed"]


@pytest.mark.claim("approval.kept-until-used")
async def test_approval_between_timeout_and_answer_counts(
    memory_server: Server, monkeypatch: pytest.MonkeyPatch
):
    store = memory_server.app.approvals.approvals
    claim = store.claim

    def approved_first(approval_id: str, holder: str) -> Approval | None:
        memory_server.decide()
        return claim(approval_id, holder)

    monkeypatch.setattr(store, "claim", approved_first)
    assert (await memory_server.make()).error is None
    assert memory_server.states() == ["consumed"]


@pytest.mark.claim("approval.kept-until-used")
@pytest.mark.parametrize("lacking", [Code.BUSY, Code.ENGINE_UNAVAILABLE])
async def test_approval_without_container_serves_the_repeated_call(
    memory_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: Code
):
    host = memory_server.pipeline.execution.hosting.ready()
    memory_server.pipeline.entitlements.of(ANN.id).preflights["mem"].described([_located(memory_server)], ())
    person = Person()
    with monkeypatch.context() as patched, closing(LockFileCapacity(tmp_path / "memory", 1 << 20)) as memory:
        if lacking is Code.BUSY:
            patched.setattr(host.runner, "capacity", memory)
        else:
            patched.setattr(host.engine, "create", _refuse)
        assert code(await memory_server.make(by=person)) is lacking
    assert memory_server.states() == ["released"]
    assert (await memory_server.make(by=person)).error is None
    assert len(person.asked) == 1
    assert memory_server.states() == ["consumed"]


def _refuse(*_: object) -> None:
    raise EngineUnavailable("it went away")


@pytest.mark.claim("approval.first-decides")
async def test_approval_withdrawn_while_the_container_starts_runs_nothing(
    memory_server: Server, monkeypatch: pytest.MonkeyPatch
):
    host, person = memory_server.pipeline.execution.hosting.ready(), Person()
    memory_server.pipeline.entitlements.of(ANN.id).preflights["mem"].described([_located(memory_server)], ())
    create = host.engine.create

    def withdrawn(*arguments: Any) -> Any:
        no = Decision(False, "the person", "a page", "console")
        memory_server.app.approvals.decide(person.asked[0].id, no)
        return create(*arguments)

    monkeypatch.setattr(host.engine, "create", withdrawn)
    assert code(await memory_server.make(by=person)) is Code.DENIED
    assert memory_server.states() == ["denied"]
    assert memory_server.world.jobs == []


@pytest.mark.claim("approval.kept-until-used")
async def test_approval_counts_after_the_registry_was_locked(memory_server: Server, tmp_path: Path):
    """The call ends while another program holds the registry, so it cannot record that it no longer waits."""
    store, registry = memory_server.app.approvals.approvals, memory_server.app.registry
    for rows in (store._rows, registry._rows):
        rows._db.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(tmp_path / "state" / "registry.sqlite", isolation_level=None)) as other:

        class Locking(Person):
            async def ask(self, question: ApprovalQuestion) -> Decision | None:
                other.execute("BEGIN IMMEDIATE")
                return await super().ask(question)

        assert code(await memory_server.make(by=Locking(says=None))) is Code.INTERNAL
        other.execute("COMMIT")
    assert memory_server.states() == ["asked"]
    memory_server.decide()
    person = Person()
    assert (await memory_server.make(by=person)).error is None
    assert person.asked == []
    assert memory_server.states() == ["consumed"]


@pytest.mark.claim("approval.kept-until-used")
async def test_client_with_five_second_timeout_gets_its_question(
    tmp_path: Path,
):
    """Like openai-agents, which has no elicitation. The same call sent again waits for the same question."""
    with server(tmp_path, approval_wait=Settings.model_fields["approval_wait"].default) as memory_server:
        with anyio.fail_after(5):
            confirmation = (await memory_server.make()).result["error"]["requiresConfirmation"]
        replies: list[Reply] = []

        async def again() -> None:
            replies.append(await memory_server.make())

        async with anyio.create_task_group() as group:
            group.start_soon(again)
            await wait_for(lambda: memory_server.app.approvals.approvals.pending()[-1].holder != "")
            row = memory_server.decide()
        assert row is not None
        assert (row.id, row.state) == (confirmation["approval"], "approved")
        assert replies[0].error is None
        assert memory_server.states() == ["consumed"]


@pytest.mark.claim("approval.kept-until-used")
async def test_approval_after_the_call_waits_for_repetition(memory_server: Server):
    confirmation = (await memory_server.make()).result["error"]["requiresConfirmation"]
    row = memory_server.decide()
    assert row is not None
    assert (row.id, row.state, row.decided_way) == (confirmation["approval"], "released", "console")
    assert (await memory_server.make("other.bin")).error is not None, "another call"
    assert (await memory_server.make()).error is None
    assert (await memory_server.make("out2.bin")).error is not None


async def test_change_during_approval_stops_the_call(memory_server: Server):
    class Reading(Person):
        async def ask(self, question: ApprovalQuestion) -> Decision | None:
            (memory_server.root / "in.dbf").write_bytes(b"beside the input, and of its name")
            return await super().ask(question)

    assert code(await memory_server.make(by=Reading())) is Code.APPROVAL_EXPIRED
    assert not (memory_server.root / "out.bin").exists()


@pytest.mark.claim("approval.covers-hidden")
@pytest.mark.parametrize("other", ["?key=OTHER", "?token=public", "", "?key=public#with=aux.xml"])
async def test_approval_of_signed_address_covers_no_other(tmp_path: Path, other: str):
    """The other call has its own question; the records contain neither secret."""
    with server(tmp_path, remote="data.test") as memory_server:
        address = "https://data.test/x.tif"
        memory_server.pipeline.entitlements.of(ANN.id).preflights["mem"].described(
            [_Attributes(path=Path(f"/vsihost/1/{name}")) for name in ("x.tif",)], ()
        )
        for text in (f"{address}?key=public", f"{address}{other}"):
            reply = await memory_server.call("make", path=text, output="out.bin")
            assert code(reply) is Code.DENIED
            if "released" not in memory_server.states():
                memory_server.decide()
        assert memory_server.states() == ["asked", "released"]
        assert memory_server.world.jobs == []
        assert "public" not in memory_server.app.audit.path.read_text(encoding="utf-8")


# Who counts as a person


@dataclass
class Session:
    """The session of a client, as the SDK shows it; its answer to an elicitation is what it sent."""

    answer: dict[str, Any]
    asked: int = 0

    @property
    def client_capabilities(self) -> Any:
        return _Attributes(elicitation=_Attributes(form=None, url=None))

    async def elicit_form(self, *_: object, **__: object) -> ElicitResult:
        self.asked += 1
        return ElicitResult.model_validate(self.answer)


class _Attributes:
    def __init__(self, **values: Any) -> None:
        self.__dict__ |= values


def client(session: Session) -> Elicitation:
    context: Any = _Attributes(session=session, protocol_version="2025-06-18", request_id=1)
    return Elicitation(context, _Attributes(input_responses=None, request_state=None), "its user")  # type: ignore[arg-type]


async def test_unreadable_answer_leaves_the_question_to_others(memory_server: Server):
    session = Session({"action": "maybe"})
    reply = await memory_server.make(by=client(session))
    assert session.asked == 1
    assert code(reply) is Code.DENIED
    assert reply.result["error"]["requiresConfirmation"]
    assert memory_server.states() == ["asked"]
    memory_server.decide()
    assert (await memory_server.make(by=client(session))).error is None
    assert session.asked == 1


@pytest.mark.claim("approval.ways")
@pytest.mark.parametrize(("ways", "outcome"), [("console", "asked"), ("console,elicitation", "denied")])
async def test_client_denial_counts_only_if_settings_allow(tmp_path: Path, ways: str, outcome: str):
    with server(tmp_path, approval_ways=ways) as memory_server:
        reply = await memory_server.make(by=Person(says=False))
        assert reply.error is not None
        assert memory_server.states() == [outcome]
        answered = [event for event in memory_server.events() if event["type"] == "approval.answered"]
        assert [(event["outcome"], event["way"]) for event in answered] == [
            ("denied" if outcome == "denied" else "not counted", "elicitation")
        ]


# Examining inputs is not a call


async def test_examination_before_approval_is_not_a_user_call(tmp_path: Path):
    with server(tmp_path, BOUNDS.format("calls_per_minute = 1")) as memory_server:
        reply = await memory_server.make(by=Person())
        assert reply.error is None
        assert memory_server.world.jobs == ["describe", "make"]
        assert memory_server.history() == ["make"]
        described = [event for event in memory_server.events() if event["type"] == "inputs.described"]
        assert [event["call"] for event in described] == [reply.call_id]


async def test_failed_examination_ends_the_call_unasked(memory_server: Server):
    memory_server.world.failing, person = "describe", Person()
    reply = await memory_server.make(by=person)
    assert code(reply) is Code.TOOL_ERROR
    assert person.asked == []
    assert memory_server.world.jobs == ["describe"]
    memory_server.world.failing = ""
    assert (await memory_server.make(by=person)).error is None


# Quotas


async def test_exhausted_output_quota_is_reported_before_approval_only(tmp_path: Path):
    with server(tmp_path, BOUNDS.format('output_bytes_a_day = "1MiB"')) as memory_server:
        memory_server.pipeline.rates.record_use(ANN.id, 0.0, 1 << 20)
        person = Person()
        assert code(await memory_server.make(by=person)) is Code.RATE_LIMITED
        assert person.asked == []
        assert (await memory_server.call("look", path="in.bin")).error is None


async def test_locked_database_blocks_only_its_own_call(tmp_path: Path):
    """The event loop continues: a call by another principal is answered while the quotas of the first cannot be read."""
    with server(tmp_path, BOUNDS.format('output_bytes_a_day = "1MiB"')) as memory_server:
        memory_server.pipeline.rates.record_use(ANN.id, 0.0, 1)
        holder = sqlite3.connect(tmp_path / "state" / "usage.sqlite", isolation_level=None)
        replies: list[Reply] = []

        async def call() -> None:
            replies.append(await memory_server.call("look", path="in.bin"))

        holder.execute("BEGIN IMMEDIATE")
        memory_server.pipeline.rates._unwritten.append((0, ANN.id, 0.0, 0))  # so that it has to write
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await wait_for(memory_server.pipeline.activity.all)
            assert (await memory_server.call("look", BEN, path="in.bin")).error is None
            assert replies == []
            holder.execute("COMMIT")
            holder.close()
        assert replies[0].error is None


# Planning


@pytest.mark.claim("resources.drafts-hold-nobody")
async def test_silent_engine_delays_only_calls_that_need_it(memory_server: Server):
    memory_server.world.engine.clear()
    async with anyio.create_task_group() as group:
        for _ in range(45):
            group.start_soon(lambda: memory_server.call("look", path="in.bin"))
        await wait_for(lambda: memory_server.world.waiting_for_engine >= 4)
        for who in (BEN, ANN):  # calls that need no engine are answered to both
            assert (await memory_server.call("tell", who)).result == {"told": 1}
        assert memory_server.world.waiting_for_engine == 4
        group.cancel_scope.cancel()
    assert memory_server.pipeline.active == set()


# Tools without a container


@pytest.mark.claim("audit.no-record-no-run")
async def test_immediate_tool_does_nothing_without_a_record(memory_server: Server):
    await memory_server.call("tell")
    log = memory_server.app.audit.path
    log.write_bytes(log.read_bytes()[:-40])
    assert code(await memory_server.call("reach")) is Code.INTERNAL
    assert memory_server.world.reached == 0


@pytest.mark.claim("identity.quotas")
@pytest.mark.parametrize("tool", ["reach", "tell"])
async def test_rates_count_tools_without_containers(tmp_path: Path, tool: str):
    with server(tmp_path, BOUNDS.format("calls_per_minute = 2")) as memory_server:
        codes = [code(await memory_server.call(tool)) for _ in range(6)]
        assert codes == [None, None, *[Code.RATE_LIMITED] * 4]
        assert memory_server.world.reached == (2 if tool == "reach" else 0)
        started = [event for event in memory_server.events() if event["type"] == "call.started"]
        assert len(started) == 2


async def test_rules_hold_for_tools_without_a_container(tmp_path: Path):
    rules = '[[rule]]\ndecision = "deny"\ntools = ["reach", "tell"]'
    with server(tmp_path, rules) as memory_server:
        assert [code(await memory_server.call(tool)) for tool in ("reach", "tell")] == [
            Code.DENIED,
            Code.DENIED,
        ]
        assert memory_server.world.reached == 0
    with server(tmp_path, approval="always") as memory_server:
        assert [code(await memory_server.call(tool)) for tool in ("reach", "tell")] == [Code.DENIED, None]
        assert memory_server.world.reached == 0
