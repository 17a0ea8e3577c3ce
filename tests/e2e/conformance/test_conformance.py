"""The protocol's own conformance suite, in both eras, on the shipped server and on the suite's fixture tools."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.conformance import node
from tests.e2e.conformance.node import Programs
from tests.e2e.conformance.suite import ERAS, Check, Expected, complaints, expected, run
from tests.e2e.mcp.talk import Place
from tests.e2e.web.hosted import hosting

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

# requirements of an era for every server, whatever its tools
GENERIC = {
    "2025-11-25": """server-initialize ping tools-list resources-list prompts-list completion-complete resources-subscribe
        resources-unsubscribe dns-rebinding-protection server-session-lifecycle server-sse-multiple-streams""",
    "2026-07-28": """server-stateless tools-list resources-list prompts-list completion-complete caching sep-2164-resource-not-found
        dns-rebinding-protection server-sse-multiple-streams http-header-validation input-required-result-missing-input-response
        input-required-result-unsupported-methods input-required-result-ignore-extra-params input-required-result-validate-input""",
}


@pytest.fixture(scope="module")
def shipped(place: Place, grounds: Path, pinned: Programs, home: Path) -> Iterator[str]:
    """The address of `gdal-mcp serve --transport http`, which has published something."""
    options = ("--no-auth", "--approval", "never")
    with hosting(place, grounds / "conformance.log", *options) as hosted:
        arguments = '{"input": "rgb.tif", "output": "shipped.png"}'
        words = ("--tool-name", "convert", "--tool-args-json", arguments)
        called = pinned.inspector(
            *("--server-url", hosted.url, "--method", "tools/call", *words),
            cwd=home,
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            seconds=120,
        )
        assert called.returncode == 0, called.stderr
        yield hosted.url


@contextmanager
def fixture_server(folder: Path) -> Iterator[str]:
    """The address of the profile."""
    command = [sys.executable, "-m", "tests.e2e.conformance.profile", str(folder)]
    root = Path(__file__).parents[3]
    with (folder / "profile.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=root)
    assert process.stdout is not None
    with process:
        try:
            url = process.stdout.readline().strip()
            assert url, (folder / "profile.log").read_text()
            yield url
        finally:
            process.terminate()


@pytest.mark.parametrize("era", ERAS)
def test_shipped_server_passes_conformance_without_suite_tools(pinned, shipped, tmp_path, era):
    wanted = expected("shipped", era)
    assert wanted.passed.keys() >= set(GENERIC[era].split())
    assert complaints(run(pinned, shipped, era, tmp_path / "results"), wanted) == []


@pytest.mark.parametrize("era", ERAS)
def test_suite_tools_pass_all_requirements_of_each_era(pinned, tmp_path, era):
    with fixture_server(tmp_path) as url:
        results = run(pinned, url, era, tmp_path / "results")
    assert complaints(results, expected("profile", era)) == []


PASSED = [Check("a", "one", "SUCCESS"), Check("a", "two", "SUCCESS"), Check("b", "one", "WARNING")]
WANTED = Expected({"a": 2, "b": 0}, {"b:one": "a reason"})


def test_every_difference_from_recorded_results_is_reported():
    assert complaints(PASSED, WANTED) == []
    fails = [PASSED[0], replace(PASSED[1], status="FAILURE"), PASSED[2]]
    for different in (
        fails,
        [replace(check, status="SKIPPED") for check in PASSED],
        PASSED[1:],
        PASSED[2:],
        PASSED[:2],
        [*PASSED, Check("c", "one", "SUCCESS")],
        [*PASSED, Check("b", "wire-schema-valid", "FAILURE")],
        [*PASSED[:2], replace(PASSED[2], status="SUCCESS")],
    ):
        assert complaints(different, WANTED)


def test_skipped_scenario_excuses_no_schema_violation():
    wanted = Expected({}, {"b": "a reason"})
    assert complaints([PASSED[2]], wanted) == []
    assert complaints([PASSED[2], Check("b", "wire-schema-valid", "FAILURE")], wanted)


def test_unreachable_package_registry_is_an_error_without_remains(tmp_path, monkeypatch):
    for name, value in {"registry": "http://127.0.0.1:9/", "fetch_retries": "0", "cache": str(tmp_path / "cache")}.items():  # fmt: skip
        monkeypatch.setenv(f"npm_config_{name}", value)
    place = tmp_path / "share" / "conformance"
    place.parent.mkdir()
    with pytest.raises(node.NoNode):
        node._install(*node._node(), node.HERE, place)
    assert list(place.parent.iterdir()) == []
