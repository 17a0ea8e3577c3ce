"""A cluster's Pods do all that an engine's containers must, seen from inside and by what is left."""

import pytest

from tests.engines.bench import Bench
from tests.engines.checks import conforms
from tests.engines.known import KUBERNETES

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


@pytest.mark.claim(
    "engine.kubernetes-does-what-an-engine-must",
    "files.mounts-only",
    "resources.limits-hard",
    "sandbox.not-root",
    "sandbox.nothing-of-the-host-shown",
)
def test_it_conforms(bench: Bench, subtests: pytest.Subtests) -> None:
    conforms(bench, subtests, KUBERNETES.exemptions)
