"""Rootless Docker: a job runs as the user of the server, in a staging folder closed to others, and never without
limits.

A host with control groups of version 1 gives it no limits, so the product must refuse it there. Its other guarantees
are still tested, on an engine whose refusal is removed.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import Image
from sandbox.engines import docker as docker_module
from sandbox.engines.docker import DockerEngine
from sandbox.errors import IsolationRefused
from tests.engines.bench import LEAVE_A_MARK, Bench
from tests.engines.checks import conforms
from tests.engines.kit import bench_on, unanswered, weaken_docker
from tests.engines.known import DOCKER_ROOTLESS
from tests.engines.rootless_docker import RootlessDocker, rootless_docker

pytestmark = [pytest.mark.nightly, pytest.mark.engine]
USER = 65534
ROOT = Path(__file__).parents[2]
# needed to read an interpreter in root's home
_READS = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")


@pytest.fixture(scope="module")
def rootless(client: docker.DockerClient, image: Image) -> Iterator[RootlessDocker]:
    with rootless_docker(USER) as engine:
        archive = client.images.get(image.reference).save(chunk_size=1 << 20, named=image.reference)
        with contextlib.closing(docker.DockerClient(base_url=engine.address, timeout=300)) as its:
            its.images.load(archive)
        yield engine


@pytest.fixture
def bench(rootless: RootlessDocker, image: Image) -> Iterator[Bench]:
    with (
        contextlib.closing(
            DockerEngine(docker.DockerClient(base_url=rootless.address, timeout=60))
        ) as engine,
        bench_on(engine, image.id, unanswered, user=(USER, USER)) as new_bench,
    ):
        new_bench.staging.chmod(0o700)
        yield new_bench


def test_engine_without_limits_creates_nothing_and_says_why(bench: Bench) -> None:
    info = bench.engine.info()
    assert info.rootless
    if not info.limits_missing:
        assert bench.run(LEAVE_A_MARK).code == 0
        return
    assert info.cgroup_version == "1"
    assert set(info.limits_missing) == {"memory", "cpu", "pids"}
    with pytest.raises(IsolationRefused, match="version 1"):
        bench.run(LEAVE_A_MARK)
    assert list(bench.staging.iterdir()) == []


def test_engine_conforms_except_for_impossible_limits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    unlimited = bool(bench.engine.info().limits_missing)
    if unlimited:
        monkeypatch.setattr(docker_module, "refuse_unlimited", lambda _: None)
        weaken_docker(monkeypatch, lambda _body, _host: None)
    conforms(bench, subtests, DOCKER_ROOTLESS.exemptions if unlimited else ())


def test_doctor_of_its_user_explains_why_nothing_runs(rootless: RootlessDocker, image: Image) -> None:
    with contextlib.closing(DockerEngine(docker.DockerClient(base_url=rootless.address))) as engine:
        unlimited = bool(engine.info().limits_missing)
    with tempfile.TemporaryDirectory(prefix="gme-home-") as name:
        for folder in ("", "ws"):
            (Path(name) / folder).mkdir(exist_ok=True)
            os.chown(Path(name) / folder, USER, USER)
        become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *_READS)
        words = ("doctor", "--json", "--engine", rootless.address, "--image", image.reference)
        done = subprocess.run(
            [*become, sys.executable, "-m", "gdal_mcp", *words, "--workspace", f"{name}/ws"],
            env={**os.environ, "HOME": name, "XDG_CACHE_HOME": f"{name}/cache", "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    report = json.loads(done.stdout)
    wrong = [row["found"] for row in report["rows"] if row["state"] == "failed"]
    if not unlimited:
        assert wrong == []
        return
    (refusal,) = (message for message in wrong if message.startswith("IsolationRefused"))
    assert all(word in refusal for word in ("memory", "cpu", "pids", "version 1"))
