"""The attacks on a call and its container, made on Pods by the same tests as on other engines."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.kubernetes.conftest import ROOT, Ground

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


# `test_weakened` weakens requests to Docker; tests/unit/sandbox/engines/test_k8s_pod.py does that for Pods. No cluster
# runs the toolbox of `run_python`. The last two create no Pod: the attacks on the protocol itself, and what a GDAL
# without a sandbox does with the files.
_APART = " and ".join(
    f"not {name}" for name in ("test_weakened", "run_python", "test_protocol", "unprotected_readers")
)


@pytest.mark.timeout(3600)
@pytest.mark.claim("engine.kubernetes-does-what-an-engine-must")
@pytest.mark.parametrize("suite", ["escape", "attacks"])
def test_nothing_of_it_works(suite: str, ground: Ground, tmp_path: Path, subtests: pytest.Subtests) -> None:
    report, folder = tmp_path / "found.xml", ground.new_folder() / "run"
    words = (
        f"-q -n0 -p no:cacheprovider --basetemp {folder} --junitxml {report} tests/security/{suite}".split()
    )
    subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-k", _APART],
        cwd=ROOT,
        env={**os.environ, **ground.environment()},
        check=False,
    )
    cases = [*ET.parse(report).iter("testcase")]
    assert len(cases) > 20
    for case in cases:
        with subtests.test(f"{case.get('classname')} {case.get('name')}"):
            assert [outcome.get("message") for outcome in case if outcome.tag in ("failure", "error")] == []
