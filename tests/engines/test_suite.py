"""Tests of the suite: an engine with a defect fails the check for it, and an exemption that is not true fails too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox.engine import Container, ContainerState, Leftover
from sandbox.errors import EngineUnavailable
from sandbox.template import SandboxTemplate
from tests.engines.bench import Bench
from tests.engines.checks import CHECKS, FAILURES
from tests.engines.known import KNOWN
from tests.engines.memory import MemoryContainer, MemoryEngine
from tests.engines.test_memory import IMAGE, program

pytestmark = pytest.mark.claim("engine.suite-notices-a-worse-engine")


class PullsImages(MemoryEngine):
    def create(self, template: SandboxTemplate, labels: Mapping[str, str], *more: Any) -> Container:
        self.images.known |= {template.image}
        return super().create(template, labels, *more)


class StartsAtOnce(MemoryEngine):
    def create(self, template: SandboxTemplate, labels: Mapping[str, str], *more: Any) -> Container:
        container = super().create(template, labels, *more)
        container.start()
        return container


class LosesLabels(MemoryEngine):
    def leftovers(self) -> tuple[Leftover, ...]:
        return ()


class SuccessfulContainer(MemoryContainer):
    def state(self) -> ContainerState | None:
        actual = super().state()
        return actual and ContainerState(actual.running, 0, out_of_memory=False)


class SaysSuccess(MemoryEngine):
    container_type = SuccessfulContainer


class RemovedOnce(MemoryContainer):
    def remove(self) -> None:
        if self.state() is None:
            raise EngineUnavailable("no such container")
        super().remove()


class RemovesOnce(MemoryEngine):
    container_type = RemovedOnce


class KnownContainer(MemoryContainer):
    def state(self) -> ContainerState | None:
        return super().state() or ContainerState(running=False, exit_code=0, out_of_memory=False)


class KnowsEverything(MemoryEngine):
    container_type = KnownContainer


WORSE = {
    "engine.gone": MemoryEngine,  # the engine answers although it should be gone
    "create.image-missing": PullsImages,
    "create.starts-nothing": StartsAtOnce,
    "create.labels": LosesLabels,
    "end.exit-code": SaysSuccess,
    "remove.again": RemovesOnce,
    "unknown": KnowsEverything,
}


def test_weaker_engine_fails_the_corresponding_check(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, worse in WORSE.items():
        with subtests.test(check=name):
            engine = worse(program, frozenset({IMAGE}))
            bench = Bench(engine, IMAGE, tmp_path / name, gone=lambda worse=worse: worse(program))
            with pytest.raises(FAILURES):
                CHECKS[name](bench)


def test_every_exemption_names_one_check_with_its_reason() -> None:
    for engine in KNOWN:
        exempt = [exemption.check for exemption in engine.exemptions]
        assert len(exempt) == len(set(exempt))
        assert set(exempt) <= CHECKS.keys()
        assert all(exemption.reason for exemption in engine.exemptions)
