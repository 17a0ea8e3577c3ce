"""Finding the engine and the image, as a server does before its first call."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import docker
import pytest

from gdal_mcp.runtime.image import Image
from gdal_mcp.server.app import running
from gdal_mcp.settings import load_settings
from gdal_mcp.settings.types import LEAST_MEMORY
from sandbox.errors import AttestationFailed, StagingFailed
from sandbox.pool.pool import IDLE_MARGIN
from sandbox.program import delivered
from sandbox.workspace import RESERVED

pytestmark = pytest.mark.engine


@pytest.fixture
def silent_image(client: docker.DockerClient, image: Image) -> Iterator[str]:
    """The GDAL image under another name and with labels that do not contain its version."""
    opened = "org.opencontainers.image"
    labels = ("io.gdal-mcp.gdal-version", f"{opened}.version", f"{opened}.revision")
    recipe = "\n".join([f"FROM {image.id}", *(f'LABEL {name}=""' for name in labels)])
    built, _ = client.images.build(rm=True, fileobj=io.BytesIO(recipe.encode()), tag="gdal-mcp-test:silent")
    yield "gdal-mcp-test:silent"
    client.images.remove(built.id, force=True)


def test_image_without_version_label_is_asked(silent_image, image, workspace, tmp_path):
    """Uses the smallest memory that the settings allow, which must be enough for a container with GDAL."""
    settings = load_settings(
        workspaces=(workspace,), state_dir=tmp_path / "state", image=silent_image, memory=LEAST_MEMORY
    )
    with running(settings) as app:
        assert app.hosting.ready().image.version == image.version


@pytest.mark.claim("sandbox.host-attested")
def test_attestation_is_reused_until_something_changes(workspace, tmp_path):
    cached = tmp_path / "state" / "attestation-gdal.json"

    def attested(**changes: object) -> float:
        with running(load_settings(workspaces=(workspace,), state_dir=tmp_path / "state", **changes)) as app:
            assert all(row.ok for row in app.hosting.ready().attested)
        return cached.stat().st_mtime_ns

    first = attested()
    assert attested() == first
    assert attested(memory=256 << 20) > first


def test_program_is_compiled_once_unless_cache_is_damaged(workspace, tmp_path):
    cached = tmp_path / "state" / "program-gdal"
    sent = []
    for damaged in (False, False, True):
        if damaged:
            cached.write_bytes(cached.read_bytes()[:-1])
        with running(load_settings(workspaces=(workspace,), state_dir=tmp_path / "state")) as app:
            host = app.hosting.ready()
            sent.append((cached.stat().st_mtime_ns, host.program.program))
    text = delivered(host.toolbox.execution.program(app.settings.pool_seconds + IDLE_MARGIN))
    assert sent[0] == sent[1] != sent[2]
    assert sent[0][1] == sent[2][1] != text.program


@pytest.mark.claim("files.reserved-covered")
def test_removed_staging_folder_is_still_covered(workspace, tmp_path):
    """The next call that writes creates the folder again, and containers that were started before would see its
    contents.
    """
    with running(load_settings(workspaces=(workspace,), state_dir=tmp_path / "state")) as app:
        host = app.hosting.ready()
        shutil.rmtree(workspace / RESERVED)
        assert app.hosting.templates.build(host, None).masks == (PurePosixPath(workspace / RESERVED),)
        shutil.rmtree(workspace / RESERVED)
        (workspace / RESERVED).symlink_to(tmp_path)
        with pytest.raises(StagingFailed):
            app.hosting.templates.build(host, None)


@pytest.mark.claim("engine.weak-refused")
def test_runtime_unknown_to_the_engine_is_refused(workspace: Path, tmp_path: Path) -> None:
    settings = load_settings(workspaces=(workspace,), state_dir=tmp_path / "state", runtime="no-such-runtime")
    with running(settings) as app, pytest.raises(AttestationFailed):
        app.hosting.ready()
