"""Faults of GDAL are worked around unless a probe of exactly this image found them absent."""

import ast
from pathlib import Path

import pytest

from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.gdal import data_of
from gdal_mcp.toolboxes.gdal.environment import ANSWER_SETTINGS, environment
from gdal_mcp.toolboxes.gdal.faults import (
    FaultState,
    Probed,
    faults,
    load_probed,
    probe_program,
    save_probed,
    states_of,
)
from gdal_mcp.tools.toolbox import gdal
from sandbox.template import Limits

DIGEST, OTHER = f"sha256:{'a1' * 32}", f"sha256:{'b2' * 32}"
LIMITS = Limits()
WORKAROUNDS = {name: value for fault in faults().values() for name, value in fault.environment.items()}
ALL_ABSENT = {name: FaultState.ABSENT for name, fault in faults().items() if fault.probe}


def test_every_workaround_applies_without_probe_results():
    assert WORKAROUNDS
    for probed in (Probed(), Probed(DIGEST), Probed(DIGEST, dict.fromkeys(ALL_ABSENT, FaultState.PRESENT))):
        assert environment(LIMITS, probed).items() >= WORKAROUNDS.items()
    assert not environment(LIMITS, Probed(DIGEST, ALL_ABSENT)).keys() & WORKAROUNDS.keys()


def test_server_uses_only_the_results_of_its_image(tmp_path):
    save_probed(tmp_path, Probed(DIGEST, ALL_ABSENT))
    toolbox = gdal(load_settings(state_dir=tmp_path))
    assert not toolbox.execution.environment(LIMITS, DIGEST).keys() & WORKAROUNDS.keys()
    for digest in (OTHER, ""):
        assert toolbox.execution.environment(LIMITS, digest).items() >= WORKAROUNDS.items()


@pytest.mark.parametrize(
    "damage", [b"", b"\xff", b"[]", b'{"statistics_in_threads": "fine"}', b'{"statistics_in_threads": []}']
)
def test_results_that_cannot_be_read_are_unknown(tmp_path: Path, damage: bytes):
    save_probed(tmp_path, Probed(DIGEST, ALL_ABSENT))
    (path,) = (tmp_path / "faults").iterdir()
    path.write_bytes(damage)
    assert load_probed(tmp_path, DIGEST).state("statistics_in_threads") is FaultState.UNKNOWN


def test_only_true_and_false_are_results():
    name, *_ = ALL_ABSENT
    for answer, state in (
        (True, FaultState.PRESENT),
        (False, FaultState.ABSENT),
        *((odd, FaultState.UNKNOWN) for odd in (None, 0, 1, "", "false", [])),
    ):
        assert Probed(DIGEST, states_of({name: answer})).state(name) is state
    unprobed = next(name for name, fault in faults().items() if not fault.probe)
    assert states_of({unprobed: False, "unheard-of": False}) == {}
    assert states_of(None) == states_of([False]) == {}


def test_every_row_has_probe_and_every_patch_row():
    functions = {
        node.name for node in ast.walk(ast.parse(probe_program())) if isinstance(node, ast.FunctionDef)
    }
    assert ALL_ABSENT.keys() <= functions
    assert WORKAROUNDS.keys() <= set(ANSWER_SETTINGS)
    patches = data_of("gdal_mcp.toolboxes.gdal.catalogue", "patches.toml")["patch"]
    patched = {row["fault"] for row in patches if "fault" in row}
    assert patched == {name for name, fault in faults().items() if fault.patch}
