"""A server whose engine knows its folders by other names: a correct map works, and with a wrong map nothing runs."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from gdal_mcp.server.app import running
from gdal_mcp.settings import load_settings
from sandbox.errors import AttestationFailed
from sandbox.idmap import Views
from sandbox.labels import OWNER

pytestmark = [pytest.mark.nightly, pytest.mark.engine]


def folder(path: Path, *names: str) -> Path:
    path.mkdir(parents=True)
    path.chmod(0o755)
    for name in names:
        (path / name).write_bytes(b"x")
    return path


@pytest.fixture
def ground(tmp_path):
    """Two writable folders and a read-only one, each with a link as the name that the engine knows it by."""
    folders = [folder(tmp_path / name, "a.txt") for name in ("one", "two", "read")]
    (tmp_path / "host").mkdir()
    for path in folders:
        (tmp_path / "host" / path.name).symlink_to(path)
    return tmp_path


@pytest.fixture
def serving(ground, client, image):
    """`serving(*pairs)`: the hosting of a server with that path map; its containers are removed at the end."""

    @contextmanager
    def serve(*pairs: str):
        places = {"workspaces": (ground / "one", ground / "two"), "workspaces_ro": (ground / "read",)}
        settings = {"state_dir": ground / "state", "image": image.reference, "path_map": pairs}
        with running(load_settings(**places, **settings)) as app:
            yield app.hosting
            owner = app.owner.id
        assert client.api.containers(all=True, filters={"label": f"{OWNER}={owner}"}) == []

    return serve


def test_folders_are_found_by_names_on_engine_host(serving, ground):
    with serving(f"{ground}:{ground}/host") as hosting:
        rows = hosting.ready().attested
    proven = [row.name for row in rows if "path map" in row.name]
    assert len(proven) == 5  # three workspaces, two of them with staging
    assert all(row.ok for row in rows)


def wrong_workspace(ground: Path, name: str) -> list[str]:
    """A pair that maps to a folder with the same names in it."""
    folder(ground / "other" / name, "a.txt")
    (ground / "other" / name / ".gdal-mcp/staging").mkdir(parents=True)
    return [f"{ground}:{ground}/host", f"{ground}/{name}:{ground}/other/{name}"]


def wrong_staging(ground: Path, name: str) -> list[str]:
    """Correct workspaces, one of which has its staging elsewhere."""
    folder(ground / "other" / "staging")
    return [f"{ground}:{ground}/host", f"{ground}/{name}/.gdal-mcp/staging:{ground}/other/staging"]


def no_such_folder(ground: Path, name: str) -> list[str]:
    return [f"{ground}:{ground}/host", f"{ground}/{name}:{ground}/nowhere"]


def not_mapped(ground: Path, name: str) -> list[str]:
    return [f"{ground}/{other}:{ground}/host/{other}" for other in ("one", "two", "read") if other != name]


@pytest.mark.claim("engine.path-map-proven")
@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        *((wrong_workspace, "one"), (wrong_workspace, "two"), (wrong_workspace, "read")),
        *((wrong_staging, "one"), (wrong_staging, "two"), (no_such_folder, "two"), (no_such_folder, "read")),
        *((not_mapped, "one"), (not_mapped, "read")),
    ],
)
def test_one_wrong_pair_in_map_prevents_running(serving, ground, wrong, name):
    with serving(*wrong(ground, name)) as hosting:
        with pytest.raises(AttestationFailed) as caught:
            hosting.ready()
        assert not (ground / "state" / "attestation-gdal.json").exists()
    assert "path_map" in str(caught.value)  # the setting to correct


def test_a_map_is_proven_by_every_process(serving, ground):
    """The same pairs lead to another folder after a folder of the host was replaced."""
    with serving(f"{ground}:{ground}/host") as hosting:
        hosting.ready()
    (ground / "host" / "read").unlink()
    folder(ground / "host" / "read", "a.txt")
    with serving(f"{ground}:{ground}/host") as hosting, pytest.raises(AttestationFailed):
        hosting.ready()


@pytest.mark.claim("engine.path-map-proven")
def test_view_visible_only_to_the_server_is_refused(serving, ground, monkeypatch):
    """The engine does not see a mount inside the server's container, and would use the empty folder below it."""
    for name in ("one", "two", "read"):
        folder(ground / "state" / "views" / name)
        (ground / "state" / "views" / name / ".gdal-mcp").mkdir()
    monkeypatch.setattr(Views, "source", lambda _self, root, _user: ground / "state" / "views" / root.name)
    with serving(f"{ground}:{ground}") as hosting, pytest.raises(AttestationFailed):
        hosting.ready()


def test_state_folder_needs_no_pair_without_writable_workspaces(ground, image):
    """The engine may be unable to mount it, if it is a volume; and no container of such a server writes."""
    places = {"workspaces_ro": (ground / "read",), "state_dir": ground / "state"}
    pairs = (f"{ground}/read:{ground}/host/read",)
    with running(load_settings(**places, image=image.reference, path_map=pairs)) as app:
        app.hosting.ready()
