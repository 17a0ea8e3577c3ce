"""Stored catalogues: each belongs to its image, and a damaged one is never silently skipped."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.cli import catalogue as catalogue_command
from gdal_mcp.runtime.image import Image
from gdal_mcp.settings import Settings, load_settings
from gdal_mcp.toolboxes.gdal.catalogue import store
from gdal_mcp.toolboxes.gdal.catalogue.errors import CatalogueBroken
from gdal_mcp.toolboxes.gdal.catalogue.load import catalogue_of, packaged_text

DIGEST = f"sha256:{'a1' * 32}"
OTHER = f"sha256:{'b2' * 32}"
IMAGE = "registry.example/gdal:nightly"


def release(version: str) -> str:
    return packaged_text().replace('"gdal":"3.13.3"', f'"gdal":"{version}"')


NEWER = release("3.14.0")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def stored(state: Path) -> Path:
    """The file of a stored catalogue of GDAL 3.14."""
    return store.save(state, IMAGE, DIGEST, NEWER)


def test_stored_catalogue_serves_only_its_image(tmp_path):
    for image, state in ((IMAGE, tmp_path / "named"), (None, tmp_path / "found")):
        for text in (NEWER, release("3.13.9")):
            store.save(state, image, DIGEST, text)
            assert store.select(state, image) == text
        assert store.select(state, "registry.example/gdal:other") == packaged_text()
        assert (store.select(state, None) == text) == (image is None)
        assert store.holds(state, image, DIGEST)
        assert not store.holds(state, image, OTHER)
        assert not store.holds(state, "registry.example/gdal:other", DIGEST)


def test_what_is_forgotten_is_not_used(state: Path, stored: Path) -> None:
    store.forget(state, IMAGE)
    assert store.select(state, IMAGE) == packaged_text()
    store.forget(state, IMAGE)
    store.forget(state / "nowhere", IMAGE)
    assert not (state / "nowhere").exists()


def test_nobody_else_can_read_or_write_it(state: Path, stored: Path) -> None:
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert stat.S_IMODE(stored.parent.stat().st_mode) == 0o700


def test_unreadable_stored_catalogue_is_refused_not_replaced(state, stored):
    stored.write_bytes(b"\xff")
    with pytest.raises(CatalogueBroken):
        store.select(state, IMAGE)
    stored.unlink()
    stored.mkdir()
    with pytest.raises(CatalogueBroken):
        store.select(state, IMAGE)


def test_failed_write_keeps_the_old_catalogue_only(state, stored, monkeypatch):
    def full(*_arguments: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", full)
        with pytest.raises(CatalogueBroken):
            store.save(state, IMAGE, DIGEST, release("3.15.0"))
    assert list(stored.parent.iterdir()) == [stored]
    assert store.select(state, IMAGE) == NEWER


class Asked:
    """Replaces the command's access to an image with a fixed answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str, text: str) -> None:
        self.image = Image(IMAGE, DIGEST, DIGEST, version, standin=False)
        self.times = 0
        self.text = text
        monkeypatch.setattr(catalogue_command, "_image_and_capture", self)

    def __call__(self, _settings: Settings) -> tuple[Image, str]:
        self.times += 1
        return self.image, self.text


@pytest.fixture
def settings(state: Path) -> Settings:
    return load_settings(state_dir=state, image=IMAGE)


UNKNOWN = NEWER.replace('{"name":"like","type":"dataset"', '{"name":"brand-new","type":"dataset"')


def test_setup_returns_to_packaged_data_when_image_agrees(state, settings, monkeypatch):
    for version, standin, times in (("3.13.3", True, 0), ("3.13.3", False, 1), ("", False, 1)):
        stored = store.save(state, IMAGE, DIGEST, NEWER)
        probe = Asked(monkeypatch, version, packaged_text())
        image = replace(probe.image, standin=standin, digest=OTHER)
        assert catalogue_command.after_setup(settings, image) == 0
        assert store.select(state, IMAGE) == packaged_text()
        assert not stored.exists()
        assert probe.times == times


def test_setup_stores_differing_build_of_packaged_release_once(state, settings, monkeypatch):
    probe = Asked(monkeypatch, "3.13.9", release("3.13.9"))
    for _ in range(2):
        assert catalogue_command.after_setup(settings, probe.image) == 0
    assert store.select(state, IMAGE) == release("3.13.9")
    assert probe.times == 1


def test_setup_serves_known_parts_despite_unassigned_arguments(state, settings, monkeypatch):
    for version in ("3.13.9", "3.14.0"):
        digest = f"sha256:{version}"
        probe = Asked(monkeypatch, version, UNKNOWN.replace("3.14.0", version))
        assert catalogue_command.after_setup(settings, replace(probe.image, digest=digest)) == 0
        catalogue = catalogue_of(store.select(state, IMAGE))
        assert not catalogue.incompatible(version)
        assert "brand-new" not in catalogue.algorithms["raster reproject"].long_names
        assert "resolution" in catalogue.algorithms["raster reproject"].long_names


def test_build_names_arguments_without_role(tmp_path, state, settings, monkeypatch, capsys):
    Asked(monkeypatch, "3.14.0", UNKNOWN)
    output = tmp_path / "out.json"  # written anyway, for a person to compare
    assert catalogue_command.build(settings, output) == 1
    assert output.read_text() == UNKNOWN
    message = capsys.readouterr().err
    assert all(path in message for path in ("raster reproject brand-new (dataset)", "vector clip brand-new"))
    assert not state.exists()


def test_set_up_fails_where_nothing_can_be_served(state, settings, monkeypatch):
    probe = Asked(monkeypatch, "3.14.0", "{}")
    assert catalogue_command.after_setup(settings, probe.image) == 1
    assert not state.exists()


def test_refresh_stores_servable_parts_and_writes_everything_captured(
    tmp_path, state, settings, monkeypatch, capsys
):
    Asked(monkeypatch, "3.14.0", UNKNOWN)
    output = tmp_path / "gdal-3.14.json"
    assert catalogue_command.refresh(settings, output) == 0
    assert output.read_text() == UNKNOWN
    assert "brand-new" in capsys.readouterr().out
    assert "brand-new" not in store.select(state, IMAGE)


def test_refresh_of_packaged_release_reports_no_change(state, settings, monkeypatch, capsys):
    Asked(monkeypatch, "3.13.3", packaged_text())
    assert catalogue_command.refresh(settings, None) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert store.select(state, IMAGE) == packaged_text()


def test_unwritable_output_is_a_failure(settings, monkeypatch):
    Asked(monkeypatch, "3.14.0", NEWER)
    nowhere = Path("/proc/catalogue.json")  # where no user can create a file
    assert catalogue_command.build(settings, nowhere) == 1


def test_build_is_stored_for_its_image(state, settings, monkeypatch):
    Asked(monkeypatch, "3.14.0", NEWER)
    assert catalogue_command.build(settings, None) == 0
    assert store.select(state, IMAGE) == NEWER
    assert store.select(state, None) == packaged_text()
