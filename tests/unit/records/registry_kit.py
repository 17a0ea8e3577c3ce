"""Fixtures for tests of the registry: a registry on a clock that a test moves, and calls with artifacts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.records.registry import Artifact, Call, Registry
from tests.unit.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "registry.sqlite"


@pytest.fixture
def registry(path: Path, clock: Clock) -> Iterator[Registry]:
    registry = Registry(path, clock)
    yield registry
    registry.close()


def begin(registry: Registry, call_id: str, **fields: Any) -> Call:
    return registry.begin_call(Call(call_id, "alice", "raster_convert", {"input": "a.tif"}, **fields))


def ended(call_id: str, outcome: str, **fields: Any) -> Call:
    return Call(call_id, "", "", {}, outcome=outcome, **fields)


def artifact(name: str, sha256: str = "00", size: int = 1) -> Artifact:
    return Artifact(f"file:///ws/{name}", f"/ws/{name}", name, size, "image/tiff", sha256)


def publish(registry: Registry, call_id: str, *artifacts: Artifact) -> tuple[Artifact, ...]:
    begin(registry, call_id)
    return registry.add_artifacts(call_id, artifacts)


def listed(registry: Registry) -> dict[str, str]:
    return {artifact.name: artifact.sha256 for artifact in registry.artifacts().items}
