"""gVisor under a separate Docker: what it guarantees, what it lacks, and that the product therefore runs nothing on
it.
"""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import docker
import pytest

from gdal_mcp.runtime.image import Image
from sandbox.engines.docker import DockerEngine
from sandbox.errors import AttestationFailed
from sandbox.program import delivered, worker_command
from sandbox.runner import Job, Runner
from sandbox.waiting import Cancellation
from tests.engines.bench import LIMITS, Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on, not_tried, unanswered
from tests.engines.known import GVISOR
from tests.private_engine import private_engine

pytestmark = [pytest.mark.nightly, pytest.mark.engine, pytest.mark.claim("engine.gvisor-is-judged-by-effect")]

# gVisor's own threads count too; without room for them, it sometimes dies
ROOMY = replace(LIMITS, pids=256)
RUNTIME = {"runsc": {"path": "runsc", "runtimeArgs": ["--network=none"]}}


@pytest.fixture(scope="module")
def bench(client: docker.DockerClient, image: Image) -> Iterator[Bench]:
    if not shutil.which("runsc"):  # Debian has a package, Ubuntu does not
        if not subprocess.run(["apt-cache", "show", "runsc"], capture_output=True, check=False).stdout:
            not_tried("gVisor", "this system's packages do not have it")
        raise AssertionError("gVisor is not here. `make engines` installs it where it may.")
    with private_engine(RUNTIME) as private:
        private.load(client, image.reference)
        with (
            private.client() as own,
            bench_on(DockerEngine(own), image.id, unanswered, "runsc", ROOMY) as new_bench,
        ):
            yield new_bench


def test_gvisor_is_as_it_is_told_to_be(bench: Bench, subtests: pytest.Subtests) -> None:
    conforms(bench, subtests, GVISOR.exemptions)


def test_no_job_runs_and_hidden_facts_are_named(bench: Bench) -> None:
    leave = "def prepare():\n    pass\n\ndef run(job, report):\n    open('/staging/ran', 'x').close()\n    return {'code': 0}\n"
    sent, cancel = delivered(worker_command(leave)), Cancellation()
    template = replace(bench.template(""), command=sent.command, program=sent.program)
    with contextlib.closing(cancel), pytest.raises(AttestationFailed) as caught:
        Runner(bench.engine, bench.owner).run(Job("call-0001", template, {}), cancel)
    assert {"CapAmb", "NoNewPrivs", "Seccomp"} <= set(re.findall(r"\w+(?=: asked)", str(caught.value)))
    assert not (bench.staging / "ran").exists()
