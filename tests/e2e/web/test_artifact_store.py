"""Published files and files that replace them: real files, a real registry, no server."""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gdal_mcp.policy.identity import ADMIN, READ, Principal
from gdal_mcp.records import artifacts as module
from gdal_mcp.records.artifacts import FOLDER, Absent, ArtifactStore, Fingerprint, Gone, Opened
from gdal_mcp.records.registry import Artifact, Call, Registry
from sandbox.workspace import Workspace, Workspaces

CALL = "0123456789abcdef"
ANN = Principal("token:ann", frozenset({READ}))
BOB = Principal("token:bob", frozenset({READ}))
ROOT = Principal("token:root", frozenset({READ, ADMIN}))
OLD, NEW = b"what was published", b"WHAT STANDS THERE!"


class Kept:
    """A registry, a workspace, and the files published in it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.root.mkdir()
        self.registry = Registry(folder / "registry.sqlite")
        self.workspaces = Workspaces((Workspace.at(self.root, writable=True),))
        self.store = ArtifactStore(self.registry)
        self.registry.begin_call(Call(CALL, ANN.id, "convert", {}))

    def publish(self, name: str = "out.tif", data: bytes = OLD, kind: str = "image/tiff") -> Artifact:
        path = self.root / name
        if kind != FOLDER:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        artifact = Artifact(path.as_uri(), str(path), path.name, len(data), kind, sha256)
        return self.registry.add_artifacts(CALL, [artifact])[0]

    def open(self, artifact: Artifact) -> Opened:
        return self.store.open(artifact, self.workspaces)

    def read(self, artifact: Artifact) -> bytes:
        opened = self.open(artifact)
        try:
            return os.pread(opened.file, 1000, 0)
        finally:
            opened.close()


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[Kept]:
    stored = Kept(tmp_path)
    yield stored
    stored.registry.close()


def write_in_place(path: Path) -> None:
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:  # the kernel's file clock advances some hundred times a second
        with path.open("r+b") as file:
            file.write(NEW)


def put_another(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(NEW)
    other.rename(path)


def link_to_a_copy(path: Path) -> None:
    other = path.with_name("copy")
    path.rename(other)
    path.symlink_to(other)


def link_outside(path: Path) -> None:
    outside = path.parents[1] / "outside"
    outside.write_bytes(OLD)
    path.unlink()
    path.symlink_to(outside)


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


SWAPS = [write_in_place, put_another, link_to_a_copy, link_outside, make_pipe, make_folder, Path.unlink]


@pytest.mark.claim("http.files")
@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen"])
@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_substitute_for_a_file_is_never_served(outputs, swap, *, seen):
    artifact = outputs.publish()
    path, times = Path(artifact.path), os.stat(artifact.path)
    if seen:
        assert outputs.read(artifact) == OLD
    swap(path)
    if path.exists():
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises((Absent, Gone)):
        outputs.read(artifact)


@pytest.mark.claim("http.files")
@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen"])
def test_folder_replacing_another_brings_in_nothing(outputs: Kept, *, seen: bool):
    """Its files have the same times, so only their contents differ."""
    other = outputs.root / "other"
    other.mkdir()
    (other / "out.tif").write_bytes(NEW)
    artifact = outputs.publish("folder/out.tif")
    if seen:
        assert outputs.read(artifact) == OLD
    (outputs.root / "folder").rename(outputs.root / "gone")
    other.rename(outputs.root / "folder")
    with pytest.raises(Gone):
        outputs.read(artifact)


def test_file_changed_while_open_has_another_fingerprint(outputs: Kept):
    artifact = outputs.publish()
    opened = outputs.open(artifact)
    assert Fingerprint.of(opened.file) == opened.fingerprint
    write_in_place(Path(artifact.path))
    assert Fingerprint.of(opened.file) != opened.fingerprint
    opened.close()


def test_an_untouched_file_is_digested_once(outputs: Kept, monkeypatch: pytest.MonkeyPatch):
    digested: list[int] = []

    def counted(file: int) -> str:
        digested.append(file)
        return hashlib.sha256(OLD).hexdigest()

    monkeypatch.setattr(module, "digest", counted)
    artifact = outputs.publish()
    assert [outputs.read(artifact) for _ in range(5)] == [OLD] * 5
    assert len(digested) == 1


def test_large_unchanged_file_is_opened_without_reading_it(outputs: Kept, monkeypatch):
    artifact = outputs.publish()
    monkeypatch.setattr(module, "DIGEST_BYTES", len(OLD) - 1)
    with monkeypatch.context() as patched:
        patched.setattr(module, "digest", None)
        assert outputs.read(artifact) == OLD
    while os.stat(artifact.path).st_ctime <= artifact.created:  # the file clock advances in steps
        write_in_place(Path(artifact.path))
    with pytest.raises(Gone):
        outputs.read(artifact)


def test_verified_file_does_not_wait_for_another(outputs: Kept, monkeypatch: pytest.MonkeyPatch):
    first, second = outputs.publish("1.tif"), outputs.publish("2.tif")
    assert outputs.read(first) == OLD
    thread = ThreadPoolExecutor(1)

    def comparing(_file: int) -> str:
        assert thread.submit(outputs.read, first).result(10) == OLD
        return hashlib.sha256(OLD).hexdigest()

    monkeypatch.setattr(module, "digest", comparing)
    assert outputs.read(second) == OLD
    thread.shutdown()


def test_foreign_workspace_contains_nothing(outputs: Kept, tmp_path: Path):
    artifact = outputs.publish()
    (tmp_path / "elsewhere").mkdir()
    others = Workspaces((Workspace.at(tmp_path / "elsewhere", writable=True),))
    with pytest.raises(Absent):
        outputs.store.open(artifact, others)


def test_call_is_visible_to_owner_and_administrators(outputs: Kept):
    assert outputs.store.owner(CALL, ANN) == ANN.id
    assert outputs.store.owner(CALL, ROOT) == ANN.id
    for call_id in (CALL, "0" * 16, "", "../etc", "%", CALL.upper(), CALL + "\n"):
        with pytest.raises(Absent):
            outputs.store.owner(call_id, BOB)


def test_undone_replaced_or_unknown_output_is_not_found(outputs: Kept):
    first = outputs.publish()
    outputs.publish("tiles", kind=FOLDER)
    for name in ("tiles", "nothing", "", ".", "../registry.sqlite", str(first.path)):
        with pytest.raises(Absent):
            outputs.store.find(CALL, name)
    later = "fedcba9876543210"
    outputs.registry.begin_call(Call(later, BOB.id, "convert", {}))
    outputs.registry.add_artifacts(later, [replace(first, id=0)])
    with pytest.raises(Gone):
        outputs.store.find(CALL, "out.tif")
    outputs.registry.retract_artifacts(later)
    assert outputs.store.find(CALL, "out.tif").id == first.id
    outputs.registry.retract_artifacts(CALL)
    with pytest.raises(Gone):
        outputs.store.find(CALL, "out.tif")
