"""Unpacked images: found by name and content, moved by name, and collected when nothing uses them."""

import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox.engines.oci import store as store_module
from sandbox.engines.oci.bundle import Bundle
from sandbox.engines.oci.fetching import described, fetch, from_archive
from sandbox.engines.oci.store import ImageStore
from sandbox.errors import ImageMissing, PullFailed

NAME = "gdal:1"


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    (tmp_path / "images").mkdir()
    return ImageStore(tmp_path, fetch)


def image(text: str = "one", name: str = NAME) -> Callable[[Path], Mapping[str, Any]]:
    def unpack(root: Path) -> Mapping[str, Any]:
        (root / "usr/bin").mkdir(parents=True)
        (root / "usr/bin/tool").write_text(text)
        (root / "usr/bin/tool").chmod(0o4755)
        (root / "bin").symlink_to("usr/bin")
        os.mkfifo(root / "pipe")
        return {"names": [name], "labels": {"version": "3.13.3"}, "source": "a test"}

    return unpack


def again(store: ImageStore) -> ImageStore:
    """The store as another process opens it."""
    return ImageStore(store.root, fetch)


def test_image_is_found_by_name_and_content(store: ImageStore) -> None:
    added = store.add(image())
    for reference in (NAME, added.id):
        stored = again(store).find(reference)
        assert stored is not None
        assert (stored.id, stored.labels) == (added.id, {"version": "3.13.3"})
    assert store.names("gdal") == (NAME,)
    assert store.names("other") == ()
    assert store.find("gdal:2") is None
    with pytest.raises(ImageMissing):
        store.rootfs("sha256:" + "0" * 64)


def test_what_no_job_needs_is_taken_out(store: ImageStore) -> None:
    root = store.rootfs(store.add(image()).id)
    assert stat.S_IMODE((root / "usr/bin/tool").stat().st_mode) == 0o755
    assert sorted(os.listdir(root)) == ["bin", "usr"]


def rewritten(root: Path) -> None:
    (root / "usr/bin/tool").write_text("other")


def rewrite_with_same_times(root: Path) -> None:
    tool = root / "usr/bin/tool"
    times = tool.stat()
    tool.write_text("two")
    os.utime(tool, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": rewritten,
    "mode": lambda root: (root / "usr/bin/tool").chmod(0o777),
    "more": lambda root: (root / "usr/more").touch(),
    "less": lambda root: (root / "bin").unlink(),
    "a link in its place": lambda root: ((root / "bin").unlink(), (root / "bin").symlink_to("/etc")),
}


@pytest.mark.claim("engine.oci-image-compared")
def test_a_changed_image_is_unused_until_fetched_again(store, subtests):
    for name, change in CHANGES.items():
        with subtests.test(change=name):
            added = store.add(image())
            change(store.rootfs(added.id))
            with pytest.raises(ImageMissing):
                again(store).find(NAME)
            with pytest.raises(ImageMissing):
                again(store).rootfs(added.id)
    added = store.add(image())
    assert again(store).find(NAME) is not None
    rewrite_with_same_times(store.rootfs(added.id))
    assert again(store).find(NAME) is not None
    with pytest.raises(ImageMissing):
        again(store).check(added.id)


def test_damaged_image_does_not_hide_another(store: ImageStore) -> None:
    added = store.add(image())
    for number, text in enumerate(("", "{}", "[]", "null", '{"names": 5}', '{"names": []}')):
        place = store.folder / f"sha256-{number}"
        place.mkdir()
        (place / "image.json").write_text(text)
    stored = again(store).find(NAME)
    assert stored is not None
    assert stored.id == added.id


def test_damaged_labels_are_none_or_texts(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path, "one")
    bundle.folder.mkdir()
    for text, labels in {"": {}, "[]": {}, "null": {}, "5": {}, '{"a": 5}': {"a": "5"}}.items():
        (bundle.folder / "labels.json").write_text(text)
        assert bundle.labels == labels


def test_image_name_moves_to_newest_unused_are_collected(store, monkeypatch):
    old, new = store.add(image("one")), store.add(image("two"))
    assert store.find(NAME).id == new.id
    assert store.rootfs(old.id).is_dir()  # for servers that create containers from it
    store.add(image("two"))
    assert again(store).find(old.id) is not None
    container = store.root / "containers/1"
    container.mkdir(parents=True)
    (container / "config.json").write_text(f'{{"annotations": "{old.id}"}}')
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + store_module.UNUSED_SECONDS + 1)
    store.add(image("two"))
    assert again(store).find(old.id) is not None
    (container / "config.json").unlink()
    store.add(image("two"))
    assert again(store).find(old.id) is None
    assert len(os.listdir(store.folder)) == 1


def test_what_fails_while_it_is_unpacked_leaves_nothing(store: ImageStore, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tar"
    broken.write_bytes(b"no archive" * 1000)
    with pytest.raises(PullFailed):
        from_archive(store, broken, NAME, {})
    assert os.listdir(store.folder) == []


def test_a_layout_of_another_shape_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(PullFailed):
        described(tmp_path)
    (tmp_path / "index.json").write_text('{"manifests": []}')
    with pytest.raises(PullFailed):
        described(tmp_path)
