"""The worker keeps apart a file that does not open, a dataset that it cannot describe, and checks that were not made."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from gdal_mcp.toolboxes.gdal.preflight.description import FAILED
from gdal_mcp.toolboxes.gdal.preflight.sql.outline import outline_of

PARTS = "gdal_mcp.toolboxes.gdal.inside.parts"
FACTS = {"driver": "GTiff", "bands": [{"type": "Byte"}], "extent": [0, 0, 1, 1]}


@pytest.fixture
def describe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The worker's module, with a GDAL that answers anything."""
    before = {name: module for name, module in sys.modules.items() if name.startswith(f"{PARTS}.")}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    for name in ("osgeo", "numpy"):
        monkeypatch.setitem(sys.modules, name, MagicMock(spec=ModuleType))
    for name in ("gdal", "ogr", "osr"):
        setattr(sys.modules["osgeo"], name, MagicMock())
    sys.modules["osgeo"].gdal._gdal.__file__ = ""
    monkeypatch.setattr("ctypes.CDLL", MagicMock())
    module = importlib.import_module(f"{PARTS}.describe")
    monkeypatch.setattr(module, "opened", lambda *_: MagicMock(RasterCount=1))
    monkeypatch.setattr(module, "facts_and_names", lambda *_, **__: (dict(FACTS), {}))
    monkeypatch.setattr(module, "quiet", MagicMock())
    monkeypatch.setattr(module, "has_other_georeferencing", lambda _: False)
    yield module
    for name in [name for name in sys.modules if name.startswith(f"{PARTS}.")]:
        del sys.modules[name]
    sys.modules.update(before)


def brief(describe: Any, **job: Any) -> Any:
    return describe.brief(describe.described_input("/a.tif", job, []), "/a.tif")


def test_a_file_that_does_not_open_is_no_dataset(describe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "opened", lambda *_: None)
    assert brief(describe) == {"head": ""}


def test_dataset_that_cannot_be_described_is_unknown(describe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "facts_and_names", MagicMock(side_effect=ZeroDivisionError))
    assert brief(describe) == FAILED


def test_only_the_failing_probe_is_missing(describe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(_dataset: object, name: str) -> dict[str, int]:
        if name == "fails":
            raise TypeError
        return {"count": 1}

    monkeypatch.setattr(describe, "look", look)
    row = brief(describe, looks=("works", "fails"))
    assert row["facts"]["driver"] == "GTiff"
    assert row["looks"] == {"works": {"count": 1}}


@pytest.mark.usefixtures("describe")
def test_slow_statement_names_its_skipped_tests_of_values() -> None:
    checks, reporting = (importlib.import_module(f"{PARTS}.{name}") for name in ("sql_checks", "reporting"))
    slow = checks.MAX_SECONDS + 1
    assert checks.row_checks(None, outline_of("SELECT a FROM p WHERE b > c AND c <> 'x'"), slow) == []
    assert "nulls_excluded" in reporting.SKIPPED


@pytest.mark.usefixtures("describe")
def test_skipped_checks_of_other_process_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, reporting = (importlib.import_module(f"{PARTS}.{name}") for name in ("sql_checks", "reporting"))
    rows = [{"code": "nulls_excluded", "count": 1}, {"code": "checks_skipped", "skipped": ["keys_alike"]}]
    monkeypatch.setattr(checks, "in_time", lambda *_: rows)
    assert checks.row_checks(None, outline_of("SELECT a FROM p"), 0) == rows[:1]
    assert {"keys_alike"} == reporting.SKIPPED
