"""The suite judges: an engine that does less fails, an excuse that is not true fails too, and one check misses nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sandbox.conformance.__main__ import main
from sandbox.conformance.bench import Bench
from sandbox.conformance.known import KNOWN, MEMORY
from sandbox.conformance.suite import CHECKS, Check, Exemption, judge, run
from sandbox.engine import ContainerState, Leftover
from sandbox.engines.memory import MemoryEngine
from sandbox.errors import EngineUnavailable
from sandbox.template import SandboxTemplate
from tests.engines.test_memory import IMAGE, gone, program

pytestmark = pytest.mark.claim("engine.suite-notices-a-worse-engine")


def check(name: str) -> Check:
    return next(one for one in CHECKS if one.id == name)


def bench_of(engine: MemoryEngine, folder: Path) -> Bench:
    return Bench(engine, IMAGE, folder, gone=gone)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = bench_of(MemoryEngine(program, frozenset({IMAGE})), tmp_path)
    yield made
    for container in made.ours():
        made.engine.remove(container)


class PullsImages(MemoryEngine):
    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        self.images.known |= {template.image}
        return super().create(template, labels)


class StartsAtOnce(MemoryEngine):
    def create(self, template: SandboxTemplate, labels: Mapping[str, str]) -> str:
        container = super().create(template, labels)
        super().start(container)
        return container

    def start(self, container: str) -> None:
        pass


class LosesLabels(MemoryEngine):
    def leftovers(self) -> tuple[Leftover, ...]:
        return ()


class SaysSuccess(MemoryEngine):
    def state(self, container: str) -> ContainerState | None:
        found = super().state(container)
        return found and ContainerState(found.running, 0, out_of_memory=False)


class RemovesOnce(MemoryEngine):
    def remove(self, container: str) -> None:
        if container not in self.boxes:
            raise EngineUnavailable("no such container")
        super().remove(container)


class KnowsEverything(MemoryEngine):
    def state(self, container: str) -> ContainerState | None:
        return super().state(container) or ContainerState(running=False, exit_code=0, out_of_memory=False)


class NeverGone(MemoryEngine):
    def _answer(self) -> None:
        pass


WORSE = {
    "create.image-missing": PullsImages,
    "create.starts-nothing": StartsAtOnce,
    "create.labels": LosesLabels,
    "end.exit-code": SaysSuccess,
    "remove.again": RemovesOnce,
    "unknown": KnowsEverything,
}


@pytest.mark.parametrize("name", WORSE)
def test_an_engine_that_does_less_fails_the_check_for_it(name: str, tmp_path: Path) -> None:
    bench = bench_of(WORSE[name](program, frozenset({IMAGE})), tmp_path)
    verdict = judge(bench, check(name))
    assert (verdict.status, verdict.ok) == ("failed", False)
    assert verdict.detail


def test_an_engine_that_answers_although_it_is_gone_fails(tmp_path: Path) -> None:
    bench = bench_of(MemoryEngine(program), tmp_path)
    bench.gone = lambda: NeverGone(program)
    assert judge(bench, check("engine.gone")).status == "failed"


def test_an_excuse_holds_for_its_check_alone(bench: Bench) -> None:
    excuse = (Exemption("user", "a thread has no user"),)
    assert judge(bench, check("user"), excuse).status == "exempt"
    assert judge(bench, check("network"), excuse).status == "failed"


def test_an_excuse_that_is_not_true_is_an_error_unless_it_varies(bench: Bench) -> None:
    untrue = judge(bench, check("engine.info"), (Exemption("engine.info", "it is shy"),))
    assert (untrue.status, untrue.ok) == ("exempt but passed", False)
    varies = (Exemption("engine.info", "it is shy at times", varies=True),)
    assert judge(bench, check("engine.info"), varies).status == "passed"


def test_an_excuse_for_nothing_is_refused(bench: Bench) -> None:
    with pytest.raises(ValueError, match="no-such-check"):
        judge(bench, check("user"), (Exemption("no-such-check", "why not"),))


def test_every_check_gets_a_verdict(bench: Bench) -> None:
    verdicts = list(run(bench, MEMORY.exemptions))
    assert [one.check.id for one in verdicts] == [one.id for one in CHECKS]
    assert all(one.ok for one in verdicts)


def test_every_excuse_is_for_a_check_once_and_has_its_reason() -> None:
    names = {one.id for one in CHECKS}
    assert len(names) == len(CHECKS)
    for engine in KNOWN:
        excused = [one.check for one in engine.exemptions]
        assert len(excused) == len(set(excused))
        assert set(excused) <= names
        assert all(one.reason for one in engine.exemptions)


def test_the_command_ends_with_a_failure_where_no_engine_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--engine", "unix:///nonexistent/engine.sock", "--image", "none"]) == 1
    assert "/nonexistent/engine.sock" in capsys.readouterr().err
