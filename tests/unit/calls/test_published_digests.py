"""Only a file that is verified as unchanged since publication has its digest in a list."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.calls.longresults import ResultStore
from gdal_mcp.records.registry import Artifact
from gdal_mcp.server.mcp.resources import Resources
from tests.e2e.web.test_artifact_store import Kept, put_another, write_in_place
from tests.waiting import until

pytestmark = pytest.mark.claim("outputs.digest-only-if-unchanged")

SHA, CHANGED = "io.gdal-mcp/sha256", "io.gdal-mcp/changed"


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Kept]:
    store = Kept(tmp_path)
    yield store
    store.registry.close()


@pytest.fixture
def resources(outputs: Kept, tmp_path: Path) -> Resources:
    return Resources(outputs.store, outputs.workspaces, 8, ResultStore(tmp_path / "results"))


def read(resources: Resources, artifact: Artifact) -> tuple[dict[str, Any], dict[str, Any]]:
    """The text contents of a resource as JSON, and the metadata of its bytes."""
    words, blob = resources.read(artifact.uri, "2025-11-25", None).contents
    return json.loads(words.text), blob.meta  # type: ignore[union-attr,return-value]


def listed(resources: Resources) -> dict[str, Any]:
    (resource,) = resources.page(None, None).resources
    assert resource.meta is not None
    return resource.meta


def touch(artifact: Artifact) -> None:
    """Touches the file until its time changes: file times advance in steps of some milliseconds."""

    def shows() -> bool:
        os.utime(artifact.path)
        return Path(artifact.path).stat().st_ctime > artifact.created

    until(shows)


def test_unchanged_output_has_its_published_digest(outputs: Kept, resources: Resources):
    artifact = outputs.publish()
    words, meta = read(resources, artifact)
    assert words["sha256"] == meta[SHA] == listed(resources)[SHA] == artifact.sha256
    assert "changed" not in words


@pytest.mark.parametrize("change", [write_in_place, put_another])
def test_what_is_not_is_said_to_have_changed(outputs, resources, change):
    artifact = outputs.publish()
    read(resources, artifact)
    change(Path(artifact.path))
    for _ in range(2):
        words, meta = read(resources, artifact)
        assert words["changed"] is meta[CHANGED] is True
        assert artifact.sha256 not in json.dumps([words, meta, listed(resources)])
    assert listed(resources)[CHANGED] is True


def test_touched_file_has_no_digest_until_read_again(outputs, resources):
    artifact = outputs.publish()
    touch(artifact)
    assert not {SHA, CHANGED} & listed(resources).keys()
    assert read(resources, artifact)[1][SHA] == artifact.sha256
    assert listed(resources)[SHA] == artifact.sha256


def test_what_changes_while_it_is_read_has_none(outputs, resources, monkeypatch):
    artifact = outputs.publish()
    real = os.pread

    def meanwhile(file: int, length: int, offset: int) -> bytes:
        write_in_place(Path(artifact.path))
        return real(file, length, offset)

    read(resources, artifact)  # it was compared before
    monkeypatch.setattr(os, "pread", meanwhile)
    assert SHA not in read(resources, artifact)[1]
