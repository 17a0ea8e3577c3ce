"""A file that a step reads counts as the same only if nothing was written to it."""

import os
from pathlib import Path, PurePosixPath

from gdal_mcp.calls.workflows.used import UsedFile, UsedFiles
from gdal_mcp.plan import Command, Draft
from sandbox.workspace import Workspace, WorkspacePath, Workspaces

LIMIT = 1000  # bytes


def look(files: UsedFiles, root: Path, name: str) -> tuple[UsedFile, ...]:
    workspace = Workspace(root, writable=True)
    located = Workspaces((workspace,)).input(str(root / name))
    sidecars = sorted(root.glob("*.aux.xml"))

    def companions(path: WorkspacePath) -> list[Path]:
        return [] if path.is_folder else sidecars

    draft = Draft(Command("info", ()), (located,), ())
    return files.read_by(draft, Workspace(root / "store", writable=True), companions, LIMIT)


def test_file_counts_as_same_until_rewritten(tmp_path: Path):
    (tmp_path / "in.tif").write_bytes(b"red")
    files = UsedFiles()
    first = look(files, tmp_path, "in.tif")
    assert look(files, tmp_path, "in.tif") == first
    os.utime(tmp_path / "in.tif", (1000, 1000))
    again = look(files, tmp_path, "in.tif")
    assert again != first
    assert [file.content for file in again] == [file.content for file in first]


def test_file_is_reread_while_its_time_is_ambiguous(tmp_path: Path):
    path = tmp_path / "in.tif"
    path.write_bytes(b"red")
    written = path.stat().st_mtime
    files = UsedFiles(clock=lambda: written + 0.5)
    first = look(files, tmp_path, "in.tif")
    path.write_bytes(b"RED")
    os.utime(path, (written, written))
    assert look(files, tmp_path, "in.tif") != first


def test_a_sidecar_file_that_appears_is_a_change(tmp_path: Path):
    (tmp_path / "in.tif").write_bytes(b"red")
    files = UsedFiles()
    first = look(files, tmp_path, "in.tif")
    (tmp_path / "in.tif.aux.xml").write_bytes(b"<PAMDataset/>")
    assert look(files, tmp_path, "in.tif") != first


def test_folder_counts_as_same_until_a_file_changes(tmp_path: Path):
    inner = tmp_path / "data.zarr" / "0"
    inner.mkdir(parents=True)
    (inner / "chunk").write_bytes(b"red")
    files = UsedFiles()
    first = look(files, tmp_path, "data.zarr")
    assert look(files, tmp_path, "data.zarr") == first
    os.utime(inner / "chunk", (1000, 1000))
    assert look(files, tmp_path, "data.zarr") != first


def test_oversized_folder_counts_as_changed_after_any_change(tmp_path: Path):
    inner = tmp_path / "data.zarr"
    inner.mkdir()
    (inner / "link").symlink_to("nowhere")  # such a folder has no digest
    (inner / "chunk").write_bytes(b"red")
    files = UsedFiles()
    [first] = look(files, tmp_path, "data.zarr")
    os.utime(inner / "chunk", (1000, 1000))
    [again] = look(files, tmp_path, "data.zarr")
    assert again.content != first.content


def test_server_folder_is_not_part_of_its_workspace(tmp_path: Path):
    workspace = Workspace(tmp_path, writable=True)
    folder = WorkspacePath(workspace, PurePosixPath(), is_folder=True)
    draft = Draft(Command("info", ()), (folder,), ())
    (tmp_path / ".gdal-mcp").mkdir()

    def parts() -> list[str]:
        [used] = UsedFiles().read_by(draft, Workspace(tmp_path / "store", writable=True), lambda _path: (), 0)
        return [name for name, _ in used.parts]

    (tmp_path / ".gdal-mcp" / "call").write_bytes(b"")
    (tmp_path / "in.tif").write_bytes(b"")
    assert parts() == ["in.tif"]
