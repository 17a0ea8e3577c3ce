"""Steps run in order and stop at the first failure; only complete results are found again."""

import os
import subprocess
import sys
from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.calls.workflows.document import dependencies, parse
from gdal_mcp.calls.workflows.schedule import StepFailed, run_steps
from gdal_mcp.calls.workflows.steps import WorkflowStep
from gdal_mcp.calls.workflows.store import StepResult, StepStore, step_key
from gdal_mcp.plan import Command, Draft
from sandbox.workspace import Workspace, Workspaces

USER = (os.geteuid() or 65534, os.getegid() or 65534)
RUN = "0123456789abcdef"


def document_of(graph):
    steps = [
        {"id": f"s{n}", "tool": "info", "after": [f"s{m}" for m in before]} for n, before in enumerate(graph)
    ]
    return parse({"workflow": 1, "name": "a", "steps": steps})


graphs = st.integers(1, 8).flatmap(
    lambda n: st.tuples(*(st.sets(st.integers(0, i - 1)) if i else st.just(set()) for i in range(n)))
)


@given(graphs, st.integers(1, 3))
def test_steps_wait_for_dependencies_and_few_run_together(graph, at_once):
    document, started, running, most = document_of(graph), [], set(), []
    before = dependencies(document)

    async def run(step, done):
        assert before[step] <= set(done)
        started.append(step)
        running.add(step)
        most.append(len(running))
        await anyio.lowlevel.checkpoint()
        running.discard(step)
        return step

    assert anyio.run(run_steps, document, run, at_once) == {step: step for step in before}
    assert sorted(started) == sorted(before)
    assert max(most) <= at_once


@given(graphs, st.data())
def test_failure_starts_nothing_and_cancels_running_steps(graph, data):
    document = document_of(graph)
    bad = data.draw(st.sampled_from([step.id for step in document.steps]))
    after_failure, cancelled, running = [], [], set()
    failed = []

    async def run(step, done):
        if failed:
            after_failure.append(step)
        if step == bad:
            failed.append(step)
            raise ValueError(step)
        running.add(step)
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            cancelled.append(step)
            raise
        finally:
            running.discard(step)
        return step

    with pytest.raises(StepFailed) as caught:
        anyio.run(run_steps, document, run, 3)
    assert (caught.value.step, after_failure, running) == (bad, [], set())


def put(store, key, text="x", run=RUN):
    with store.run(run, USER) as folder:
        path = folder.step("s") / "a.tif"
        path.write_text(text)
        store.put(StepResult(key, "call", (str(path),), ("digest",)), [path])
    return path


KEY = step_key({"tool": "info"})


def test_result_is_found_by_same_parts_only(tmp_path):
    store = StepStore(tmp_path / "steps")
    path = put(store, KEY)
    assert store.find(step_key({"tool": "info"})).outputs == (str(path),)
    assert store.find(step_key({"tool": "convert"})) is None


def test_changed_or_removed_result_file_is_not_used(tmp_path):
    store = StepStore(tmp_path / "steps")
    path = put(store, KEY)
    path.write_text("y")
    assert store.find(KEY) is None
    path.unlink()
    assert store.find(KEY) is None


def test_files_without_result_are_removed_after_their_run(tmp_path):
    store = StepStore(tmp_path / "steps")
    with store.run(RUN, USER) as folder:
        (folder.step("s") / "a.tif").write_text("x")
        store.prune()
        assert folder.path.exists()
    assert not folder.path.exists()


def test_killed_run_leaves_nothing_after_the_next(tmp_path):
    store = StepStore(tmp_path / "steps")
    code = (
        "import os, sys, pathlib; from gdal_mcp.calls.workflows.store import StepStore;"
        f"c = StepStore(pathlib.Path({str(tmp_path / 'steps')!r})).run({RUN!r}, {USER!r}); c.__enter__(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert (tmp_path / "steps" / RUN).exists()
    put(store, KEY, run="f" * 16)
    assert not (tmp_path / "steps" / RUN).exists()
    assert store.find(KEY) is not None


def test_old_results_and_excess_bytes_go_first(tmp_path):
    now = [1e9]
    store = StepStore(tmp_path / "steps", max_age=100, max_bytes=25, clock=lambda: now[0])
    keys = [step_key({"n": n}) for n in range(3)]
    for n, key in enumerate(keys):
        put(store, key, "0123456789", run=f"{n:016x}")
        now[0] += 10
        assert store.find(key) is not None  # which also marks it as used now
    put(store, step_key({"n": 4}), "", run="a" * 16)
    assert [store.find(key) is not None for key in keys] == [False, True, True]
    now[0] += 1000
    store.prune()
    assert [store.find(key) for key in keys] == [None] * 3


def test_excess_results_stay_while_a_run_uses_them(tmp_path):
    store = StepStore(tmp_path / "steps", max_bytes=25)
    used = put(store, KEY, "0123456789", run="b" * 16)
    with store.run(RUN, USER) as folder, store.hold([store.find(KEY)]), store.hold([store.find(KEY)]):
        own = folder.step("s") / "a.tif"
        own.write_text("0" * 100)
        store.put(StepResult(step_key({"n": -1}), "call", (str(own),), ("digest",)), [own])
        for n in range(20):
            put(store, step_key({"n": n}), "0123456789", run=f"{n:016x}")
        assert used.exists()
        assert own.exists()
    store.prune()
    assert not used.exists()
    left = list((tmp_path / "steps").rglob("*.tif"))
    assert sum(path.stat().st_size for path in left) <= 25
    assert len([*(tmp_path / "steps").glob("*.lock")]) == len(left)


def test_result_with_removed_files_cannot_be_held(tmp_path):
    store = StepStore(tmp_path / "steps")
    put(store, KEY)
    result = store.find(KEY)
    replace(store, max_bytes=-1).prune()
    with pytest.raises(FileNotFoundError), store.hold([result]):
        pass


def test_a_step_sees_only_the_results_it_reads(
    tmp_path,
):
    (tmp_path / "maps").mkdir()
    store, maps = StepStore(tmp_path / "steps"), Workspace(tmp_path / "maps", writable=True)
    path = put(store, KEY)
    both, step = Workspaces((maps, store.workspace)), WorkflowStep(store=store.workspace, folders=())
    (tmp_path / "maps" / "in.tif").write_text("x")
    alone = Draft(Command("info", ()), (both.input(str(tmp_path / "maps" / "in.tif")),))
    assert step.visible(alone, both).items == (maps,)
    assert step.places(alone, step.visible(alone, both)) is None
    reads = Draft(Command("info", ()), (both.input(str(path)),))
    places = step.places(reads, step.visible(reads, both))
    assert [place.path for place in places] == [maps.root, path.parent]
